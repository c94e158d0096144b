"""Other readers: `gguf` and `@huggingface/gguf` accept the files that must be accepted, and reject the invalid ones.

`EXPLAINED` lists the known differences by rule; any other difference is a failure: a bug of theirs to report, or of
ours.
"""

from __future__ import annotations

import atexit
import json
import os
import shutil
import signal
import subprocess
import tempfile
import warnings
from collections.abc import Iterator
from contextlib import contextmanager
from functools import cache
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import pytest
from harness import HERE, broken, changed, inputs, replayed, require_answers, search

from i2s_spec.fuzzing.expectations import DecoderPolicy, Expectation, ExpectedAnswer, ReadDepth, expected_answer
from i2s_spec.gguf.reader import File
from i2s_spec.gguf.source import BufferSource
from i2s_spec.testing.mutator import mutate

#: Violations that a reader accepts, though no reader should; with the reason.
EXPLAINED = {
    "gguf": {
        "G402": "the offset is added as a wrapping 64-bit number, so that a huge one points into the header",
        "G209": "a string that reaches beyond the end of the file is cut there, and nothing that follows is missed",
    },
    "huggingface": dict.fromkeys(
        ("G101", "G108", "G109", "G201", "G209", "G213", "G301"), "what is beyond the end of the file reads as zeros"
    ),
}

#: Violations that make the reader hang or exhaust the memory: it does not run on these.
NOT_ASKED = {"gguf": {"G213", "G108", "G109"}, "huggingface": set()}

PYTHON = DecoderPolicy(ReadDepth.TENSORS, frozenset({"alignment"}))
NODE = DecoderPolicy(ReadDepth.HEADER, frozenset({"alignment", "i2s", "version-2"}))

SECONDS = 10


class TooSlowError(Exception):
    """A reader that does not end in time."""


@contextmanager
def _patience() -> Iterator[None]:
    def late(*args: object) -> None:
        raise TooSlowError

    before = signal.signal(signal.SIGPROF, late)
    signal.setitimer(signal.ITIMER_PROF, SECONDS)  # processor time, because other processes may need the processor
    try:
        yield
    finally:
        signal.setitimer(signal.ITIMER_PROF, 0)
        signal.signal(signal.SIGPROF, before)


@cache
def _place() -> Path:
    folder = tempfile.mkdtemp(prefix="i2s-differential-")
    atexit.register(shutil.rmtree, folder, ignore_errors=True)
    return Path(folder) / "input.gguf"


def by_gguf(path: Path) -> list[Any] | None:
    """The tensor table as the Python package reads it; None if it rejects the file."""
    from gguf import GGUFReader

    try:
        with _patience(), warnings.catch_warnings():
            warnings.simplefilter("ignore")  # NumPy warns of sums that overflow
            reader = GGUFReader(path)
            return [(t.name, [int(n) for n in t.shape]) for t in reader.tensors]
    except TooSlowError:
        raise
    except Exception:  # it documents no exception: any is a rejection
        return None


@cache
def _node() -> subprocess.Popen[str] | None:
    cache_folder = os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache"
    folder = Path(cache_folder) / "i2s-spec" / "runtimes" / "huggingface-gguf-0.4.6"
    if shutil.which("node") is None or not (folder / "node_modules" / "@huggingface" / "gguf").is_dir():
        return None
    words = ["node", str(HERE / "decoders" / "huggingface_pipe.mjs"), str(folder)]
    node = subprocess.Popen(words, stdin=subprocess.PIPE, stdout=subprocess.PIPE, encoding="utf-8")

    def end() -> None:
        node.kill()
        node.communicate()

    atexit.register(end)
    return node


def by_huggingface(path: Path) -> list[Any] | None:
    """The tensor table as @huggingface/gguf reads it; None if it rejects the file."""
    node = _node()
    assert node is not None
    assert node.stdin is not None
    assert node.stdout is not None
    node.stdin.write(f"{path}\n")
    node.stdin.flush()
    with _patience():
        line = node.stdout.readline()
    assert line, "node has ended"
    answer = json.loads(line)
    if not answer["accepted"]:
        return None
    return [(name, [int(n) for n in shape]) for name, shape, _, _ in answer["table"]]


READERS = {"gguf": (by_gguf, PYTHON), "huggingface": (by_huggingface, NODE)}


def missing(name: str) -> str | None:
    """Why a reader cannot run here."""
    if name == "gguf":
        return None if find_spec("gguf") else "the extra [gguf] is not installed"
    return None if _node() else "@huggingface/gguf is not installed: python tests/peers install @huggingface/gguf"


def one_input(data: bytes, readers: tuple[str, ...] = ("gguf", "huggingface")) -> None:
    """Check the properties for any bytes; every exception is a failure."""
    require_answers(data, "hash in.gguf --json", "show in.gguf --json", in__gguf=data)
    file = File(BufferSource(data))
    for name in readers:
        read, policy = READERS[name]
        expectation = expected_answer(data, policy)
        if (
            missing(name) is None
            and expectation.answer is not Expectation.EITHER
            and expectation.code not in NOT_ASKED[name]
        ):
            _place().write_bytes(data)
            _compare(name, expectation, read(_place()), file)


def _compare(name: str, expectation: ExpectedAnswer, table: list[Any] | None, file: File) -> None:
    if expectation.answer is Expectation.REJECT:
        assert table is None or expectation.code in EXPLAINED[name], (
            f"{name} accepts {expectation.code}: {expectation.reason}"
        )
        return
    assert table is not None, f"{name} rejects a sound file"
    ours = [(tensor.name, list(tensor.ne)) for tensor in file.tensors.rows]
    assert table == ours, f"{name} reads another table"


def _or_skip(name: str) -> None:
    reason = missing(name)
    if reason is not None:
        pytest.skip(reason)


@pytest.mark.parametrize("name", READERS)
@replayed("container", "differential")
def test_corpus(path: Path, name: str) -> None:
    _or_skip(name)
    one_input(path.read_bytes(), (name,))


@pytest.mark.parametrize("name", READERS)
def test_malformed_files(name: str) -> None:
    _or_skip(name)
    for data in broken(4_000, every=2):
        one_input(data, (name,))


@pytest.mark.parametrize("name", READERS)
def test_changed_files(name: str) -> None:
    _or_skip(name)
    plain = [path.read_bytes() for path in inputs("differential")]
    for data in [*changed(120, seed=3), *(mutate(data, seed, 1 << 14) for data in plain for seed in range(24))]:
        one_input(data, (name,))


def test_explanations_are_needed() -> None:
    """A difference that no longer occurs must be removed from the list."""
    _or_skip("gguf")
    for code, path in {
        "G402": HERE / "corpus" / "differential" / "offset-wraps.gguf",
        "G209": HERE / "regressions" / "differential" / "string-beyond-the-end.gguf",
    }.items():
        assert expected_answer(path.read_bytes(), PYTHON).code == code
        _place().write_bytes(path.read_bytes())
        assert by_gguf(_place()) is not None, code


if __name__ == "__main__":
    search(one_input)
