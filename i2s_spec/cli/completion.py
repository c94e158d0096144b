"""`i2s completion`: verbs, options, rule codes and names of tensors in bash, zsh and fish, by click's own scripts.

A script runs `i2s` with `_I2S_COMPLETE` set; then `verbs` imports this module, whose classes click asks. They add to
click's: names from the rules, the schema and the GGUF file on the line, `--option=value` as one word, and quoting: in
bash, click inserts what it is given, and a name from a file could be a command.
"""

from __future__ import annotations

import os
import re
import shlex
import warnings
from collections.abc import Callable, Iterable, Iterator
from itertools import islice
from typing import Any, Final

import click
from click.shell_completion import (
    BashComplete,
    CompletionItem,
    FishComplete,
    ShellComplete,
    ZshComplete,
    add_completion_class,
    get_completion_class,
)

from i2s_spec.draw.text import visible
from i2s_spec.errors import FormatError
from i2s_spec.schema.faults import MAGIC

#: The variable that makes `i2s` answer a shell, as click names it.
VARIABLE: Final = "_I2S_COMPLETE"


@click.command(
    "completion",
    epilog="Example:  i2s completion bash",
    short_help="Print the completion script of a shell.",
)
@click.argument("shell", type=click.Choice(["bash", "zsh", "fish"]))
def completion_command(shell: str) -> None:
    """Print the script that lets SHELL complete verbs, options, rule codes, dialects, and the names of the tensors and
    keys of the GGUF file on the line.

    For this session: source <(i2s completion bash), the same with zsh, or i2s completion fish | source. For good:

    \b
    bash:  i2s completion bash > ~/.local/share/bash-completion/completions/i2s
    zsh:   i2s completion zsh > "${fpath[1]}/_i2s"
    fish:  i2s completion fish > ~/.config/fish/completions/i2s.fish
    """
    click.echo(completer(shell).source(), nl=False)


def completer(shell: str) -> ShellComplete:
    """Return the completion of all verbs in a shell."""
    from i2s_spec.cli import cli

    kind = get_completion_class(shell)
    assert kind is not None
    return kind(cli, {}, "i2s", VARIABLE)


# --- shells ----------------------------------------------------------------------------------------------------------

#: Text that needs no quoting in any shell: inside open quotes nothing else is offered.
_PLAIN: Final = re.compile(r"[A-Za-z0-9_./,+@%:=-]*")


class _Completer(ShellComplete):
    """Click's completion; parameters whose values have names get them from `NAMES`."""

    def get_completions(self, args: list[str], incomplete: str) -> list[CompletionItem[Any]]:
        prefix = ""
        if incomplete.startswith("--") and "=" in incomplete:
            option, _, incomplete = incomplete.partition("=")
            args, prefix = [*args, option], f"{option}="
        command: click.Command | None = self.cli
        context = click.Context(self.cli)
        for arg in args:
            if isinstance(command, click.Group):
                command = command.get_command(context, arg) or command
        for param in command.params if command is not None else ():
            names = NAMES.get(param.name or "")
            if names is not None and isinstance(param.type, click.types.StringParamType):
                # What click asks each parameter for; the answer needs the whole line, which click does not pass on.
                setattr(param, "shell_complete", _answer(names, args))  # noqa: B010
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # a remark about a file would be printed into the line
            found = super().get_completions(args, incomplete)
        for item in found:
            if item.type == "plain":
                item.value = f"{prefix}{item.value}"
                item.help = " ".join((item.help or "").split())
        if _has_open_quote(os.environ.get("COMP_WORDS", "")):
            found = [item for item in found if item.type != "plain" or _PLAIN.fullmatch(item.value)]
        return found


def _answer(names: Names, args: list[str]) -> Callable[[click.Context, str], list[CompletionItem[str]]]:
    def answer(ctx: click.Context, incomplete: str) -> list[CompletionItem[str]]:
        return [
            CompletionItem(value, help=remark)
            for value, remark in names(args, incomplete)
            if value.startswith(incomplete)
        ]

    return answer


def _has_open_quote(line: str) -> bool:
    try:
        shlex.split(line)
    except ValueError:
        return True
    return False


class _Bash(_Completer, BashComplete):
    """Bash breaks words after `=` and `:`, and inserts values as they are."""

    source_template = BashComplete.source_template.replace("read type value", "read -r type value").replace(
        "COMPREPLY+=($value)", '[[ $value == *= ]] && compopt -o nospace\n            COMPREPLY+=("$value")'
    )
    #: The characters of the word before the cursor that are words of their own for bash.
    _cut = 0

    def get_completion_args(self) -> tuple[list[str], str]:
        args, word = super().get_completion_args()
        words: list[str] = []
        for each in [*args, word]:
            if words and (each in ("=", ":") or (words[-1].endswith(("=", ":")) and each)):
                words[-1] += each
            else:
                words.append(each)
        self._cut = max(words[-1].rfind("="), words[-1].rfind(":")) + 1
        return words[:-1], words[-1]

    def format_completion(self, item: CompletionItem[Any]) -> str:
        quoted = re.sub(r"([^\w./,+@%:=-])", r"\\\1", str(item.value)[self._cut :])
        return f"{item.type},{quoted}"


class _Zsh(_Completer, ZshComplete):
    """Zsh quotes values itself; no space follows one that ends with `=`, if it has no help."""

    source_template = ZshComplete.source_template.replace(
        "compadd -U -V unsorted -a completions",
        "compadd -U -V unsorted -S '' -- ${(M)completions:#*=}\n        compadd -U -V unsorted -- ${completions:#*=}",
    )

    def format_completion(self, item: CompletionItem[Any]) -> str:
        if item.value.endswith("="):
            item.help = None
        return super().format_completion(item)


class _Fish(_Completer, FishComplete):
    """Fish quotes values itself; in click's script, a value would end at its first comma."""

    source_template = FishComplete.source_template.replace('string split ","', 'string split -m 1 ","')


for _kind in (_Bash, _Zsh, _Fish):
    add_completion_class(_kind)


# --- names -----------------------------------------------------------------------------------------------------------
# Names from a file are offered only where every character of them can be seen.

#: Names of one file that are offered at most, and the longest of them.
MOST: Final = 1000
LONGEST: Final = 200

#: Values, each with a remark, for the words before the cursor and the one that is typed; others than those that begin
#: with it are left out by the caller.
Names = Callable[[list[str], str], Iterable[tuple[str, str]]]


def _plain(names: Iterable[str], ending: str = "") -> Iterator[tuple[str, str]]:
    return ((name + ending, "") for name in names)


def _codes(args: list[str], word: str) -> Iterator[tuple[str, str]]:
    """Yield codes of rules; of a list with commas the last one."""
    from i2s_spec.linter.rules import all_rules

    before, comma, last = word.rpartition(",")
    for rule in all_rules():
        yield before + comma + rule.code, f"{rule.slug}: {rule.title}"
    for rule in all_rules() if last and last[0].islower() else ():
        yield before + comma + rule.slug, f"{rule.code}: {rule.title}"


def _severities(args: list[str], word: str) -> Iterator[tuple[str, str]]:
    from i2s_spec.linter.rule import Severity

    code, sign, _ = word.partition("=")
    if sign:
        return _plain(f"{code}={each.value}" for each in Severity)
    return ((f"{value}=", remark) for value, remark in _codes(args, word))


def _limits(args: list[str], word: str) -> Iterator[tuple[str, str]]:
    from i2s_spec.schema.limits import NAMED

    return _plain(NAMED, "=")


def _reports(args: list[str], word: str) -> Iterator[tuple[str, str]]:
    from i2s_spec.linter.report import FORMATS

    return _plain(FORMATS, "=")


def _dialects(args: list[str], word: str) -> Iterator[tuple[str, str]]:
    """Yield layouts, and after a slash code maps."""
    from i2s_spec.schema.dialect import CODE_MAPS, LAYOUTS

    layout, slash, _ = word.partition("/")
    return _plain(f"{layout}/{name}" for name in CODE_MAPS) if slash else _plain(("canonical", *LAYOUTS))


def _targets(args: list[str], word: str) -> Iterator[tuple[str, str]]:
    types = ("Q2_0", "TQ1_0", "TQ2_0", "PQ2_0", "PTQ1_0", "IQ1_BN", "IQ2_BN", "I2_SR", "F32", "F16", "BF16", "I2_S")
    yield from _plain(types)
    yield from _dialects(args, word)


def _numerics(args: list[str], word: str) -> Iterator[tuple[str, str]]:
    from i2s_spec.model.numerics import NUMERIC_PROFILES

    return _plain(NUMERIC_PROFILES)


def _architectures(args: list[str], word: str) -> Iterator[tuple[str, str]]:
    from i2s_spec.schema import llama_cpp
    from i2s_spec.schema.architectures import ARCHITECTURES

    loaded = sorted(llama_cpp.table().names.difference(ARCHITECTURES)) if "new" in args else []
    return _plain((*ARCHITECTURES, *loaded))


def _tensors(args: list[str], word: str) -> Iterator[tuple[str, str]]:
    """Yield the names of tensors of the first GGUF file on the line."""
    return islice(_of_file(args, word, keys=False), MOST)


def _keys_and_tensors(args: list[str], word: str) -> Iterator[tuple[str, str]]:
    return islice(_of_file(args, word, keys=True), MOST)


def _of_file(args: list[str], word: str, keys: bool) -> Iterator[tuple[str, str]]:
    path = next(filter(_is_gguf, map(os.path.expanduser, args)), None)
    if path is None:
        return
    from i2s_spec.gguf.reader import open as open_file

    start, options = word.encode("utf-8", "surrogateescape"), "--" not in args
    try:
        with open_file(path) as file:
            index = file.index
            for i in range(index.tensors):
                if name := _shown(index.tensor(i).name, start, options):
                    tensor = file.tensors.by_index(i)
                    shape = " x ".join(map(str, tensor.ne))
                    yield name, f"{tensor.type.name if tensor.type is not None else tensor.number} {shape}"
            for i in range(index.keys if keys else 0):
                if name := _shown(index.key(i).name, start, options):
                    yield name, index.key(i).label
    except (FormatError, OSError, ValueError):  # a file that cannot be read names nothing
        return


def _is_gguf(path: str) -> bool:
    try:
        if not os.path.isfile(path):
            return False
        with open(path, "rb") as file:
            return file.read(len(MAGIC)) == MAGIC
    except (OSError, ValueError):
        return False


def _shown(name: bytes, start: bytes, options: bool) -> str:
    """Return a name that begins so and can be shown as it is; empty for others.

    :param options: whether the verb would take a name that begins with `-` for an option, so that it is not offered
    """
    if not name.startswith(start) or len(name) > LONGEST or (options and name.startswith(b"-")):
        return ""
    try:
        text = name.decode("utf-8")
    except UnicodeDecodeError:
        return ""
    return text if text.isprintable() and visible(text, LONGEST, bare=True) == text else ""


#: Where values come from, by the name of the parameter, which means one thing in all commands.
NAMES: Final[dict[str, Names]] = {
    **dict.fromkeys(("select", "ignore", "codes", "prefixes", "may_accept", "must_reject"), _codes),
    "severity": _severities,
    "limits": _limits,
    "reports": _reports,
    **dict.fromkeys(("dialect", "dialect_a", "dialect_b", "expect", "reference_dialect", "source_dialect"), _dialects),
    "to": _targets,
    **dict.fromkeys(("numerics", "profile"), _numerics),
    "arch": _architectures,
    **dict.fromkeys(("tensor", "tensors", "keep", "also"), _tensors),
    "what": _keys_and_tensors,
}
