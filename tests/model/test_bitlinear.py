"""BitLinear's definition: edge cases, and recorded results of the reference kernels.

Every recorded product is exact, or a named emulation reproduces it bit for bit, or it is one of the `UNDEFINED`, whose
values depend on uninitialized memory.
"""

from __future__ import annotations

from functools import cache
from math import comb
from pathlib import Path
from typing import Any, Final

import numpy as np
import pytest
from examples import examples, some
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra.numpy import arrays

from i2s_spec.codec.reference import pack, pack_codes, unpack_codes
from i2s_spec.model.reference.bitlinear import (
    MAX_COLUMNS,
    Activations,
    accumulate,
    dot,
    epilogue,
    linear,
    quantize_activations,
)
from i2s_spec.model.reference.ggml_math import (
    _KERNELS,
    KERNEL_BUGS,
    Kernel,
    int16_wrap,
    rows_of_four,
    truncated_columns,
    truncated_rows,
)
from i2s_spec.schema.dialect import CANONICAL, LAYOUTS

ORACLE = Path(__file__).resolve().parent.parent / "oracle"
F32 = np.float32

#: The value of every weight in the inputs `ones_*`.
ONES: Final = 0.5

#: Recorded products that depend on undefined behavior and cannot be reproduced, by cause.
UNDEFINED: Final = {
    "nrc-4": {  # an ARM build with dot products passes four tokens to the kernel for one token
        "tern_8x256.act.mulmat5.other2", "tern_8x256.actc.mulmat5.other2", "tern_4x4096.act.mulmat5.other2",
        "tern_4x4096.actc.mulmat5.other3", "tern_7x128.act.mulmat5.other2", "c64_4x64.act.mulmat5.other2",
        "c64_2x192.act.mulmat5.other3", "tern_3x256.act.mulmat5.other2", "tern_3x256.actc.mulmat5.other2",
        "tern_5x512.act.mulmat5.other2",
    },
    "row-split": {  # two threads, and rows that are not multiples of four
        "tern_17x256.act.mulmat8.other2", "tern_17x256.act.mulmat8.other3", "tern_17x256.actc.mulmat8.other2",
        "tern_5x512.act.mulmat8.other2",
    },
}  # fmt: skip


def by_hand(x: np.ndarray[Any, Any]) -> Activations:
    """The lines of the definition, one token and one element after another, in Python's floats."""
    codes, scales, sums = [], [], []
    for row in x:
        amax = max([abs(float(e)) for e in row] + [1e-5])
        scale = F32(127.0 / amax)
        token = [max(-128, min(127, round(float(F32(e * scale))))) for e in row]  # round() rounds ties to even
        codes.append(token)
        scales.append(scale)
        sums.append(sum(token))
    return Activations(np.array(codes, dtype=np.int8), np.array(scales, dtype=F32), np.array(sums, dtype=np.int32))


def same(got: Activations, want: Activations) -> None:
    for mine, theirs, dtype in zip(got, want, (np.int8, F32, np.int32), strict=True):
        assert mine.dtype == dtype
        assert np.array_equal(mine, theirs, equal_nan=dtype is F32)


# --- activations ---------------------------------------------------------------------------------------------------------


@given(arrays(F32, st.tuples(st.integers(1, 4), st.integers(1, 40)),
              elements=st.floats(-(2.0**100), 2.0**100, width=32, allow_nan=False)))  # fmt: skip
@examples(60)
def test_activations_equal_a_computation_by_hand(x: np.ndarray[Any, Any]) -> None:
    same(quantize_activations(x), by_hand(x))


@given(st.floats(2.0**-100, 2.0**100, width=32), st.integers(0, 7))
@examples(60)
def test_the_largest_element_has_the_largest_code(amax: float, at: int) -> None:
    """For every rounding of the scale; so -128 never occurs, and clamping has no effect."""
    x = np.zeros((1, 8), dtype=F32)
    x[0, at] = -amax
    code = int(quantize_activations(x).codes[0, at])
    assert code == -127 if amax >= 1e-5 else -127 <= code <= 0


EDGES: Final[dict[str, tuple[list[float], list[int], float]]] = {
    "zeros": ([0.0, -0.0, 0.0], [0, 0, 0], 1.27e7),
    "below the floor": ([4e-6, -1e-6, 3e-8], [51, -13, 0], 1.27e7),
    "denormal": ([1e-40, -1e-45, 0.0], [0, 0, 0], 1.27e7),
    "at the floor, as float32 below it": ([1e-5, -1e-5, 5e-6], [127, -127, 64], 1.27e7),
    "ties": ([127.0, 0.5, 1.5, 2.5, -0.5, -1.5, -2.5, 126.5], [127, 0, 2, 2, 0, -2, -2, 126], 1.0),
    "one spike": ([1e30, 1.0, -1e27], [127, 0, 0], 127 / float(F32(1e30))),
    "largest floats": ([3.4e38, -1.7e38, 1e30], [127, -64, 0], 127 / float(F32(3.4e38))),
}


@pytest.mark.requirement("R9.8-3")
@pytest.mark.parametrize("name", EDGES)
def test_edges_of_activations(name: str) -> None:
    row, codes, scale = EDGES[name]
    got = quantize_activations(np.array([row], dtype=F32))
    assert got.codes[0].tolist() == codes
    assert got.scale[0] == F32(scale)
    assert got.sums[0] == sum(codes)
    assert np.isfinite(epilogue(got.sums[:, None], got.scale, 1.0)).all()


@pytest.mark.parametrize("bad", [np.nan, np.inf, -np.inf])
def test_infinities_and_nan_affect_all_outputs_of_their_token_only(bad: float) -> None:
    x = np.ones((3, 128), dtype=F32)
    x[1, 77] = bad
    got = quantize_activations(x)
    assert not got.codes[1].any()
    assert got.sums.tolist() == [127 * 128, 0, 127 * 128]
    y = linear(pack(np.ones((5, 128), dtype=np.int8), 1.0)[: 5 * 32], 0.5, 5, 128, x)
    assert np.isnan(y[1]).all()
    assert np.array_equal(y[[0, 2]], np.full((2, 5), 64.0))


def test_a_product_that_fused_instructions_would_round_otherwise() -> None:
    """f32(x s) is a tie although x s is not: the second rounding sees the first one's result."""
    x = np.load(ORACLE / "act/in/act_halfway_256.npy")
    two, one = (np.load(ORACLE / f"act/out/act_halfway_256.{who}.codes.npy") for who in ("clang", "gcc_fma"))
    got = quantize_activations(x)
    assert np.array_equal(got.codes, two)
    exact = np.rint(x.astype(np.float64) * got.scale[:, None].astype(np.float64))
    assert np.array_equal(exact, one)
    assert np.count_nonzero(one != two) == 472


def test_activations_of_the_reference(vectors: Path) -> None:
    seen = 0
    for file in sorted((vectors / "act/in").glob("*.npy")):
        made = vectors / "act/out" / file.name
        if not made.with_suffix(".codes.npy").exists():
            continue
        codes, scale, sums = (np.load(made.with_suffix(f".{part}.npy")) for part in ("codes", "scale", "sum"))
        same(quantize_activations(np.load(file)), Activations(codes, scale, sums))
        seen += 1
    assert seen >= 5


# --- products ------------------------------------------------------------------------------------------------------------


def packed(codes: np.ndarray[Any, Any]) -> bytes:
    return pack_codes(codes.astype(np.uint8), CANONICAL.layout)


def exact(weights: np.ndarray[Any, Any], codes: np.ndarray[Any, Any]) -> np.ndarray[Any, Any]:
    sums: np.ndarray[Any, Any] = codes.astype(np.int64) @ weights.astype(np.int64).T
    return sums


@given(st.integers(1, 9), st.integers(1, 5), st.integers(0, 3), st.integers(0, 2**32 - 1))
@examples(60)
def test_products_are_sums(rows: int, blocks: int, tokens: int, seed: int) -> None:
    rng = np.random.default_rng(seed)
    weights = rng.integers(0, 4, (rows, 128 * blocks))
    codes = rng.integers(-128, 128, (tokens, 128 * blocks)).astype(np.int8)
    sums = dot(packed(weights), *weights.shape, codes)
    assert sums.dtype == np.int32
    assert np.array_equal(sums, exact(weights, codes))
    assert np.array_equal(accumulate(packed(weights), *weights.shape, codes), exact(weights - 1, codes))


@given(st.sampled_from([(2, 64), (4, 96), (8, 16), (128, 1), (64, 2), (16, 200), (32, 4)]), st.integers(0, 2**32 - 1))
@examples(20)
def test_rows_that_begin_inside_blocks(shape: tuple[int, int], seed: int) -> None:
    rng = np.random.default_rng(seed)
    weights = rng.integers(0, 4, shape)
    codes = rng.integers(-128, 128, (3, shape[1])).astype(np.int8)
    assert np.array_equal(dot(packed(weights), *shape, codes), exact(weights, codes))


@pytest.mark.requirement("R9.8-1")
@pytest.mark.parametrize("columns", [128, 640, 2560, 4096, 6912, 8640, 14336, 65536])
@pytest.mark.parametrize("trit", [-1, 0, 1, None])
def test_sums_as_large_as_they_get(columns: int, trit: int | None) -> None:
    """All weights alike or alternating, all activation codes at an end: nothing wraps, and float32 holds the sums."""
    trits = np.where(np.arange(columns) % 2, 1, -1) if trit is None else np.full(columns, trit)
    weights = np.tile(trits + 1, (2, 1))
    for code in (127, -128, -127):
        codes = np.full((1, columns), code, dtype=np.int8)
        acc = accumulate(packed(weights), 2, columns, codes)
        assert (acc == code * int(trits.sum())).all()
        assert (acc.astype(F32).astype(np.int64) == acc).all()
        if trit == 1 and columns >= 2560:
            assert (int16_wrap(weights.astype(np.uint8), codes) != dot(packed(weights), 2, columns, codes)).all()


def least_columns(kernel: Kernel) -> int:
    """The shortest row of whole blocks of which a lane can leave 16 bits: codes 2 and activations of 127 throughout."""
    block, lanes, _ = _KERNELS[kernel]
    largest = block // lanes * 2 * 127
    return block * (np.iinfo(np.int16).max // largest + 1)


@pytest.mark.requirement("R9.8-1")
@pytest.mark.parametrize(("kernel", "worst"), [("avx2", 2176), ("neon", 1088)])
def test_the_columns_at_which_16_bit_lanes_overflow(kernel: Kernel, worst: int) -> None:
    """The bounds of section 9.8, from the widths of the kernels; one block fewer holds whatever the codes are."""
    assert least_columns(kernel) == worst
    block = {"avx2": 128, "neon": 64}[kernel]
    for columns in (worst - block, worst):
        weights = np.full((1, columns), 2, dtype=np.uint8)
        for code in (127, -128):
            codes = np.full((1, columns), code, dtype=np.int8)
            fits = np.array_equal(int16_wrap(weights, codes, kernel), exact(weights, codes))
            assert fits == (columns < worst), (columns, code)


@pytest.mark.parametrize(
    ("kernel", "shares"),
    [
        ("avx2", {3456: 0.0003, 3584: 0.009, 3712: 0.10, 3840: 0.53, 4096: 1.0}),
        ("neon", {1728: 0.0002, 1792: 0.004, 1856: 0.05, 1920: 0.31, 2048: 0.99}),
    ],
)
def test_how_many_rows_of_usual_weights_wrap(kernel: Kernel, shares: dict[int, float]) -> None:
    """Codes 0, 1, 2 of 25, 50, 25 % are two fair coins each: a lane of m blocks holds 127 times the heads of 16 m."""
    lanes, block = {"avx2": (16, 128), "neon": (8, 64)}[kernel]
    random = np.random.default_rng(9)
    for columns, share in some(shares.items(), every=2):
        coins = 16 * columns // block
        heads = sum(comb(coins, k) for k in range(32767 // 127 + 1, coins + 1)) / 2**coins
        rows = 1 - (1 - heads) ** lanes
        assert abs(rows - share) <= max(0.006, share * 0.06) or rows == pytest.approx(share, rel=0.2), (columns, rows)
        weights = random.choice(np.arange(3, dtype=np.uint8), size=(1500, columns), p=[0.25, 0.5, 0.25])
        codes = np.full((1, columns), 127, dtype=np.int8)
        seen = float((int16_wrap(weights, codes, kernel) != exact(weights, codes)).mean())
        assert abs(seen - rows) < 5 * (rows * (1 - rows) / 1500) ** 0.5 + 1 / 1500, (columns, seen, rows)


def test_the_widest_row_that_int32_holds() -> None:
    assert 3 * 128 * MAX_COLUMNS < 2**31 <= 3 * 128 * (MAX_COLUMNS + 1)
    with pytest.raises(ValueError, match="a sum could overflow int32; the maximum is 5,592,405"):
        dot(b"", 0, MAX_COLUMNS + 1, np.empty((0, MAX_COLUMNS + 1), dtype=np.int8))


@pytest.mark.requirement("R6.2-3")
@pytest.mark.parametrize("scale", [0.75, -0.75, 0.0, -0.0, 1e-40, np.inf, np.nan])
def test_scales_of_weights_are_followed(scale: float) -> None:
    acc = np.array([[-5, 0, 7, 2**24 + 1]], dtype=np.int32)
    y = epilogue(acc, np.array([2.54], dtype=F32), scale)
    with np.errstate(all="ignore"):
        want = [F32(F32(F32(float(a)) / F32(2.54)) * F32(scale)) for a in acc[0]]
    assert y.dtype == F32
    assert np.array_equal(y.view(np.uint32) | 0x80000000, np.array([want], dtype=F32).view(np.uint32) | 0x80000000)
    assert np.array_equal(np.signbit(y) | np.isnan(y), np.signbit([want]) | np.isnan([want]))


def test_arguments_that_do_not_fit() -> None:
    codes = np.zeros((1, 128), dtype=np.int8)
    for rows, columns, payload, message in [
        (1, 128, bytes(31), "1 x 128 codes take 32 bytes; there are 31 bytes"),
        (1, 256, bytes(64), r"the shape \[tokens, 256\], not \[1, 128\]"),
        (-1, 128, b"", "-1 rows and 128 columns holds no weights"),
    ]:
        with pytest.raises(ValueError, match=message):
            dot(payload, rows, columns, codes)
    with pytest.raises(ValueError, match="packs elements in blocks of 128"):
        dot(bytes(16), 1, 64, codes[:, :64])
    with pytest.raises(ValueError, match="0 columns holds no weights"):
        dot(b"", 1, 0, codes[:, :0])
    with pytest.raises(TypeError, match="activation codes must be int8, not int16"):
        dot(bytes(32), 1, 128, codes.astype(np.int16))
    with pytest.raises(TypeError, match="activations must be float32, not float64"):
        quantize_activations(np.zeros((1, 128)))
    with pytest.raises(ValueError, match=r"\[tokens, columns\], not \[128\]"):
        quantize_activations(np.zeros(128, dtype=F32))


# --- the reference kernels -----------------------------------------------------------------------------------------------


@cache
def weights_of(folder: Path, name: str) -> tuple[np.ndarray[Any, Any], np.float32]:
    """Codes, uint8 [N, K], and scale: from the bytes of the reference quantizer if they were kept, else its input."""
    rows, columns = map(int, name.rsplit("_", 1)[1].split("x"))
    for kept in (f"quant/out_blk128/{name}.bin", f"dot/w_blk128/{name}.bin"):
        if (folder / kept).exists():
            data = (folder / kept).read_bytes()
            codes = unpack_codes(data[: rows * columns // 4], (rows, columns), LAYOUTS["interleave-128"])
            return codes, np.frombuffer(data, dtype="<f4", count=1, offset=rows * columns // 4)[0]
    if name.startswith("ones_"):  # constant weights, without a file
        return np.full((rows, columns), 2, dtype=np.uint8), F32(ONES)
    w = np.load(folder / f"dot/in/{name}.npy")
    return (np.sign(w) + 1).astype(np.uint8), np.abs(w).max()


def output(what: str, sums: np.ndarray[Any, Any], activations: Activations, scale: np.float32) -> np.ndarray[Any, Any]:
    """What was recorded if these were the sums: themselves [T, N], or the floats of the first tokens."""
    if what == "rawdot":
        return sums.astype(F32)
    tokens = int(what.removeprefix("mulmat"))
    floats = sums[:tokens].astype(F32) - activations.sums[:tokens, None].astype(F32)
    return np.asarray(floats / activations.scale[:tokens, None] * scale)


def explanation(folder: Path, file: Path) -> str | None:
    """`exact`, or the name of the emulation that gives what was recorded."""
    name, which, what, _ = file.name.removesuffix(".npy").split(".")
    weights, scale = weights_of(folder, name)
    activations = quantize_activations(np.load(folder / f"act/in/{which}_{weights.shape[1]}.npy"))
    recorded = np.load(file)
    right = exact(weights, activations.codes)
    for emulation in ("exact", *KERNEL_BUGS):
        sums = right if emulation == "exact" else KERNEL_BUGS[emulation](weights, activations.codes)
        expected = output(what, sums, activations, scale)
        if np.array_equal(recorded, expected if recorded.shape == expected.shape else expected.T):
            return emulation
    return None


@pytest.mark.requirement("R9.8-2")
def test_products_of_the_reference_are_exact_or_explained(vectors: Path) -> None:
    found: dict[str | None, set[str]] = {}
    for file in sorted((vectors / "dot/out").glob("*.npy")):
        found.setdefault(explanation(vectors, file), set()).add(file.name.removesuffix(".npy"))
    everything = set[str]().union(*found.values())
    assert {name for name in everything if name.endswith(".exact")} == found.pop("exact")
    undefined = set[str]().union(*UNDEFINED.values())
    assert found.pop(None) == undefined & everything
    assert set(found) == set(KERNEL_BUGS)
    if vectors != ORACLE:
        assert undefined <= everything
        assert len(everything) == 388


def test_emulations_are_exact_where_nothing_overflows() -> None:
    rng = np.random.default_rng(5)
    weights = rng.integers(0, 3, (8, 2560)).astype(np.uint8)
    codes = np.clip(np.rint(rng.standard_normal((2, 2560)) * 30), -127, 127).astype(np.int8)
    right = exact(weights, codes)
    for kernel in ("avx2", "neon"):
        assert np.array_equal(int16_wrap(weights, codes, kernel), right)  # type: ignore[arg-type]
    assert np.array_equal(truncated_rows(weights, codes), right)
    assert np.array_equal(truncated_columns(weights, codes), right)
    assert not np.array_equal(rows_of_four(weights, codes), right)
    assert not np.array_equal(
        truncated_rows(weights[:, :2496], codes[:, :2496]), exact(weights[:, :2496], codes[:, :2496])
    )
