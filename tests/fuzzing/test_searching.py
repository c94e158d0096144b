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


class StandIn(SimpleNamespace):
    """As much of Atheris as the search calls; `Fuzz` tries the inputs that it was given."""

    def __init__(self, inputs: list[bytes]) -> None:
        super().__init__(inputs=inputs, instrumented=[], entered=[], given={}, mutated=[])
        self._trace_cmp = self._traced

    def _traced(self, left: Any, right: Any, number: int, counter: int, constant: bool) -> Any:
        assert isinstance(left, int | str | bytes)
        return ("<", "<=", "==", "!=", ">", ">=")[number]

    def instrument_func(self, function: Any) -> None:
        self.instrumented.append(function.__module__)

    def instrument_imports(self, include: list[str]) -> Any:
        return SimpleNamespace(__enter__=lambda: self.entered.append(include))

    def Setup(self, words: list[str], target: Any, **given: Any) -> None:  # noqa: N802
        self.target, self.given = target, given

    def Fuzz(self) -> None:  # noqa: N802
        self._trace_cmp = self._traced  # as Atheris installs its own
        for data in self.inputs:
            self.target(data)

    def Mutate(self, data: bytes, size: int) -> bytes:  # noqa: N802
        self.mutated.append(size)
        return (data + b"\n!")[:size]


@pytest.fixture
def searching(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Any:
    monkeypatch.syspath_prepend(str(FUZZ))
    monkeypatch.setattr(sys, "argv", ["fuzz_x.py", f"-artifact_prefix={tmp_path}/"])
    import searching

    return searching


def stand_in(monkeypatch: pytest.MonkeyPatch, *inputs: bytes) -> StandIn:
    atheris = StandIn(list(inputs))
    monkeypatch.setitem(sys.modules, "atheris", atheris)
    return atheris


def test_late_imports_are_instrumented_and_the_empty_input_comes_first(
    searching: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    atheris = stand_in(monkeypatch, b"a", b"b")
    seen: list[bytes] = []
    searching.search(seen.append)
    assert seen == [b"", b"a", b"b"]
    assert atheris.entered == [["i2s_spec"]]
    assert "i2s_spec.testing.mutator" in atheris.instrumented
    assert all(name.startswith("i2s_spec") for name in atheris.instrumented)
    assert atheris.given.keys() == {"custom_mutator", "custom_crossover"}


def test_attributes_of_foreign_objects_are_not_read(searching: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    class Deprecated:
        def __getattribute__(self, name: str) -> Any:
            raise AssertionError(f"asked for {name}")

    kept = Deprecated()
    stand_in(monkeypatch)
    searching.search(lambda data: None)
    assert type(kept) is Deprecated


def test_inputs_other_than_files_are_left_to_libfuzzer(searching: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    atheris = stand_in(monkeypatch)
    searching.search(lambda data: None, gguf=False)
    assert atheris.given == {}


def test_only_plain_comparisons_are_traced(searching: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    atheris = stand_in(monkeypatch, b"")
    searching.search(lambda data: None)
    compared = atheris._trace_cmp
    assert compared is not atheris._traced
    assert [compared(1, 2, number, 0, False) for number in range(6)] == ["<", "<=", "==", "!=", ">", ">="]
    array = np.arange(3)
    results = [compared(array, 1, number, 0, False).tolist() for number in range(6)]
    assert results == [(array < 1).tolist(), (array <= 1).tolist(), (array == 1).tolist(), (array != 1).tolist(),
                       (array > 1).tolist(), (array >= 1).tolist()]  # fmt: skip
    assert compared([1], [1], 2, 0, False) is True
    assert compared("a", b"a", 2, 0, False) == "=="


def test_a_failing_input_is_written_before_the_error_is_raised(
    searching: Any, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    stand_in(monkeypatch, b"fine", b"bad")

    def one_input(data: bytes) -> None:
        assert data != b"bad"

    with pytest.raises(AssertionError):
        searching.search(one_input)
    assert [path.name for path in tmp_path.iterdir()] == [f"crash-{sha1(b'bad').hexdigest()}"]
    assert next(tmp_path.iterdir()).read_bytes() == b"bad"


def test_words_before_a_file_stay_before_it(searching: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    atheris = stand_in(monkeypatch)
    searching.search(lambda data: None, behind=b"\n")
    assert atheris.given.keys() == {"custom_mutator"}
    mutator, file = atheris.given["custom_mutator"], Draft().data
    data = b"lint -q @\n" + file
    words = {mutator(data, 1 << 16, seed) for seed in range(1, 60, 2)}
    files = [mutator(data, 1 << 16, seed) for seed in range(0, 60, 2)]
    assert words == {b"lint -q @!\n" + file}
    assert all(made.startswith(b"lint -q @\n") for made in files)
    assert len(set(files)) > 20
    assert all(len(mutator(data, size, seed)) <= size for size in (1, 5, 12, 40, 400) for seed in range(20))


def test_fields_are_changed_nine_times_of_ten(searching: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    atheris = stand_in(monkeypatch)
    searching.search(lambda data: None)
    for seed in range(30):
        assert len(atheris.given["custom_mutator"](Draft().data, 4096, seed)) <= 4096
    assert atheris.mutated == [4096] * 3
