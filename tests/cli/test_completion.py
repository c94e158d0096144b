"""Completion in real shells on a terminal: the inserted text is one word, and nothing from a file is executed."""

from __future__ import annotations

import os
import pty
import re
import select
import shutil
import subprocess
import sys
import time
from pathlib import Path

import pytest
from click.shell_completion import CompletionItem, split_arg_string
from pace import units

from i2s_spec.cli import cli
from i2s_spec.cli.completion import NAMES, completer
from i2s_spec.testing.sample import Draft

#: How to start a shell without the user's files and with as little output as possible.
START = {
    "bash": ["bash", "--norc", "--noprofile", "-i"],
    "zsh": ["zsh", "-f", "-i"],
    "fish": ["fish", "--no-config", "-i"],
}

#: Names that, without quoting, would run a program, end the line, or send escape sequences to the terminal.
HOSTILE = {
    "x$(touch pwned)": True,
    "x`touch pwned`": True,
    "x;touch pwned": True,
    "x|touch pwned": True,
    "x' touch pwned": True,
    'x" && touch pwned "': True,
    "x\\": False,
    "x*?[a]~#!": True,
    "x%(touch)": True,
    "x\ntouch pwned\n": False,
    "x\ttouch": False,
    "x\x1b[2J": False,
    "x\x03": False,
    "x\u202etouch": False,
}


def of_file(path: Path, *names: str) -> Path:
    draft = Draft()
    file = draft.records()
    for info, name in zip(file.tensor_infos, names, strict=False):
        info.name = name.encode()
    path.write_bytes(draft.built(file))
    return path


def items(line: str) -> list[CompletionItem[str]]:
    """What zsh is offered at the end of a line."""
    words = split_arg_string(line)
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("COMP_WORDS", line)
        patch.setenv("COMP_CWORD", str(len(words) if line.endswith(" ") else len(words) - 1))
        shell = completer("zsh")
        return shell.get_completions(*shell.get_completion_args())


def values(line: str) -> list[str]:
    return [each.value for each in items(line)]


# --- candidates ---------------------------------------------------------------------------------------------------


def test_candidates_fit_the_position(tmp_path: Path) -> None:
    path = of_file(tmp_path / "m.gguf", "blk.0.attn_q.weight", "blk.0.attn_k.weight", "output.weight")
    assert values("i2s do") == ["doctor"]
    assert values("i2s golden rec") == ["record"]
    assert "--select" in values("i2s lint --sel")
    assert "I105" in values("i2s lint --select I10")
    assert "G1,I105" in values("i2s lint --select G1,I10")
    assert values("i2s lint --select=I105") == ["--select=I105"]
    assert values("i2s explain tail-miss") == ["tail-missing"]
    assert values("i2s lint --severity I105") == ["I105="]
    assert values("i2s lint --severity I105=w") == ["I105=warning"]
    assert "interleave-64" in values("i2s diff --dialect-b inter")
    assert "interleave-64/zero-first" in values("i2s fix --dialect interleave-64/")
    assert values(f"i2s dump {path} blk.0.attn_") == ["blk.0.attn_q.weight", "blk.0.attn_k.weight"]
    assert values(f"i2s dump {path} general.ar") == ["general.architecture"]
    assert values("i2s new a.gguf --arch qwen35") == ["qwen35", "qwen35moe"]
    assert values("i2s convert a b --arch qwen") == ["qwen3", "qwen3-lm", "qwen35"]
    assert values(f"i2s decode {path} outp") == ["output.weight"]
    assert [each.type for each in items("i2s lint m")] == ["file"]
    assert values("i2s nothing --x") == values("i2s dump nofile.gguf blk") == []


def test_names_of_a_file_can_be_seen(tmp_path: Path) -> None:
    for name, shown in HOSTILE.items():
        path = of_file(tmp_path / "m.gguf", name)
        assert (name in values(f"i2s dump {path} x")) is shown, name
    of_file(path, "-rf", "--all", "x")
    assert values(f"i2s dump {path} -") == values("i2s dump a -")  # options, which these names would be taken for
    assert not {"-rf", "--all"} & set(values(f"i2s dump {path} "))
    assert {"-rf", "--all"} < set(values(f"i2s dump {path} -- "))
    assert values(f"i2s dump {path} -- -r") == ["-rf"]
    of_file(path, "x y", "xy")
    assert values(f"i2s dump {path} 'x") == ["xy"]  # inside open quotes, no name is offered that needs quotes itself


def test_every_source_of_names_belongs_to_a_parameter() -> None:
    import click

    def parameters(command: click.Command) -> set[str]:
        context = click.Context(command)
        found = {param.name or "" for param in command.params}
        for verb in command.list_commands(context) if isinstance(command, click.Group) else ():
            inner = command.get_command(context, verb)
            found |= set() if inner is None else parameters(inner)
        return found

    assert set(NAMES) <= parameters(cli)


def test_a_large_file_is_answered_at_once(tmp_path: Path) -> None:
    draft = Draft()
    file = draft.records()
    first = file.tensor_infos[0]
    file.tensor_infos += [type(first)(**{**first, "name": b"many.%d" % i}) for i in range(20_000)]
    path = tmp_path / "many.gguf"
    path.write_bytes(draft.built(file))
    assert len(values(f"i2s dump {path} many.1")) == 1000
    assert units(lambda: values(f"i2s dump {path} many.19")) < 400


def test_a_fifo_is_not_opened(tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "fifo")
    assert values(f"i2s dump {tmp_path / 'fifo'} x") == []


# --- in shells ----------------------------------------------------------------------------------------------------


#: The test process may have threads; the forked process becomes a shell at once.
pytestmark = pytest.mark.filterwarnings("ignore:.*forkpty:DeprecationWarning")


class Terminal:
    """A shell on a terminal of its own."""

    def __init__(self, shell: str, folder: Path) -> None:
        bin_folder = folder / "bin"
        bin_folder.mkdir(exist_ok=True)
        program = bin_folder / "i2s"
        program.write_text(f'#!/bin/sh\nexec "{sys.executable}" -m i2s_spec "$@"\n')
        program.chmod(0o755)
        environment = {
            "PATH": f"{bin_folder}:{os.environ['PATH']}",
            "HOME": str(folder),
            "TERM": "vt100",
            "LANG": "C.UTF-8",
        }
        self._pid, self._terminal = pty.fork()
        if self._pid == 0:
            os.chdir(folder)
            os.execvpe(START[shell][0], START[shell], environment)

    def send(self, text: str) -> None:
        os.write(self._terminal, text.encode())

    def wait(self, ready: Path, seconds: float = 600) -> None:
        """Read the output until a file exists."""
        end = time.monotonic() + seconds
        while not ready.exists() and time.monotonic() < end:
            if select.select([self._terminal], [], [], 0.1)[0]:
                try:
                    os.read(self._terminal, 65536)
                except OSError:
                    break
        assert ready.exists()

    def until(self, text: str, seconds: float = 600) -> str:
        """Read the output until it contains a text."""
        shown, end = "", time.monotonic() + seconds
        while text not in shown and time.monotonic() < end:
            if select.select([self._terminal], [], [], 0.1)[0]:
                try:
                    shown += os.read(self._terminal, 65536).decode("utf-8", "replace")
                except OSError:
                    break
        assert text in shown
        return shown

    def close(self) -> None:
        os.close(self._terminal)
        os.kill(self._pid, 9)
        os.waitpid(self._pid, 0)


def prepared(shell: str, folder: Path) -> Terminal:
    """A shell in which completion is set up, and `record` writes its arguments to the file `words`."""
    if shutil.which(shell) is None:
        pytest.skip(f"{shell} is not installed")
    (folder / "completion").write_text(completer(shell).source())
    (folder / "record").write_text('#!/bin/sh\nprintf "%s\\0" "$@" > words.part && mv words.part words\n')
    (folder / "record").chmod(0o755)
    terminal = Terminal(shell, folder)
    if shell == "zsh":
        terminal.send("PS1='> '; bindkey -e; autoload -U compinit && compinit -D -u; ")
    terminal.send("source ./completion; ./record ready; touch set-up\n" if shell != "fish" else "source ./completion\n")
    if shell == "fish":
        terminal.send("touch set-up\n")
    terminal.wait(folder / "set-up")
    return terminal


@pytest.mark.parametrize("shell", START)
def test_completion_in_a_shell(shell: str, tmp_path: Path) -> None:
    """What TAB inserts is what stands in the file, as one word; nothing of it is executed."""
    names = ["blk.0.attn_q.weight", "x$(touch pwned);`touch pwned` 'a' \"b\" *"]
    of_file(tmp_path / "m.gguf", *names)
    terminal = prepared(shell, tmp_path)
    try:
        for start, whole, end in (("x", names[1], "*"), ("blk", names[0], "weight")):
            (tmp_path / "words").unlink(missing_ok=True)
            terminal.send(f"i2s dump m.gguf {start}\t")
            terminal.until(end)
            terminal.send("\x01./record \x05\n")  # insert at the start of the line, then go to its end
            terminal.wait(tmp_path / "words")
            assert (tmp_path / "words").read_text().split("\0")[:-1] == ["i2s", "dump", "m.gguf", whole]
            assert not (tmp_path / "pwned").exists()
    finally:
        terminal.close()


#: What is typed, what is inserted behind it, and the last word then; a space follows if the word is complete.
INSERTED = [
    ("i2s lint --severity I105=w", "arning", ["I105=warning", "."]),
    ("i2s lint --severity=I105=w", "arning", ["--severity=I105=warning", "."]),
    ("i2s lint --severity I105", "=", ["I105=."]),
    ("i2s lint --sev", "erity", ["--severity", "."]),
    ("i2s lint --limit key", "=", ["keys=."]),
    ("i2s lint --select G1,tail-mi", "ssing", ["G1,tail-missing", "."]),
    ("i2s lint --select=G1,tail-mi", "ssing", ["--select=G1,tail-missing", "."]),
    ("i2s fix --dialect interleave-64/z", "ero-first", ["interleave-64/zero-first", "."]),
    ("i2s dump m.gguf general.ar", "chitecture", ["general.architecture", "."]),
]


@pytest.mark.parametrize("shell", START)
def test_values_of_options_in_a_shell(shell: str, tmp_path: Path) -> None:
    """The end of a word is inserted once, and a space behind it unless more of the same word must follow."""
    of_file(tmp_path / "m.gguf", "x")
    terminal = prepared(shell, tmp_path)
    try:
        for typed, inserted, words in INSERTED:
            (tmp_path / "words").unlink(missing_ok=True)
            terminal.send(f"{typed}\t")
            terminal.until(inserted)
            terminal.send(".\x01./record \x05\n")
            terminal.wait(tmp_path / "words")
            found = (tmp_path / "words").read_text(encoding="utf-8").split("\0")[:-1]
            assert found[-len(words) :] == words, typed
    finally:
        terminal.close()


@pytest.mark.parametrize("shell", START)
def test_listed_candidates_are_harmless(shell: str, tmp_path: Path) -> None:
    """Several answers are shown; none of them acts on the terminal."""
    of_file(tmp_path / "m.gguf", "x\x1b[2Jone", "xa_two", "xb_three")
    terminal = prepared(shell, tmp_path)
    try:
        terminal.send("i2s dump m.gguf x\t\t")
        shown = terminal.until("b_three")
    finally:
        terminal.close()
    assert "a_two" in shown
    assert "one" not in re.sub(r"\x1b\[[0-9;?]*[A-Za-z]", "", shown)


@pytest.mark.parametrize("shell", START)
def test_scripts_are_sound(shell: str, tmp_path: Path) -> None:
    if shutil.which(shell) is None:
        pytest.skip(f"{shell} is not installed")
    script = tmp_path / "script"
    script.write_text(completer(shell).source())
    done = subprocess.run([shell, "-n", str(script)], capture_output=True, encoding="utf-8", check=False, timeout=600)
    assert (done.returncode, done.stderr) == (0, "")
