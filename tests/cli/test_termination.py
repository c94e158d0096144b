"""A verb that is told to end leaves no unfinished file, and afterwards the signal does what it did."""

from __future__ import annotations

import os
import signal
import threading
from pathlib import Path

import pytest

from i2s_spec.cli.termination import EXIT_TERMINATED, cleaned_up
from i2s_spec.gguf.output import OutputFile


def test_an_unfinished_file_goes_with_the_program(tmp_path: Path) -> None:
    before = signal.getsignal(signal.SIGTERM)
    target = tmp_path / "out.gguf"

    def write() -> None:
        with cleaned_up(), OutputFile(target) as output:
            output.write(b"GGUF")
            assert os.listdir(tmp_path)
            os.kill(os.getpid(), signal.SIGTERM)

    with pytest.raises(SystemExit) as ended:
        write()
    assert ended.value.code == EXIT_TERMINATED == 143
    assert os.listdir(tmp_path) == []
    assert signal.getsignal(signal.SIGTERM) == before


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
