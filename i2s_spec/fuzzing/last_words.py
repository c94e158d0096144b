"""This module finds what a program said itself before it died, among what a debugger said of it.

Programs that abort may attach a debugger to themselves and print its backtrace behind their own message (ggml does). What
helps is the message: which assertion failed, what was thrown.

    >>> own_words("ggml.c:12: GGML_ASSERT(n > 0) failed\\n[New LWP 12]\\nptrace: Operation not permitted.\\nNo stack.\\n")
    'ggml.c:12: GGML_ASSERT(n > 0) failed\\n'
"""

from __future__ import annotations

import re
from typing import Final

#: Lines that gdb or lldb print of a process that they attach to, and the lines of a backtrace.
_DEBUGGER: Final = re.compile(
    r"""\s*(?:
      \#\d+\s+(?:0x[0-9a-fA-F]+\s+in\s|\S.*\s(?:from|at)\s\S)   # a frame
    | \[(?:New|Current)\ (?:LWP|[Tt]hread)\b | \[Inferior\ \d | \[Thread\ debugging\ using | Using\ host\ libthread_db
    | (?:ptrace|gdb|lldb):\s | ptrace\(|\(gdb\)|\(lldb\)
    | Could\ not\ attach\ to\ process | No\ (?:stack|symbol\ table|threads)\b
    | The\ program\ (?:is\ not\ being\ run|has\ no\ registers)
    | 0x[0-9a-fA-F]+\ in\ \S+\ \(
    | warning:\ +(?:process\ \d+\ is\ (?:already\ traced|a\ zombie)|\d+\t|Unable\ to\ find)
    | warning:\ +.*(?:ptrace|debuginfo|source\ file)
    | (?:If|For)\ your\ uid\ matches | again\ as\ the\ root\ user | (?:Thread|process)\ \d+\ \(
    | (?:Reading|Loaded)\ symbols\ from | \d+\s+\.\./sysdeps/ | \d+\tin\ \.\./ | libggml\S*\(\S*\)\s*\[0x
    | WARNING:\ Using\ native\ backtrace | Set\ GGML_BACKTRACE_LLDB | GGML_NO_BACKTRACE | Aborted(?:\ \(core\ dumped\))?$
    ).*""",
    re.VERBOSE,
)


#: What a debugger warns of has no form of its own: beside its other lines it is taken for the debugger's.
_WARNING: Final = re.compile(r"warning:\s.*")


def own_words(text: str) -> str:
    """What was said without the lines of a debugger; all of it where nothing else is left."""
    lines = [line for line in text.splitlines(keepends=True) if line.strip()]
    out = [_DEBUGGER.fullmatch(line.rstrip("\n")) is not None for line in lines]
    own = [line for line, left_out in zip(lines, out, strict=True) if not left_out]
    for order in (range(len(lines)), reversed(range(len(lines)))):
        beside = False
        for i in order:
            beside = out[i] = out[i] or (beside and _WARNING.fullmatch(lines[i].rstrip("\n")) is not None)
    rest = [line for line, left_out in zip(lines, out, strict=True) if not left_out]
    return "".join(rest or own) or text
