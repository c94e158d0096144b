#!/bin/sh
# A progress bar of rich that is drawn on stderr takes what the program prints on stdout, and writes it to stderr:
#
#     with Progress(console=Console(stderr=True)) as bar:
#         print("a result")
#
# `Progress` and `Live` redirect stdout to their console by default (redirect_stdout=True), so that printing does not
# damage the bar; they do so as well where the console is stderr, and stdout is a pipe or a file. `program | less` and
# `program > file` are then empty whenever stderr is a terminal, and right in every test and in CI, where it is none.
# With redirect_stdout=False the result is in the pipe.
#
# Seen with rich 15.0.0 from PyPI, Linux, Python 3.11:
#
#     default                stdout b''              stderr has the result: True
#     redirect_stdout=False  stdout b'a result\n'    stderr has the result: False
#
# Ends with 0 if all of this is still so, otherwise with 1.
set -eu
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
cd "$folder"
python3 -m venv python
python/bin/pip install --quiet --disable-pip-version-check --only-binary :all: "rich==${RICH:-15.0.0}"

cat > program.py <<'PYTHON'
import sys

from rich.console import Console
from rich.progress import Progress

with Progress(console=Console(stderr=True), transient=True, redirect_stdout=sys.argv[1] == "default") as bar:
    bar.add_task("working", total=None)
    print("a result")
PYTHON

cat > show.py <<'PYTHON'
import os
import pty
import subprocess
import sys

found = {}
for how in ("default", "redirect_stdout=False"):
    ours, terminal = pty.openpty()
    with subprocess.Popen([sys.executable, "program.py", how], stdout=subprocess.PIPE, stderr=terminal) as process:
        stdout = process.communicate()[0]
    os.close(terminal)
    found[how] = stdout, b"a result" in os.read(ours, 1 << 16)
    print(f"{how:<22} stdout {stdout!r:<15} stderr has the result: {found[how][1]}")
sys.exit(found != {"default": (b"", True), "redirect_stdout=False": (b"a result\n", False)})
PYTHON
python/bin/python show.py
