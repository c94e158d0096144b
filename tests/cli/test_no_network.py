"""No verb opens a connection, looks up a name or listens, unless it is given an address: the examples of all verbs run
under an audit hook, in a process of its own."""

from __future__ import annotations

import json
import shlex
import subprocess
import sys
from pathlib import Path
from typing import Final

import pytest

from i2s_spec.cli import VERBS

#: Verbs whose examples take long or need another program, and what is run of them.
_INSTEAD: Final = {
    "fuzz": f"i2s fuzz --runs 2 -- {shlex.quote(sys.executable)} -m i2s_spec lint -q",
    "vectors": "i2s vectors list --flag scale-as-f16",
    "conform": "i2s conform --help",  # it runs what it is given
    "spec": "i2s spec --help",  # it builds the site, and serves it on request
    "census": "i2s census --help",  # it draws what a run on a cluster wrote
    "quantize": "i2s new float.gguf --type F16 && i2s quantize float.gguf -o ternary.gguf",
}

_CHILD: Final = r"""
import json, os, shlex, sys
seen = []
def hook(event, arguments):
    if event in ("socket.connect", "socket.bind", "socket.getaddrinfo", "socket.gethostbyname", "socket.sendto"):
        seen.append([verb, event, repr(arguments[-1])[:100]])
    elif event == "socket.__new__" and arguments[1] not in (-1, 1):  # 1: within this machine
        seen.append([verb, event, repr(arguments[1:])])
verb = ""
sys.addaudithook(hook)
from i2s_spec.cli import cli, main
ended = {}
for verb, line in json.loads(sys.argv[1]).items():
    os.mkdir(verb)
    os.chdir(verb)
    line = line or cli.get_command(None, verb).epilog.partition("Example:")[2]
    for command in line.split("   ")[0].split("&&"):
        try:
            main(shlex.split(command)[1:])
            code = 0
        except SystemExit as error:
            code = error.code
        ended[command.strip()] = code
    os.chdir("..")
verb = "probe"
import socket
try:
    socket.create_connection(("127.0.0.1", 9), 0.1)
except OSError:
    pass
json.dump({"seen": seen, "ended": ended}, open("seen.json", "w", encoding="utf-8"))
"""


@pytest.mark.thorough
def test_no_verb_opens_a_socket_without_an_address(tmp_path: Path) -> None:
    lines = {verb: _INSTEAD.get(verb, "") for verb in VERBS}
    subprocess.run(
        [sys.executable, "-c", _CHILD, json.dumps(lines)],
        cwd=tmp_path, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, timeout=600, check=True,
    )  # fmt: skip
    found = json.loads((tmp_path / "seen.json").read_text("utf-8"))
    assert {verb for verb, *_ in found["seen"]} == {"probe"}, found["seen"]
    wrong = {command for command, code in found["ended"].items() if code != 0 and not command.startswith("i2s diff ")}
    assert not wrong
