"""A command that gets a termination signal leaves no unfinished file; afterwards the signal has its usual effect."""

from __future__ import annotations

import os
import signal
import threading
from pathlib import Path

import pytest

from i2s_spec.cli.process import cleaned_up
from i2s_spec.gguf.atomic_file import OutputFile


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGHUP])
def test_an_unfinished_file_goes_with_the_program(tmp_path: Path, number: signal.Signals) -> None:
    before = signal.getsignal(number)
    target = tmp_path / "out.gguf"

    def write() -> None:
        with cleaned_up(), OutputFile(target) as output:
            output.write(b"GGUF")
            assert os.listdir(tmp_path)
            os.kill(os.getpid(), number)

    with pytest.raises(SystemExit) as ended:
        write()
    assert ended.value.code == 128 + number
    assert os.listdir(tmp_path) == []
    assert signal.getsignal(number) == before


def test_ignored_signals_stay_ignored() -> None:
    before = signal.signal(signal.SIGHUP, signal.SIG_IGN)
    try:
        with cleaned_up():
            assert signal.getsignal(signal.SIGHUP) is signal.SIG_IGN
    finally:
        signal.signal(signal.SIGHUP, before)


def test_other_threads_change_no_signal() -> None:
    """Only the main thread may; elsewhere the verb runs as it would without."""
    before, inside = signal.getsignal(signal.SIGTERM), []

    def run() -> None:
        with cleaned_up():
            inside.append(signal.getsignal(signal.SIGTERM))

    thread = threading.Thread(target=run)
    thread.start()
    thread.join()
    assert inside == [before]
