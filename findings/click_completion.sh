#!/bin/sh
# Two surprises about click's shell completion, for whoever completes lists ("G1,I105") or --option=value:
#
#   - in fish, a value ends at its first comma: the script splits "type,value" at every comma. In zsh the same value comes
#     whole
#   - of --option=value, click takes "value" for the word that is typed, and answers values without "--option=". In fish the
#     word is all of it, so fish offers nothing
#
# How it is shown: one command of click with an option whose callback offers "first,second". What its answer is for zsh is
# seen directly; what fish makes of it, by fish's own `complete -C`.
#
# Seen with click 8.5.1 from PyPI and fish 3.6.0, Linux x86-64:
#
#     zsh,  demo --list f     first,second
#     zsh,  demo --list=f     first,second
#     fish, demo --list f     first
#     fish, demo --list=f     nothing
#
# Ends with 0 if all of this is still so, otherwise with 1. Needs fish.
set -eu
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
cd "$folder"
python3 -m venv --system-site-packages python
python/bin/pip install --quiet click==8.5.1
cat > demo.py <<'PYTHON'
import click


@click.command()
@click.option("--list", shell_complete=lambda context, parameter, incomplete: ["first,second"])
def demo(list):
    pass


demo(prog_name="demo")
PYTHON
mkdir bin
printf '#!/bin/sh\nexec "%s/python/bin/python" "%s/demo.py" "$@"\n' "$folder" "$folder" > bin/demo
chmod +x bin/demo
PATH="$folder/bin:$PATH"
export PATH
_DEMO_COMPLETE=fish_source demo > demo.fish

zsh() { COMP_WORDS="demo $*" COMP_CWORD=$# _DEMO_COMPLETE=zsh_complete demo | sed -n 2p; }
fish_of() { fish --no-config -c "source demo.fish; complete -C 'demo $*'"; }

cat > expected <<'TEXT'
zsh,  demo --list f     first,second
zsh,  demo --list=f     first,second
fish, demo --list f     first
fish, demo --list=f     nothing
TEXT
{
    echo "zsh,  demo --list f     $(zsh --list f)"
    echo "zsh,  demo --list=f     $(zsh --list=f)"
    found=$(fish_of --list f)
    echo "fish, demo --list f     ${found:-nothing}"
    found=$(fish_of --list=f)
    echo "fish, demo --list=f     ${found:-nothing}"
} > seen
cat seen
cmp -s expected seen
