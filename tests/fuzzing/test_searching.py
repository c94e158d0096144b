"""The search: its calls of Atheris, tested with a stand-in, because Atheris need not be installed."""

from __future__ import annotations

import sys
from hashlib import sha1
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest

from i2s_spec.testing.sample import Draft

FUZZ = Path(__file__).resolve().parents[2] / "fuzz"


@pytest.fixture
def harness(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Any:
    monkeypatch.syspath_prepend(str(FUZZ))
    monkeypatch.setattr(sys, "argv", ["fuzz_x.py", f"-artifact_prefix={tmp_path}/"])
    import harness

    monkeypatch.setattr(harness, "EVERY", harness.EVERY)  # a search changes it
    return harness


@pytest.fixture
def atheris(monkeypatch: pytest.MonkeyPatch) -> SimpleNamespace:
    """As much of Atheris as the search calls; `Fuzz` tries the inputs that it was given."""

    def traced(left: Any, right: Any, number: int, counter: int, constant: bool) -> Any:
        assert isinstance(left, int | str | bytes)
        return "traced"

    def setup(words: list[str], target: Any, **given: Any) -> None:
        made.target, made.given = target, given

    made = SimpleNamespace(
        inputs=[b""], instrumented=[], given={}, _trace_cmp=traced, Setup=setup,
        Fuzz=lambda: [made.target(data) for data in made.inputs], Mutate=lambda data, size: (data + b"\n!")[:size],
        instrument_func=lambda function: made.instrumented.append(function.__module__),
        instrument_imports=lambda include: SimpleNamespace(__enter__=lambda: None),
    )  # fmt: skip
    monkeypatch.setitem(sys.modules, "atheris", made)
    return made


def test_only_plain_comparisons_are_traced(harness: Any, atheris: SimpleNamespace) -> None:
    harness.search(lambda data: None, gguf=False)
    array = np.arange(3)
    assert atheris._trace_cmp(array, 1, 0, 0, False).tolist() == (array < 1).tolist()
    assert atheris._trace_cmp([1], [1], 2, 0, False) is True
    assert atheris._trace_cmp("a", b"a", 2, 0, False) == "traced"
    assert all(name.startswith("i2s_spec") for name in atheris.instrumented)
    assert atheris.given == {}


def test_a_failing_input_is_written_before_the_error_is_raised(
    harness: Any, atheris: SimpleNamespace, tmp_path: Path
) -> None:
    def one_input(data: bytes) -> None:
        assert data != b"bad"

    atheris.inputs = [b"fine", b"bad"]
    with pytest.raises(AssertionError):
        harness.search(one_input)
    assert (tmp_path / f"crash-{sha1(b'bad').hexdigest()}").read_bytes() == b"bad"


def test_words_before_a_file_stay_before_it(harness: Any, atheris: SimpleNamespace) -> None:
    harness.search(lambda data: None, behind=b"\n")
    assert atheris.given.keys() == {"custom_mutator"}
    mutator, file = atheris.given["custom_mutator"], Draft().data
    data = b"lint -q @\n" + file
    assert {mutator(data, 1 << 16, seed) for seed in range(1, 60, 2)} == {b"lint -q @!\n" + file}
    files = {mutator(data, 1 << 16, seed) for seed in range(0, 60, 2)}
    assert len(files) > 20
    assert all(made.startswith(b"lint -q @\n") for made in files)
    assert all(len(mutator(data, size, seed)) <= size for size in (1, 5, 12, 40, 400) for seed in range(20))
