"""A single projection outside a model: the public function equals the definition, in whatever form the weights are."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from examples import examples
from hypothesis import given
from hypothesis import strategies as st

import i2s_spec as i2s
from i2s_spec.codec.reference import pack_codes, unpack_codes
from i2s_spec.model.numerics import NUMERIC_PROFILES
from i2s_spec.model.reference import bitlinear as definition
from i2s_spec.model.reference.ggml_math import KERNEL_BUGS
from i2s_spec.schema.dialect import CANONICAL, parse

ORACLE = Path(__file__).resolve().parent.parent / "oracle"
F32 = np.float32


@pytest.fixture(params=["committed", "shared"])
def vectors(request: pytest.FixtureRequest) -> Path:
    return ORACLE if request.param == "committed" else request.getfixturevalue("shared") / "vectors"


def some(rows: int, columns: int, tokens: int = 3, seed: int = 1) -> tuple[np.ndarray[Any, Any], np.ndarray[Any, Any]]:
    rng = np.random.default_rng(seed)
    return rng.integers(-1, 2, (rows, columns)).astype(np.int8), rng.standard_normal((tokens, columns)).astype(F32)


def test_the_definition() -> None:
    trits, x = some(5, 256)
    data = i2s.pack(trits, 0.3)
    want = definition.linear(data[:-32], F32(0.3), 5, 256, x)
    for weights, scale, shape in [
        (trits, 0.3, None), (data, None, (5, 256)), (data[:-32], 0.3, (5, 256)), (data, 0.3, (5, 256)),
    ]:  # fmt: skip
        y = i2s.bitlinear(x, weights, scale, shape)
        assert (y.dtype, y.shape) == (F32, (3, 5))
        assert y.tobytes() == want.tobytes()
    assert i2s.bitlinear(x, data, 0.6, (5, 256)).tobytes() == (want * 2).tobytes()
    made = i2s.quantize_activations(x)
    assert [part.tobytes() for part in made[:3]] == [part.tobytes() for part in definition.quantize_activations(x)]
    assert np.array_equal(i2s.integer_product(data, made.codes, (5, 256)), made.codes.astype(np.int32) @ trits.T)


@examples(40)
@given(rows=st.integers(1, 9), columns=st.integers(1, 400), tokens=st.integers(0, 5), seed=st.integers(0, 2**32))
def test_any_width(rows: int, columns: int, tokens: int, seed: int) -> None:
    """Nothing of the arithmetic needs whole blocks: trits may have any shape."""
    trits, x = some(rows, columns, tokens, seed)
    made = i2s.quantize_activations(x)
    exact = made.codes.astype(np.int64) @ trits.T.astype(np.int64)
    assert np.array_equal(i2s.integer_product(trits, made.codes), exact)
    kept = i2s.integer_product(trits, made.codes, offset="kept")
    assert np.array_equal(kept, made.codes.astype(np.int64) @ (trits.T.astype(np.int64) + 1))
    want = definition.epilogue(exact.astype(np.int32), made.scale, 0.7)
    assert i2s.bitlinear(x, trits, 0.7, threads=2).tobytes() == want.tobytes()


@pytest.mark.parametrize("dialect", ["interleave-64", "rows-1x4", "sequential-lsb/zero-first/replicated-8"])
@pytest.mark.parametrize("order", ["little", "big"])
def test_bytes_of_any_dialect(dialect: str, order: Any) -> None:
    trits, x = some(8, 256)
    data = i2s.pack(trits, 0.3, dialect, byte_order=order)
    y = i2s.bitlinear(x, data, shape=(8, 256), dialect=dialect, byte_order=order)
    assert y.tobytes() == i2s.bitlinear(x, trits, 0.3).tobytes()


@pytest.mark.parametrize("name", NUMERIC_PROFILES)
@pytest.mark.parametrize("columns", [256, 512])
def test_every_profile_multiplies_by_about_the_weights(name: str, columns: int) -> None:
    trits, x = some(7, columns)
    exact = (x.astype(np.float64) @ trits.T) * 0.3
    y = i2s.bitlinear(x, trits, 0.3, numerics=name)
    assert (y.dtype, y.shape) == (F32, (3, 7))
    assert np.linalg.norm(y - exact) / np.linalg.norm(exact) < (2e-6 if name == "ik-f32" else 0.03)
    if NUMERIC_PROFILES[name].quantizer.groups == "none":
        with pytest.raises(ValueError, match="leaves activations floats"):
            i2s.quantize_activations(x, numerics=name)
        return
    made = i2s.quantize_activations(x, numerics=name)
    assert (made.codes.shape, made.codes.dtype, len(made.scale)) == (x.shape, np.int8, 3)
    assert np.array_equal(made.sums, made.codes.sum(axis=1))


def test_the_profile_c_article_is_computed_as_its_code_does() -> None:
    """Its functions once more, an element at a time, each operation rounded to float32; ties go away from zero."""
    x = np.array([[127.0, 0.5, -1.5, 2.5, -0.49999997, 3.0], [1e-9, 0, 0, 0, 0, -1e-9]], F32)
    trits = np.array([[1, 1, 0, -1, 1, 1], [0, -1, 1, 1, 0, 0]], np.int8)
    made = i2s.quantize_activations(x, numerics="c-article")
    assert made.codes[0].tolist() == [127, 1, -2, 3, 0, 3]
    assert made.scale.tolist() == [1.0, float(F32(127) / F32(1e-8))]
    assert made.codes[1].tolist() == [13, 0, 0, 0, 0, -13]
    y = i2s.bitlinear(x, trits, 0.3, numerics="c-article")
    factor = [F32(0.3) / s for s in made.scale]
    want = [[F32(float(a)) * factor[t] for a in trits.astype(int) @ made.codes[t].astype(int)] for t in range(2)]
    assert y.tobytes() == np.array(want, F32).tobytes()


# --- prepared matrices, and bytes with code 3 ----------------------------------------------------------------------------


def plain_product(codes: np.ndarray[Any, Any], x: np.ndarray[Any, Any], unused: int) -> np.ndarray[Any, Any]:
    """The sums by NumPy's int64: what each code stands for, times the activation codes."""
    weights = np.array([-1, 0, 1, unused])[codes]
    return x.astype(np.int64) @ weights.T


@examples(80)
@given(
    shape=st.sampled_from([(1, 128), (5, 256), (17, 640), (4, 96), (32, 4), (8, 160), (40, 384)]),
    tokens=st.integers(0, 9), dialect=st.sampled_from(["canonical", "interleave-64", "sequential-lsb/offset-1"]),
    tail=st.booleans(), unused=st.sampled_from(["reject", "zero", "plus-two"]), data=st.data(),
)  # fmt: skip
def test_bytes_are_multiplied_as_their_codes_say(
    shape: tuple[int, int], tokens: int, dialect: str, tail: bool, unused: Any, data: st.DataObject
) -> None:
    """Every form of weights gives the product of plain NumPy, or the error of `unpack`, prepared or not."""
    rng = np.random.default_rng(data.draw(st.integers(0, 2**32)))
    size = shape[0] * shape[1]
    codes = rng.integers(0, 3, size).astype(np.uint8)
    broken = data.draw(st.lists(st.sampled_from([0, size - 1]) | st.integers(0, size - 1), max_size=2))
    codes[broken] = 3
    codes = codes.reshape(shape)
    payload = pack_codes(codes, parse(dialect).layout)
    whole = payload + np.float32(0.3).tobytes() + bytes(28)
    how: dict[str, Any] = {"dialect": dialect, "unused_code": unused, "threads": data.draw(st.integers(1, 3))}
    x = rng.standard_normal((tokens, shape[1])).astype(F32)
    made = i2s.quantize_activations(x)
    weights = whole if tail else payload
    calls = [
        lambda: (i2s.integer_product(weights, made.codes, shape, **how), i2s.bitlinear(x, weights, 0.3, shape, **how)),
        lambda: by_prepared(i2s.prepare(weights, shape, 0.3, **how)),
    ]

    def by_prepared(it: Any) -> tuple[Any, Any]:
        assert (it.shape, it.scale, it.payload.dtype) == (shape, F32(0.3), np.uint8)
        return i2s.integer_product(it, made.codes), i2s.bitlinear(x, it)

    if broken and unused == "reject":
        with pytest.raises(ValueError, match="code 3") as want:
            i2s.unpack(whole, shape, dialect)
        for call in calls:
            with pytest.raises(ValueError, match="code 3") as found:
                call()
            assert str(found.value) == str(want.value)
        return
    sums = plain_product(codes, made.codes, {"zero": 0, "plus-two": 2}.get(unused, 0))
    floats = definition.epilogue(sums.astype(np.int32), made.scale, 0.3)
    for call in calls:
        found_sums, found_floats = call()
        assert found_sums.dtype == np.int32
        assert np.array_equal(found_sums, sums)
        assert (found_floats.dtype, found_floats.tobytes()) == (F32, floats.tobytes())


@pytest.mark.parametrize("name", NUMERIC_PROFILES)
@pytest.mark.parametrize("unused", ["reject", "zero", "plus-two"])
def test_prepared_matrices_in_every_profile(name: str, unused: Any) -> None:
    codes = np.random.default_rng(3).integers(0, 3 if unused == "reject" else 4, (6, 512)).astype(np.uint8)
    data = pack_codes(codes, CANONICAL.layout) + F32(0.3).tobytes() + bytes(28)
    trits, x = i2s.unpack(data, codes.shape, unused_code=unused)[0], some(6, 512)[1]
    it = i2s.prepare(data, codes.shape, unused_code=unused)
    y = i2s.bitlinear(x, data, shape=codes.shape, numerics=name, unused_code=unused)
    assert i2s.bitlinear(x, it, numerics=name).tobytes() == y.tobytes()
    if unused != "plus-two":  # +2 is no trit
        assert i2s.bitlinear(x, trits, 0.3, numerics=name).tobytes() == y.tobytes()
    for kernel in KERNEL_BUGS:
        q = np.random.default_rng(4).integers(-127, 128, (3, 512)).astype(np.int8)
        want = i2s.integer_product(data, q, codes.shape, kernel=kernel, unused_code=unused)
        assert np.array_equal(i2s.integer_product(it, q, kernel=kernel), want)


def test_a_prepared_matrix_says_what_it_is() -> None:
    trits, x = some(3, 256)
    data = i2s.pack(trits, 0.3)
    it = i2s.prepare(data, (3, 256))
    assert (it.shape, it.scale) == ((3, 256), F32(0.3))
    assert np.shares_memory(it.payload, np.frombuffer(data, np.uint8))  # not copied
    assert repr(it) == "<PreparedMatrix: [3, 256] trits, scale 0.3>"
    assert i2s.bitlinear(x, it, shape=(3, 256)).tobytes() == i2s.bitlinear(x, trits, 0.3).tobytes()
    assert i2s.bitlinear(x, it, 0.6).tobytes() == i2s.bitlinear(x, trits, 0.6).tobytes()
    assert i2s.prepare(it, scale=2).scale == F32(2)
    bare = i2s.prepare(trits)
    assert repr(bare) == "<PreparedMatrix: [3, 256] trits, scale unknown>"
    codes = i2s.quantize_activations(x).codes
    assert np.array_equal(i2s.integer_product(bare, codes), i2s.integer_product(trits, codes))
    with pytest.raises(ValueError, match="the prepared matrix needs a scale: give scale="):
        i2s.bitlinear(x, bare)
    with pytest.raises(ValueError, match=r"the prepared matrix has the shape \[3, 256\], not \[3, 128\]"):
        i2s.bitlinear(x, it, shape=(3, 128))
    with pytest.raises(ValueError, match=r"\[tokens, 256\], not \[1, 64\]"):
        i2s.integer_product(it, np.zeros((1, 64), np.int8))
    with pytest.raises(ValueError, match="0 threads do nothing"):
        i2s.prepare(trits, threads=0)


# --- outputs of released programs ----------------------------------------------------------------------------------------


def test_activations_of_the_reference(vectors: Path) -> None:
    seen = 0
    for file in sorted((vectors / "act/in").glob("*.npy")):
        made = vectors / "act/out" / file.name
        if made.with_suffix(".codes.npy").exists():
            found = i2s.quantize_activations(np.load(file))
            for part, ours in zip(("codes", "scale", "sum"), found, strict=False):
                assert np.array_equal(np.load(made.with_suffix(f".{part}.npy")), ours)
            seen += 1
    assert seen >= 5


def test_sums_of_the_reference_through_the_public_function(vectors: Path) -> None:
    """Raw products with recorded payloads: exact ones equal those of `exact`, others those of a named kernel."""
    exact, wrong = 0, set[str]()
    for file in sorted((vectors / "dot/out").glob("*.rawdot.*.npy")):
        name, which = file.name.split(".")[:2]
        rows, columns = map(int, name.rsplit("_", 1)[1].split("x"))
        path = vectors / f"quant/out_blk128/{name}.bin"
        x = vectors / f"act/in/{which}_{columns}.npy"
        if rows * columns % 128 or columns % 128 or not path.exists() or not x.exists():
            continue
        codes = i2s.quantize_activations(np.load(x)).codes
        payload, theirs = path.read_bytes()[: rows * columns // 4], np.load(file)
        fits = []
        for kernel in ("exact", *KERNEL_BUGS):
            ours = i2s.integer_product(payload, codes, (rows, columns), kernel=kernel, offset="kept").astype(F32)
            if np.array_equal(theirs, ours if theirs.shape == ours.shape else ours.T):
                fits.append(kernel)
        if ".exact" in file.name:
            assert fits[:1] == ["exact"], file.name
            exact += 1
        elif fits:
            assert "exact" not in fits, file.name
            wrong.update(fits)
    assert exact >= 3
    if vectors != ORACLE:
        assert exact > 10
        assert {"int16-wrap/avx2", "rows-of-four"} <= wrong


# --- code 3, and invalid shapes ------------------------------------------------------------------------------------------


def test_code_3_is_handled_as_the_caller_says() -> None:
    payload = bytes([0xFF]) + bytes([0x55]) * 31
    codes = np.zeros((1, 128), np.int8)
    codes[0, [0, 32, 64, 96]] = 5
    with pytest.raises(ValueError, match="code 3"):
        i2s.integer_product(payload, codes, (1, 128))
    assert i2s.integer_product(payload, codes, (1, 128), unused_code="plus-two").tolist() == [[40]]
    assert i2s.integer_product(payload, codes, (1, 128), unused_code="zero").tolist() == [[0]]
    assert unpack_codes(payload, (1, 128), CANONICAL.layout)[0, 0] == 3


@pytest.mark.parametrize(
    ("change", "error", "said"),
    [
        ({"x": np.zeros((1, 128))}, TypeError, "activations must be float32, not float64"),
        ({"x": np.zeros(128, F32)}, ValueError, r"\[tokens, columns\], not \[128\]"),
        ({"x": np.zeros((1, 64), F32)}, ValueError, r"\[tokens, 128\], not \[1, 64\]"),
        (
            {"weights": np.zeros((2, 128))},
            TypeError,
            "trits must be int8, not float64; for bytes of a tensor, give shape=",
        ),
        ({"weights": np.full((2, 128), 2, np.int8)}, ValueError, "trits must be -1, 0 or [+]1"),
        ({"weights": np.zeros((0, 128), np.int8)}, ValueError, "holds no elements"),
        ({"scale": None}, ValueError, "trits need a scale"),
        ({"weights": bytes(64), "scale": None, "shape": (2, 128)}, ValueError, "without its tail needs a scale"),
        ({"weights": bytes(65), "shape": (2, 128)}, ValueError, "there are 65 bytes"),
        ({"numerics": "fp4"}, ValueError, "there is no numeric profile 'fp4'"),
        (
            {"x": np.zeros((1, 100), F32), "weights": np.zeros((2, 100), np.int8), "numerics": "tq2_0"},
            ValueError,
            "256",
        ),
    ],
)
def test_wrong_arguments_are_refused(change: dict[str, Any], error: type[Exception], said: str) -> None:
    arguments = {"x": np.zeros((1, 128), F32), "weights": np.zeros((2, 128), np.int8), "scale": 1.0} | change
    with pytest.raises(error, match=said):
        i2s.bitlinear(**arguments)


def test_products_that_nobody_declared_are_refused() -> None:
    trits, codes = np.zeros((2, 128), np.int8), np.zeros((1, 128), np.int8)
    with pytest.raises(ValueError, match="unknown kernel 'fast'; there are: exact, int16-wrap/avx2"):
        i2s.integer_product(trits, codes, kernel="fast")
    with pytest.raises(ValueError, match="'subtracted' or 'kept', not 'halved'"):
        i2s.integer_product(trits, codes, offset="halved")  # type: ignore[arg-type]
    with pytest.raises(TypeError, match="activation codes must be int8, not int32"):
        i2s.integer_product(trits, codes.astype(np.int32))
    with pytest.raises(ValueError, match=r"\[tokens, 128\], not \[1, 64\]"):
        i2s.integer_product(trits, codes[:, :64])


def test_importing_the_package_loads_no_projection_module() -> None:
    code = (
        "import sys, i2s_spec; print([name for name in sys.modules if name.startswith('i2s_spec.') or name == 'numpy'])"
    )
    said = subprocess.run([sys.executable, "-c", code], capture_output=True, encoding="utf-8", check=True).stdout
    assert said.strip() == "[]"
