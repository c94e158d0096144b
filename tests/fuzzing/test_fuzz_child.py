"""Runs with limits: each kind of end is distinguished, and no process or file remains."""

from __future__ import annotations

import os
import signal
import sys
import time
from pathlib import Path

import pytest

from i2s_spec.fuzzing.bounded_process import Bounds, Child, Command, own_words, run

PYTHON = [sys.executable, "-I", "-S", "-c"]
SMALL = Bounds(seconds=300, memory=128 << 20)


@pytest.fixture
def file(tmp_path: Path) -> Path:
    path = tmp_path / "a file.gguf"
    path.write_bytes(b"GGUF")
    return path


def shell(script: str, *more: str) -> Command:
    return Command(["sh", "-c", script, "sh", *more])


@pytest.mark.parametrize("status", [0, 1, 77])
def test_statuses(file: Path, status: int) -> None:
    outcome = run(shell(f"exit {status}"), file, SMALL)
    assert (outcome.status, outcome.signal, outcome.hung, outcome.out_of_memory) == (status, None, False, False)
    assert outcome.name == f"status {status}"


@pytest.mark.parametrize("name", ["SEGV", "ABRT", "FPE", "KILL", "TERM"])
def test_signals(file: Path, name: str) -> None:
    outcome = run(shell(f"kill -{name} $$"), file, SMALL)
    assert outcome.status is None
    assert outcome.name == f"SIG{name}"
    assert not outcome.hung


def test_the_file_comes_by_name_or_by_input(file: Path) -> None:
    assert run(shell('test "$(cat "$1")" = GGUF'), file, SMALL).status == 0
    assert run(shell('test "$(cat "${1#--file=}")" = GGUF', "--file={}"), file, SMALL).status == 0
    assert run(Command(["sh", "-c", 'test "$(cat)" = GGUF'], stdin=True), file, SMALL).status == 0
    assert run(shell("cat; test $? = 0"), file, SMALL).status == 0  # standard input is empty, so nothing blocks


def test_a_hang_ends_in_time(file: Path) -> None:
    outcome = run(shell("sleep 86400"), file, Bounds(seconds=0.3))  # reaching the next line is the test
    assert outcome.hung
    assert (outcome.status, outcome.signal) == (None, None)


def test_memory_is_bounded(file: Path) -> None:
    grow = "x = []\nwhile True: x.append(bytearray(8 << 20))"
    outcome = run(Command([*PYTHON, grow]), file, SMALL)
    assert outcome.out_of_memory
    assert not outcome.hung
    assert outcome.memory > SMALL.memory


def test_a_refused_allocation_is_not_excessive_memory_use(file: Path) -> None:
    limited = "import resource, time\nwhile resource.getrlimit(resource.RLIMIT_DATA)[0] < 0: time.sleep(0.01)\n"
    outcome = run(Command([*PYTHON, limited + "bytearray(1 << 40)"]), file, SMALL)  # the program sets its own limit
    assert (outcome.status, outcome.out_of_memory) == (1, False)
    assert "MemoryError" in outcome.stderr_tail


def test_grandchildren_are_killed_too(file: Path, tmp_path: Path) -> None:
    note = tmp_path / "pid"
    run(shell(f"sleep 300 & echo $! > {note}; exit 0"), file, SMALL)
    pid = int(note.read_text())
    for _ in range(3000):
        state = Path(f"/proc/{pid}/stat")
        if not state.exists() or state.read_text(encoding="utf-8").rpartition(")")[2].split()[0] == "Z":
            return
        time.sleep(0.02)
    os.kill(pid, signal.SIGKILL)
    pytest.fail("it still runs")


def test_a_run_can_be_ended_without_an_answer(file: Path) -> None:
    child = Child(shell("sleep 60"), file, SMALL)
    child.end()
    child.end()


def test_output_of_a_program_is_bounded(file: Path) -> None:
    outcome = run(Command([*PYTHON, "import sys; sys.stderr.write('x' * 9000 + 'end'); sys.exit(3)"]), file, SMALL)
    assert len(outcome.stderr_tail) <= 4096
    assert outcome.stderr_tail.endswith("end")


#: The output of a program that attaches gdb to itself, in the order of a real run; the text is invented.
ABORTED = """loading
ggml/src/ggml.c:1570: GGML_ASSERT(ne[0] % blck_size == 0) failed
[New LWP 4711]
[Thread debugging using libthread_db enabled]
Using host libthread_db library "/lib/x86_64-linux-gnu/libthread_db.so.1".
0x00007f12a40e4c17 in __GI___wait4 (pid=4712) at ../sysdeps/unix/sysv/linux/wait4.c:30
warning: 30	../sysdeps/unix/sysv/linux/wait4.c: No such file or directory
#0  0x00007f12a40e4c17 in __GI___wait4 (pid=4712) at ../sysdeps/unix/sysv/linux/wait4.c:30
#1  0x00007f12a4b6a0f4 in ggml_print_backtrace () from libggml-base.so
#2  main (argc=2, argv=0x7ffd) at main.c:12
[Inferior 1 (process 4710) detached]
"""


def test_the_programs_own_message_of_an_abort_is_kept(file: Path) -> None:
    code = f"import os, sys; sys.stderr.write({ABORTED!r}); sys.stderr.flush(); os.abort()"
    outcome = run(Command([*PYTHON, code]), file, SMALL)
    assert outcome.stderr_tail.splitlines()[-1] == "ggml/src/ggml.c:1570: GGML_ASSERT(ne[0] % blck_size == 0) failed"
    assert outcome.stderr_tail.splitlines()[0] == "loading"


def test_a_long_backtrace_does_not_hide_the_message(file: Path) -> None:
    frames = "#3  0x00007f12a4b6a0f4 in reader::next (this=0x1) from libreader.so\n"
    said = "terminate called: bad offset\n" + frames * 300
    code = f"import os, sys; sys.stderr.write({said!r}); sys.stderr.flush(); os._exit(3)"
    assert run(Command([*PYTHON, code]), file, SMALL).stderr_tail == "terminate called: bad offset\n"


@pytest.mark.parametrize(
    ("said", "own"),
    [
        ("ptrace: Operation not permitted.\nNo stack.\nThe program is not being run.\n", None),
        ("error: no threads\nNo threads.\n", "error: no threads\n"),
        ("Could not attach to process.  If your uid matches the uid\nbad magic\n", "bad magic\n"),
        ("#1 in the list is bad\n", "#1 in the list is bad\n"),
        ("warning: tensor 3 is odd\n", "warning: tensor 3 is odd\n"),
        ("GGML_ASSERT(n > 0) failed\nwarning: Error disabling randomization\n#0  main () at a.c:1\n",
         "GGML_ASSERT(n > 0) failed\n"),
        ("bad magic\n[New LWP 12]\nwarning: File x.py is declined\nwarning: and y.py\nNo stack.\n", "bad magic\n"),
        ("warning: tensor 3 is odd\nbad magic\n[New LWP 12]\n", "warning: tensor 3 is odd\nbad magic\n"),
        ("warning: tensor 3 is odd\nNo stack.\n", "warning: tensor 3 is odd\n"),
        ("", None),
    ],
)  # fmt: skip
def test_only_output_of_a_debugger_is_left_out(said: str, own: str | None) -> None:
    assert own_words(said) == (said if own is None else own)


def test_missing_programs_are_refused() -> None:
    with pytest.raises(ValueError, match="no program"):
        Command(["no-such-decoder"])
    with pytest.raises(ValueError, match="no command"):
        Command([])
