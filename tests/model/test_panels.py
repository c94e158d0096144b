"""Products of many tokens by panels equal the definition, bit for bit; and which processors use panels.

Every kernel of every set that this processor supports is run, whether or not the processor would select it: panels
(which AMX multiplies by tiles) from one token on, the kernel of AMX for fewer tokens, and the kernel for one to four
tokens with any number.
"""

from __future__ import annotations

import platform
from collections.abc import Iterator
from pathlib import Path
from typing import Any, Final

import numpy as np
import pytest
from examples import examples
from hypothesis import given
from hypothesis import strategies as st
from test_forward import model_file

from i2s_spec.codec import isa
from i2s_spec.codec.kernels import RunLayout, unpack
from i2s_spec.model import _matmul
from i2s_spec.model.load import load_model
from i2s_spec.model.reference import bitlinear, matmul

#: Thresholds in tokens: always, never, and the processor's default.
PANELS, FEW, BY_PROCESSOR = 1, 1 << 40, -1


def _can_be_forced(row: int) -> bool:
    try:
        _matmul.force_panels(row, BY_PROCESSOR)
    except ValueError:
        return False
    return True


#: The number of tokens from which a set uses panels, on every processor.
LEAST: Final = {"dotprod": 16, "i8mm": 8, "amx": 6}

#: Sets with a separate kernel for many tokens; AVX-512VL uses that of AVX-512.
SETS: Final = {
    each.name: each.row
    for each in matmul.kernel_sets()
    if each.available and each.name != "avx512vl" and _can_be_forced(each.row)
}

#: Thresholds for panels, and for the few-token kernel if the set has one, so that every kernel runs.
FORCED: Final = {
    name: [(PANELS, None), (FEW, None), *([(FEW, PANELS)] if name == "amx" else []), (BY_PROCESSOR, None)]
    for name in SETS
}
needs_panels = pytest.mark.skipif(
    not SETS, reason="no set of this processor has panels: they need AVX-512 VNNI, or dot products of ARM"
)
each_set = pytest.mark.parametrize("name", SETS)


@pytest.fixture(autouse=True)
def by_the_processor_again() -> Iterator[None]:
    yield
    for row in SETS.values():
        _matmul.force_panels(row, BY_PROCESSOR)


def want_of(content: bytes, rows: int, columns: int, codes: Any) -> Any:
    """The product by float64, which holds all of it exactly."""
    weights = np.empty(rows * columns, dtype=np.uint8)
    unpack(np.frombuffer(content, dtype=np.uint8), RunLayout(32, False), None, weights, 1)
    return (codes.astype(np.float64) @ weights.reshape(rows, columns).astype(np.float64).T).astype(np.int32)


def got_of(name: str, forced: tuple[int, int | None], content: Any, rows: int, codes: Any, threads: int) -> Any:
    row = SETS[name]
    out = np.full((len(codes), rows), -7, dtype=np.int32)
    _matmul.force_panels(row, *forced)
    _matmul.product(row, np.frombuffer(content, dtype=np.uint8), rows, codes, out, threads)
    return out


@needs_panels
@each_set
@given(
    rows=st.one_of(st.integers(1, 180), st.sampled_from([16, 48, 64, 96, 640])), blocks=st.integers(1, 60),
    tokens=st.integers(1, 129), threads=st.integers(1, 3), offset=st.sampled_from([0, 1, 32]),
    ends=st.sampled_from([None, -128, 127]), seed=st.integers(0, 2**32 - 1),
)  # fmt: skip
@examples(120)
def test_every_kernel(
    name: str, rows: int, blocks: int, tokens: int, threads: int, offset: int, ends: int | None, seed: int
) -> None:
    rng = np.random.default_rng(seed)
    columns = 128 * blocks
    content = rng.bytes(rows * columns // 4) if ends is None else b"\xff" * (rows * columns // 4)
    codes = rng.integers(-128, 128, (tokens, columns)).astype(np.int8)
    if ends is not None:
        codes[:] = ends
    payload = np.frombuffer(bytes(offset) + content, dtype=np.uint8)[offset:]
    want = want_of(content, rows, columns, codes)
    for forced in FORCED[name]:
        assert np.array_equal(got_of(name, forced, payload, rows, codes, threads), want)


@needs_panels
@each_set
@pytest.mark.parametrize("tokens", range(1, 34))
def test_every_number_of_tokens(name: str, tokens: int) -> None:
    """Whole tiles and the rest; groups of 16 rows that are full and that are not; columns in one piece and in three."""
    rng = np.random.default_rng(tokens)
    for rows, columns in [(1, 128), (15, 256), (48, 3456), (97, 384), (47, 128 * 55)]:
        content, codes = rng.bytes(rows * columns // 4), rng.integers(-128, 128, (tokens, columns)).astype(np.int8)
        want = want_of(content, rows, columns, codes)
        for forced in FORCED[name]:
            assert np.array_equal(got_of(name, forced, content, rows, codes, 1 + tokens % 3), want)


@needs_panels
@each_set
@pytest.mark.parametrize("threads", [1, 2, 3])
def test_floats_of_many_tokens(monkeypatch: pytest.MonkeyPatch, name: str, threads: int) -> None:
    """The results of the parts of a product become floats in place: by the definition, each once."""
    rng = np.random.default_rng(5)
    rows, columns, tokens = 130, 1408, 50
    content, x = rng.bytes(rows * columns // 4), rng.standard_normal((tokens, columns)).astype(np.float32)
    made = bitlinear.quantize_activations(x)
    scale = np.float32(0.25)
    integers = want_of(content, rows, columns, made.codes) - made.sums[:, None]
    want = integers.astype(np.float32) / made.scale[:, None] * scale
    monkeypatch.setenv(isa.VARIABLE, name)
    for forced in FORCED[name]:
        _matmul.force_panels(SETS[name], *forced)
        assert np.array_equal(matmul.linear(content, scale, rows, columns, x, threads=threads), want)


@needs_panels
@each_set
def test_whole_passes(monkeypatch: pytest.MonkeyPatch, name: str) -> None:
    """A prompt has the same logits, bit for bit, whichever kernel and however many threads."""
    monkeypatch.setenv(isa.VARIABLE, name)
    data, tokens, seen = model_file("bitnet-b1.58"), list(range(3, 43)), set()
    for forced in FORCED[name]:
        _matmul.force_panels(SETS[name], *forced)
        for threads in (1, 3):
            logits = load_model(data, "fast", threads=threads).forward(tokens).logits
            assert logits is not None
            seen.add(logits.tobytes())
    assert len(seen) == 1


@needs_panels
@each_set
def test_the_processors_that_use_panels(name: str) -> None:
    """Decided by vendor, not measured: Intel's processors multiply and mask on the same ports, as all ARM ones do."""
    row = SETS[name]
    facts = Path("/proc/cpuinfo")
    if name in LEAST:
        assert _matmul.panels_from(row) == LEAST[name]
    elif platform.machine() == "x86_64" and facts.exists():
        assert _matmul.panels_from(row) == (24 if "GenuineIntel" in facts.read_text(encoding="latin-1") else None)
    else:
        pytest.skip("the system does not name the maker of the processor here")
    _matmul.force_panels(row, 5)
    assert _matmul.panels_from(row) == 5


@needs_panels
@each_set
def test_kernels_for_fewer_tokens(name: str) -> None:
    """AMX has two kernels of its own, each from a number of tokens on; the other sets have one, and say so."""
    if name != "amx":
        with pytest.raises(ValueError, match="one kernel for several tokens"):
            _matmul.force_panels(SETS[name], PANELS, 3)
        return
    _matmul.force_panels(SETS[name], 9, 3)
    assert _matmul.panels_from(SETS[name]) == 3
    _matmul.force_panels(SETS[name], 9)
    assert _matmul.panels_from(SETS[name]) == 9


def test_sets_without_panels() -> None:
    assert _matmul.panels_from(0) is None
    with pytest.raises(ValueError, match="this set has no panels"):
        _matmul.force_panels(0, PANELS)
