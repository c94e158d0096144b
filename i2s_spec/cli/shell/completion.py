"""`i2s completion SHELL`: the script that lets a shell complete verbs, options, codes and names of tensors."""

from __future__ import annotations

import click

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
def command(shell: str, line: str | None) -> None:
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
    from i2s_spec.cli.shell.candidates import candidates

    cut = _cut(line) if shell == "bash" else 0
    for kind, value, remark in candidates(cli, line):
        unfinished = kind == "plain" and value.endswith("=")  # what follows belongs to the same word
        click.echo("\t".join(("open" if unfinished else kind, value[cut:], " ".join(remark.split()))))


def _cut(line: str) -> int:
    """How much of the last word bash takes for words of its own: it breaks them after `=` and `:`."""
    from i2s_spec.cli.shell.candidates import last_word

    word = last_word(line)
    return max(word.rfind("="), word.rfind(":")) + 1
