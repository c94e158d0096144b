"""`i2s completion`: the script that lets a shell complete verbs, options, codes and names of tensors.

The script asks `candidates` what may stand at the end of the line that somebody is typing.
"""

from __future__ import annotations

import os
import re
import shlex
from collections.abc import Callable, Iterable, Iterator
from typing import Final, NamedTuple

import click
from click.shell_completion import CompletionItem, ShellComplete

from i2s_spec.draw.text import visible
from i2s_spec.errors import FormatError
from i2s_spec.schema.faults import MAGIC

#: Each script asks `i2s completion SHELL --line=...` for lines of kind, value and remark, with tabs between them. Values
#: are inserted quoted: by printf %q in bash, by compadd in zsh, by the shell itself in fish.
SCRIPTS = {
    "bash": r"""_i2s_completion() {
    local kind value remark quoted
    COMPREPLY=()
    while IFS=$'\t' read -r kind value remark; do
        case $kind in
            file) compopt -o default ;;
            dir) compopt -o dirnames ;;
            open) compopt -o nospace; printf -v quoted %q "$value"; COMPREPLY+=("$quoted") ;;
            plain) printf -v quoted %q "$value"; COMPREPLY+=("$quoted") ;;
        esac
    done < <("$1" completion bash --line="${COMP_LINE:0:COMP_POINT}" 2> /dev/null)
}
complete -F _i2s_completion i2s
""",
    "zsh": r"""#compdef i2s
_i2s() {
    local kind value remark
    local -a plain shown open
    local line="${(j: :)words[1,CURRENT-1]} $PREFIX"
    while IFS=$'\t' read -r kind value remark; do
        case $kind in
            (file) _files ;;
            (dir) _files -/ ;;
            (open) open+=("$value") ;;
            (plain) plain+=("$value"); shown+=("$value${remark:+  -- $remark}") ;;
        esac
    done < <("${(Q)words[1]}" completion zsh --line="$line" 2> /dev/null)
    (( $#open )) && compadd -S '' -a -- open
    (( $#plain )) && compadd -l -d shown -a -- plain
    return 0
}
if [[ $zsh_eval_context[-1] == loadautofunc ]]; then
    _i2s "$@"
else
    compdef _i2s i2s
fi
""",
    "fish": r"""function __i2s_completion
    set -l program (commandline -opc)[1]
    set -l line (commandline -cp | string collect)
    for answer in ($program completion fish --line=$line 2> /dev/null)
        set -l parts (string split -m 2 \t -- $answer)
        switch $parts[1]
            case file
                __fish_complete_path (commandline -ct)
            case dir
                __fish_complete_directories (commandline -ct)
            case '*'
                printf '%s\t%s\n' $parts[2] $parts[3]
        end
    end
end
complete -c i2s -f -a '(__i2s_completion)'
""",
}


@click.command(
    "completion",
    epilog="Example:  i2s completion bash",
    short_help="Print the completion script of a shell.",
)
@click.argument("shell", type=click.Choice(list(SCRIPTS)))
@click.option("--line", hidden=True, help="Answer for a line that ends at the cursor.")
def completion_command(shell: str, line: str | None) -> None:
    """Print the script that lets SHELL complete verbs, options, rule codes, dialects, and the names of the tensors and
    keys of the GGUF file on the line.

    For this session: source <(i2s completion bash), the same with zsh, or i2s completion fish | source. For good:

    \b
    bash:  i2s completion bash > ~/.local/share/bash-completion/completions/i2s
    zsh:   i2s completion zsh > "${fpath[1]}/_i2s"
    fish:  i2s completion fish > ~/.config/fish/completions/i2s.fish
    """
    if line is None:
        click.echo(SCRIPTS[shell], nl=False)
        return
    from i2s_spec.cli import cli

    cut = _cut(line) if shell == "bash" else 0
    for kind, value, remark in candidates(cli, line):
        unfinished = kind == "plain" and value.endswith("=")  # what follows belongs to the same word
        click.echo("\t".join(("open" if unfinished else kind, value[cut:], " ".join(remark.split()))))


def _cut(line: str) -> int:
    """How much of the last word bash takes for words of its own: it breaks them after `=` and `:`."""

    word = last_word(line)
    return max(word.rfind("="), word.rfind(":")) + 1


# --- candidates ------------------------------------------------------------------------------------------------------
# Most is click's knowledge of the commands. What else has names is added here by parameter: rules, dialects, types, numeric
# profiles, and the tensors and keys of the GGUF file that the line names. Names from a file are offered only where every
# character of them can be seen; the scripts of the shells quote what they insert.

#: Names of one file that are offered at most, and the longest of them.
MOST: Final = 1000
LONGEST: Final = 200

#: What needs no quoting in any shell: inside open quotes nothing else is offered.
_PLAIN: Final = re.compile(r"[A-Za-z0-9_./,+@%:=-]*")


class CompletionCandidate(NamedTuple):
    """What may stand in place of the word that is being typed; of the kinds `file` and `dir` the shell knows itself."""

    kind: str
    value: str
    help: str = ""


#: Names by what they begin with, each with a remark.
Names = Callable[[list[str], str], Iterable[tuple[str, str]]]


def candidates(group: click.Group, line: str, program: str = "i2s") -> Iterator[CompletionCandidate]:
    """What may stand at the end of a line.

    :param line: the line up to the cursor, in a shell's syntax, its first word the program's name
    """
    words, word, open_quote = _split(line)
    option, sign, rest = word.partition("=")
    prefix = ""
    if word.startswith("--") and sign:
        words, word, prefix = [*words, option], rest, f"{option}="
    for item in _Completer(group, {}, program, "_I2S_COMPLETE").get_completions(words[1:], word):
        if item.type != "plain":
            yield CompletionCandidate(item.type, "")
        elif not open_quote or _PLAIN.fullmatch(item.value):
            yield CompletionCandidate("plain", prefix + item.value, item.help or "")


def last_word(line: str) -> str:
    """Return the word of a line that is being typed, without its quotes."""
    return _split(line)[1]


def _split(line: str) -> tuple[list[str], str, bool]:
    """Return the finished words of a line, the one that is being typed, and whether it stands in open quotes."""
    lex = shlex.shlex(line, posix=True)
    lex.whitespace_split = True
    lex.commenters = ""
    words: list[str] = []
    try:
        words.extend(lex)
    except ValueError:  # the line ends inside quotes, or with a backslash
        return words, lex.token, True
    if not line or line[-1].isspace():
        return words, "", False
    return words[:-1], words[-1] if words else "", False


class _Completer(ShellComplete):
    """Click's completion; parameters whose values have names get them from `NAMES`."""

    name = "i2s"

    def get_completions(self, args: list[str], incomplete: str) -> list[CompletionItem[str]]:
        command: click.Command | None = self.cli
        context = click.Context(self.cli)
        for arg in args:
            if isinstance(command, click.Group):
                command = command.get_command(context, arg) or command
        for param in command.params if command is not None else ():
            names = NAMES.get(param.name or "")
            if names is not None and (isinstance(param.type, click.types.StringParamType)):
                # What click asks each parameter for; the answer needs the whole line, which click does not pass on.
                setattr(param, "shell_complete", _answer(names, args))  # noqa: B010
        return super().get_completions(args, incomplete)


def _answer(names: Names, args: list[str]) -> Callable[[click.Context, str], list[CompletionItem[str]]]:
    def answer(ctx: click.Context, incomplete: str) -> list[CompletionItem[str]]:
        return [CompletionItem(value, help=remark) for value, remark in names(args, incomplete)]

    return answer


# Each of these gives names that begin as the word does.


def _beginning(pairs: Iterable[tuple[str, str]], word: str) -> Iterator[tuple[str, str]]:
    return ((value, remark) for value, remark in pairs if value.startswith(word))


def _codes(args: list[str], word: str) -> Iterator[tuple[str, str]]:
    """Codes of rules; of a list with commas the last one."""
    from i2s_spec.linter.rules import all_rules

    before, comma, last = word.rpartition(",")
    known = [(rule.code, f"{rule.slug}: {rule.title}") for rule in all_rules()]
    known += [(rule.slug, f"{rule.code}: {rule.title}") for rule in all_rules() if last and last[0].islower()]
    for value, remark in _beginning(known, last):
        yield before + comma + value, remark


def _severities(args: list[str], word: str) -> Iterator[tuple[str, str]]:
    from i2s_spec.linter.rule import Severity

    code, sign, level = word.partition("=")
    if sign:
        yield from ((f"{code}={value}", "") for value, _ in _beginning(((each.value, "") for each in Severity), level))
    else:
        yield from ((f"{value}=", remark) for value, remark in _codes(args, word))


def _limits(args: list[str], word: str) -> Iterator[tuple[str, str]]:
    from i2s_spec.schema.limits import NAMED

    return _beginning(((f"{name}=", "") for name in NAMED), word)


def _reports(args: list[str], word: str) -> Iterator[tuple[str, str]]:
    from i2s_spec.linter.report import FORMATS

    return _beginning(((f"{name}=", "") for name in FORMATS), word)


def _dialects(args: list[str], word: str) -> Iterator[tuple[str, str]]:
    """Layouts, and after a slash code maps."""
    from i2s_spec.schema.dialect import CODE_MAPS, LAYOUTS

    layout, slash, _ = word.partition("/")
    if slash:
        return _beginning(((f"{layout}/{name}", "") for name in CODE_MAPS), word)
    return _beginning([("canonical", ""), *((name, "") for name in LAYOUTS)], word)


def _targets(args: list[str], word: str) -> Iterator[tuple[str, str]]:
    types = ("Q2_0", "TQ1_0", "TQ2_0", "PQ2_0", "PTQ1_0", "IQ1_BN", "IQ2_BN", "I2_SR", "F32", "F16", "BF16", "I2_S")
    yield from _beginning(((name, "") for name in types), word)
    yield from _dialects(args, word)


def _numerics(args: list[str], word: str) -> Iterator[tuple[str, str]]:
    from i2s_spec.model.numerics import NUMERIC_PROFILES

    return _beginning(((name, "") for name in NUMERIC_PROFILES), word)


def _architectures(args: list[str], word: str) -> Iterator[tuple[str, str]]:
    from i2s_spec.schema import llama_cpp
    from i2s_spec.schema.architectures import ARCHITECTURES

    loaded = sorted(llama_cpp.table().names.difference(ARCHITECTURES)) if "new" in args else []
    return _beginning(((name, "") for name in (*ARCHITECTURES, *loaded)), word)


def _tensors(args: list[str], word: str) -> Iterator[tuple[str, str]]:
    """Names of tensors of the first GGUF file on the line."""
    return _of_file(args, word, keys=False)


def _keys_and_tensors(args: list[str], word: str) -> Iterator[tuple[str, str]]:
    return _of_file(args, word, keys=True)


def _of_file(args: list[str], word: str, keys: bool) -> Iterator[tuple[str, str]]:
    path = next(filter(_is_gguf, map(os.path.expanduser, args)), None)
    if path is None:
        return
    from i2s_spec.gguf.reader import open as open_file

    start, left, options = word.encode("utf-8", "surrogateescape"), MOST, "--" not in args
    try:
        with open_file(path) as file:
            index = file.index
            for i in range(index.tensors):
                if left and (name := _shown(index.tensor(i).name, start, options)):
                    left -= 1
                    tensor = file.tensors.by_index(i)
                    shape = " x ".join(map(str, tensor.ne))
                    yield name, f"{tensor.type.name if tensor.type is not None else tensor.number} {shape}"
            for i in range(index.keys if keys else 0):
                if left and (name := _shown(index.key(i).name, start, options)):
                    left -= 1
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


#: What the values of parameters are called, by the parameter's name; commands of one name mean one thing by it.
NAMES: Final[dict[str, Names]] = {
    "select": _codes,
    "ignore": _codes,
    "codes": _codes,
    "prefixes": _codes,
    "may_accept": _codes,
    "must_reject": _codes,
    "severity": _severities,
    "limits": _limits,
    "reports": _reports,
    "dialect": _dialects,
    "dialect_a": _dialects,
    "dialect_b": _dialects,
    "expect": _dialects,
    "reference_dialect": _dialects,
    "source_dialect": _dialects,
    "to": _targets,
    "numerics": _numerics,
    "profile": _numerics,
    "arch": _architectures,
    "tensor": _tensors,
    "tensors": _tensors,
    "keep": _tensors,
    "also": _tensors,
    "what": _keys_and_tensors,
}
