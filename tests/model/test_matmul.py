"""The compiled core of BitLinear equals its definition, bit for bit, with every set of kernels and number of threads."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from typing import Any, Final

import numpy as np
import pytest
from examples import examples, share
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra.numpy import arrays

from i2s_spec.codec import isa
from i2s_spec.errors import SettingError
from i2s_spec.model import _matmul
from i2s_spec.model.reference import bitlinear, matmul
from i2s_spec.model.reference.bitlinear import Activations

SETS: Final = [each.name for each in matmul.kernel_sets() if each.available]
F32 = np.float32


@pytest.fixture(params=SETS, autouse=True, scope="module")
def kernel_set(request: pytest.FixtureRequest) -> Iterator[str]:
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv(isa.VARIABLE, request.param)
        yield request.param


def payload_at(content: bytes, offset: int) -> Any:
    """A payload that begins so many bytes after a multiple of 64."""
    raw = np.empty(len(content) + 192, dtype=np.uint8)
    start = -_matmul.address(raw) % 64 + offset
    raw[start : start + len(content)] = np.frombuffer(content, dtype=np.uint8)
    return raw[start : start + len(content)]


def random_codes(rng: np.random.Generator, shape: tuple[int, int], kind: str) -> np.ndarray[Any, Any]:
    if kind == "any":
        return rng.integers(-128, 128, shape).astype(np.int8)
    return np.full(shape, {"least": -128, "most": 127}[kind], dtype=np.int8)


@given(
    rows=st.integers(0, 40), blocks=st.integers(1, 24), tokens=st.integers(0, 11), threads=st.integers(1, 4),
    offset=st.sampled_from([0, 1, 16, 32, 33]), ends=st.sampled_from(["any", "least", "most"]), threes=st.booleans(),
    seed=st.integers(0, 2**32 - 1),
)  # fmt: skip
@examples(60)
def test_products(
    rows: int, blocks: int, tokens: int, threads: int, offset: int, ends: str, threes: bool, seed: int
) -> None:
    rng = np.random.default_rng(seed)
    columns = 128 * blocks
    content = b"\xff" * (rows * columns // 4) if threes else rng.bytes(rows * columns // 4)
    codes = random_codes(rng, (tokens, columns), ends)
    payload = payload_at(content, offset)
    want = bitlinear.dot(content, rows, columns, codes)
    got = matmul.dot(payload, rows, columns, codes, threads=threads)
    assert got.dtype == np.int32
    assert np.array_equal(got, want)
    out = np.empty((tokens, rows), dtype=np.int32)  # again, with the weights known to be in cache
    assert matmul.accumulate(payload, rows, columns, codes, threads=threads, out=out) is out
    assert np.array_equal(out, bitlinear.accumulate(content, rows, columns, codes))


#: Bytes without code 3.
CLEAN: Final = np.array([byte for byte in range(256) if not byte & byte >> 1 & 0x55], dtype=np.uint8)


@given(
    shape=st.sampled_from([(1, 1), (3, 2), (20, 5), (9, 33), (300, 2), (400, 1), (5, 129)]), tokens=st.integers(1, 40),
    threads=st.integers(1, 4), offset=st.sampled_from([0, 1, 32]),
    places=st.lists(st.floats(0, 1, exclude_max=True) | st.sampled_from([0, 1 - 2.0**-53]), max_size=2),
    field=st.integers(0, 3), seed=st.integers(0, 2**32 - 1),
)  # fmt: skip
@examples(60)
def test_code_3_is_seen_wherever_it_is(
    shape: tuple[int, int], tokens: int, threads: int, offset: int, places: list[float], field: int, seed: int
) -> None:
    """Products that look for code 3 refuse it exactly where it is, and are the same sums without it."""
    rng = np.random.default_rng(seed)
    rows, columns = shape[0], 128 * shape[1]
    content = rng.choice(CLEAN, rows * columns // 4)
    for place in places:
        content[int(place * content.size)] |= 3 << 2 * field
    payload, x = payload_at(content.tobytes(), offset), rng.standard_normal((tokens, columns)).astype(F32)
    made = matmul.quantize_activations(x)
    jobs: list[tuple[Any, Any]] = [(matmul.dot, made.codes), (matmul.accumulate, made.codes)]
    for function, codes in jobs:
        want = function(payload, rows, columns, codes)
        if places:
            with pytest.raises(matmul.UnusedCodeFound):
                function(payload, rows, columns, codes, threads=threads, look=True)
        else:
            assert np.array_equal(function(payload, rows, columns, codes, threads=threads, look=True), want)
    for tokens_ in (x, made, np.asfortranarray(x)):
        if places:
            with pytest.raises(matmul.UnusedCodeFound):
                matmul.linear(payload, 0.3, rows, columns, tokens_, threads=threads, look=True)
        else:
            y = matmul.linear(payload, 0.3, rows, columns, tokens_, threads=threads, look=True)
            assert y.tobytes() == matmul.linear(payload, 0.3, rows, columns, made).tobytes()


@pytest.mark.parametrize("columns", [128, 640, 2560, 4096, 6912, 14336, 65536, (1 << 20) + 128])
@pytest.mark.parametrize("ends", ["least", "most"])
def test_sums_as_large_as_they_get(columns: int, ends: str) -> None:
    """Everything a lane can hold, for one token and for several; past 2^20 columns only plain C has lanes for it."""
    codes = random_codes(np.random.default_rng(0), (3, columns), ends)
    payload = b"\xff" * (5 * columns // 4)
    for tokens in (1, 2, 3):
        got = matmul.dot(payload, 5, columns, codes[:tokens])
        assert (got == 3 * int(codes[0, 0]) * columns).all()


@pytest.mark.parametrize("blocks", [1, 2, 3, 20, 31, 32, 33, 34, 127, 128, 129, 130])
@pytest.mark.parametrize("ends", share(["least", "most", "any"], every=2))
def test_one_token_and_weights_in_cache(blocks: int, ends: str) -> None:
    """Every number of rows that a kernel has code for, and of blocks beside its limits; sums as large as they get."""
    rng = np.random.default_rng(blocks)
    columns = 128 * blocks
    content = rng.bytes(21 * columns // 4) if ends == "any" else b"\xff" * (21 * columns // 4)
    payload, codes = payload_at(content, 32), random_codes(rng, (1, columns), ends)
    want = in_floats(content, 21, columns, codes)
    for rows in (1, 3, 4, 7, 8, 9, 12, 15, 16, 21):
        part, out = payload[: rows * columns // 4], np.empty((1, rows), dtype=np.int32)
        for threads in (1, 1, 2, 3):  # the second time the weights are known to be in cache
            out.fill(-1)
            assert np.array_equal(matmul.dot(part, rows, columns, codes, threads=threads, out=out), want[:, :rows])


@pytest.mark.parametrize("shape", [(640, 2560), (2560, 640), (37, 6912), (16, 8640), (130, 1408)])
@pytest.mark.parametrize("tokens", share([1, 2, 4, 5, 64], every=2))
def test_shapes_of_models(shape: tuple[int, int], tokens: int) -> None:
    rng = np.random.default_rng(tokens)
    rows, columns = shape
    content, codes = rng.bytes(rows * columns // 4), random_codes(rng, (tokens, columns), "any")
    want = (bitlinear.dot if columns % 128 else in_floats)(content, rows, columns, codes)
    for threads in (1, 2, 7):
        assert np.array_equal(matmul.dot(content, rows, columns, codes, threads=threads), want)


def in_floats(content: bytes, rows: int, columns: int, codes: np.ndarray[Any, Any]) -> np.ndarray[Any, Any]:
    """The product by NumPy's float64, which holds all of it exactly; the definition takes its time."""
    from i2s_spec.codec.kernels import RunLayout, unpack

    weights = np.empty(rows * columns, dtype=np.uint8)
    unpack(np.frombuffer(content, dtype=np.uint8), RunLayout(32, False), None, weights, 1)
    sums: np.ndarray[Any, Any] = codes.astype(np.float64) @ weights.reshape(rows, columns).astype(np.float64).T
    return sums.astype(np.int32)


@given(st.sampled_from([(2, 64), (4, 96), (8, 16), (128, 1), (64, 2), (16, 200), (32, 4)]), st.integers(0, 2**32 - 1))
@examples(20)
def test_rows_that_begin_inside_blocks(shape: tuple[int, int], seed: int) -> None:
    rng = np.random.default_rng(seed)
    content, codes = rng.bytes(shape[0] * shape[1] // 4), random_codes(rng, (3, shape[1]), "any")
    want = bitlinear.dot(content, *shape, codes)
    assert np.array_equal(matmul.dot(content, *shape, codes), want)
    once, wide = matmul.whole_rows(content, *shape)
    padded = np.zeros((3, wide), dtype=np.int8)
    padded[:, : shape[1]] = codes
    assert np.array_equal(matmul.dot(once, shape[0], wide, padded), want)


@given(arrays(F32, st.tuples(st.integers(0, 5), st.integers(0, 70)), elements=st.floats(width=32)), st.integers(1, 3))
@examples(60)
def test_activations(x: np.ndarray[Any, Any], threads: int) -> None:
    """All floats: NaN and infinities among them."""
    same(matmul.quantize_activations(x, threads=threads), bitlinear.quantize_activations(x))


def same(got: Activations, want: Activations) -> None:
    for mine, theirs in zip(got, want, strict=True):
        assert mine.dtype == theirs.dtype
        assert np.array_equal(mine, theirs, equal_nan=mine.dtype == F32)


@pytest.mark.parametrize("exponent", [-45, -38, -6, -5, 0, 5, 38])
def test_activations_of_every_magnitude(exponent: int) -> None:
    rng = np.random.default_rng(1)
    x = (rng.standard_normal((16, 6912)) * 10.0**exponent).clip(-3.4e38, 3.4e38).astype(F32)
    same(matmul.quantize_activations(x, threads=2), bitlinear.quantize_activations(x))
    same(matmul.quantize_activations(x[::3, ::2]), bitlinear.quantize_activations(x[::3, ::2]))


def test_activations_that_are_ties() -> None:
    """Half an integer times the scale, and its neighbors: where a fused multiplication would round otherwise."""
    rng = np.random.default_rng(2)
    amax = rng.uniform(0.5, 200, (64, 1)).astype(F32)
    scale = (127.0 / amax.astype(np.float64)).astype(F32)
    ties = ((rng.integers(-126, 126, (64, 256)) + 0.5) / scale).astype(F32)
    x = np.hstack([amax, ties, np.nextafter(ties, F32(0)), np.nextafter(ties, F32(1e9))])
    assert np.count_nonzero((x * scale) % 1 == 0.5) > 1000
    same(matmul.quantize_activations(x), bitlinear.quantize_activations(x))


@given(
    rows=st.integers(1, 40), tokens=st.integers(0, 6), threads=st.integers(1, 3),
    weight_scale=st.floats(width=32), spoil=st.sampled_from([None, np.nan, np.inf]), seed=st.integers(0, 2**32 - 1),
)  # fmt: skip
@examples(60)
def test_linear(rows: int, tokens: int, threads: int, weight_scale: float, spoil: float | None, seed: int) -> None:
    rng = np.random.default_rng(seed)
    payload, x = rng.bytes(rows * 64), rng.standard_normal((tokens, 256)).astype(F32)
    if spoil is not None and tokens:
        x[rng.integers(tokens), 3] = spoil
    want = bitlinear.linear(payload, weight_scale, rows, 256, x)
    got = matmul.linear(payload, weight_scale, rows, 256, x, threads=threads)
    assert got.dtype == F32
    assert np.array_equal(got, want, equal_nan=True)
    assert np.array_equal(np.signbit(got) | np.isnan(got), np.signbit(want) | np.isnan(want))
    out = np.empty_like(want)
    assert matmul.linear(payload, weight_scale, rows, 256, bitlinear.quantize_activations(x), out=out) is out
    assert np.array_equal(out, want, equal_nan=True)


def test_callers_in_many_threads() -> None:
    """Whoever finds the threads busy does everything alone; everybody gets what is right."""
    rng = np.random.default_rng(3)
    rows, columns = 256, 2560
    content, codes = rng.bytes(rows * columns // 4), random_codes(rng, (2, columns), "any")
    want = in_floats(content, rows, columns, codes)

    def call(number: int) -> bool:
        return np.array_equal(matmul.dot(content, rows, columns, codes, threads=1 + number % 4), want)

    with ThreadPoolExecutor(4) as pool:
        assert all(pool.map(call, range(200)))


@pytest.mark.skipif(not hasattr(os, "fork"), reason="no fork")
def test_a_child_process_has_threads_of_its_own() -> None:
    code = """if True:
        import os, sys, numpy as np
        from i2s_spec.model.reference import matmul
        payload, codes = bytes([0x5A] * 64 * 640), np.ones((1, 2560), dtype=np.int8)
        want = matmul.dot(payload, 64, 2560, codes, threads=3).tolist()
        child = os.fork()
        got = matmul.dot(payload, 64, 2560, codes, threads=3).tolist()
        if child == 0:
            os._exit(0 if got == want else 1)
        sys.exit(os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) if got == want else 2)
    """
    # Python 3.12 and later warn about fork in a process with threads; this test checks that it works.
    words = [sys.executable, "-W", "ignore::DeprecationWarning", "-c", code]
    done = subprocess.run(words, timeout=600, capture_output=True, encoding="utf-8", check=False)
    assert (done.returncode, done.stderr) == (0, "")


def test_arguments_that_do_not_fit() -> None:
    codes = np.zeros((2, 128), dtype=np.int8)
    payload = bytes(3 * 32)
    for arguments, error, message in [
        ((bytes(95), 3, 128, codes), ValueError, "3 x 128 codes take 96 bytes; there are 95 bytes"),
        ((payload, 3, 256, codes), ValueError, r"the shape \[tokens, 256\], not \[2, 128\]"),
        ((payload, 3, 128, codes.astype(np.uint8)), TypeError, "activation codes must be int8, not uint8"),
        ((bytes(16), 1, 64, codes[:, :64]), ValueError, "packs elements in blocks of 128"),
        ((np.zeros((3, 64), np.uint8)[:, ::2], 3, 128, codes), ValueError, "those of this buffer do not"),
    ]:
        with pytest.raises(error, match=message):
            matmul.dot(*arguments)
        with pytest.raises(error):
            bitlinear.dot(*arguments)
    for out, message in [
        (np.empty((2, 4), np.int32), r"int32 of shape \(2, 3\); out is int32 of shape \(2, 4\)"),
        (np.empty((2, 3), np.int64), "out is int64"),
        (np.empty((3, 2), np.int32).T, "out is not a contiguous array"),
    ]:
        with pytest.raises(ValueError, match=message):
            matmul.dot(payload, 3, 128, codes, out=out)
    with pytest.raises(ValueError, match="0 threads do nothing"):
        matmul.dot(payload, 3, 128, codes, threads=0)
    with pytest.raises(TypeError, match="activations must be float32, not float64"):
        matmul.quantize_activations(np.zeros((2, 128)))


def test_the_kernel_set_in_use(kernel_set: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """One variable for all tables of kernels: a table that cannot run the named set takes the next lower one."""
    sets = matmul.kernel_sets()
    assert isa.chosen(sets).name == kernel_set
    order = [name for name, _ in isa.names()]
    fitting = [each.name for each in isa.kernel_sets() if each.available]
    assert isa.chosen().name == [name for name in fitting if order.index(name) <= order.index(kernel_set)][-1]
    monkeypatch.setenv(isa.VARIABLE, "mmx")
    with pytest.raises(SettingError, match="I2S_ISA is 'mmx'; there are portable"):
        isa.chosen(sets)
    monkeypatch.delenv(isa.VARIABLE)
    assert isa.chosen(sets).name == SETS[-1]
