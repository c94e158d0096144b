"""Profile `fast`: programs against the interpreted graph and the normative profile, kernels of every set against NumPy."""

from __future__ import annotations

import io
import math
import struct
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from examples import examples, share
from hypothesis import given
from hypothesis import strategies as st
from test_forward import TOKENS, model_file, rewritten, tables

from i2s_spec.convert.new import new
from i2s_spec.errors import SettingError
from i2s_spec.gguf.reader import open as open_file
from i2s_spec.model import _fast, fast_operations, read_ahead
from i2s_spec.model.fast_compile import NotTranslated, address, translate
from i2s_spec.model.fast_operations import FastOperations
from i2s_spec.model.forward import Model, Result
from i2s_spec.model.load import load_model
from i2s_spec.model.reference.bitlinear import accumulate
from i2s_spec.schema.types import BY_NAME, I2_S

ARCHITECTURES = ["bitnet-b1.58", "bitnet-25", "bitnet", "llama", "qwen3", "qwen3-lm", "gemma3"]
SETS = [each for each in fast_operations.kernel_sets() if each.available]
NAMES = [each.name for each in SETS]


def settings_of(architecture: str) -> dict[str, Any]:
    return {"head_dim": 128} if architecture in ("qwen3", "qwen3-lm", "gemma3") else {}


def result(found: Result) -> np.ndarray:
    value = found.embedding if found.logits is None else found.logits
    assert value is not None
    return value


def distance(a: np.ndarray, b: np.ndarray) -> float:
    return float(np.linalg.norm(a.astype(np.float64) - b) / np.linalg.norm(b.astype(np.float64)))


def has_program(model: Model) -> bool:
    operations = model.operations
    assert isinstance(operations, FastOperations)
    return operations.plan(model.graph, model.weights, {}) is not None


@pytest.fixture(scope="module", params=ARCHITECTURES)
def architecture(request: pytest.FixtureRequest) -> str:
    return str(request.param)


@pytest.fixture(scope="module")
def data(architecture: str) -> bytes:
    return model_file(architecture, **settings_of(architecture))


# Programs


@pytest.mark.parametrize("isa", NAMES)
def test_a_program_gives_what_the_walked_graph_gives(data: bytes, isa: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """Bit for bit for a first token, where attention adds nothing up; for more, but for the order of its sums."""
    monkeypatch.setenv("I2S_ISA", isa)
    model = load_model(data, "fast", threads=2)
    assert has_program(model)
    name = model.graph.nodes[0].name
    assert result(model.forward(TOKENS[:1])).tobytes() == result(model.forward(TOKENS[:1], taps=(name,))).tobytes()
    assert distance(result(model.forward(TOKENS)), result(model.forward(TOKENS, taps=(name,)))) < 1e-5


def test_the_profile_fast_is_near_the_normative_one(data: bytes) -> None:
    model, golden = load_model(data, "fast"), load_model(data)
    assert distance(result(model.forward(TOKENS)), result(golden.forward(TOKENS))) < 0.1


def test_a_scale_beside_a_weight_multiplies_its_product(architecture: str) -> None:
    """Bit for bit as if the weight were multiplied by it, which a power of two allows."""
    data = model_file(architecture, type="I2_S" if architecture == "bitnet" else "F16", **settings_of(architecture))
    beside: dict[str, Any] = {}
    halved: dict[str, Any] = {}
    with open_file(data) as file:
        for tensor in (each for each in file.tensors.rows if each.name.startswith("blk.") and len(each.ne) == 2):
            name, content = tensor.name.removesuffix("weight"), bytearray(tensor.read())
            beside[f"{name}scale"] = (BY_NAME["F32"], struct.pack("<f", 0.5))
            beside[f"{name}input_scale"] = (BY_NAME["F32"], struct.pack("<f", 7.0))  # no graph uses it
            values = (
                np.frombuffer(content, "<f4", 1, len(content) - 32)
                if tensor.type is I2_S
                else np.frombuffer(content, "<f2")
            )
            values *= 0.5
            halved[tensor.name] = (tensor.type, bytes(content))
    one, other = rewritten(data, beside), rewritten(data, halved)
    for profile in ("bitnet-golden-1", "fast"):
        a, b = (load_model(each, profile, threads=1) for each in (one, other))
        assert profile != "fast" or has_program(a)
        assert result(a.forward(TOKENS)).tobytes() == result(b.forward(TOKENS)).tobytes()
        assert result(a.forward(TOKENS)).tobytes() != result(load_model(data, profile).forward(TOKENS)).tobytes()


def test_neither_threads_nor_parts_change_anything(architecture: str, data: bytes) -> None:
    tokens = [*range(40), *TOKENS]
    model = load_model(data, "fast", threads=1)
    once = result(model.forward(tokens))
    for threads in (1, 2, 5):
        assert result(load_model(data, "fast", threads=threads).forward(tokens)).tobytes() == once.tobytes()
    if architecture in ("qwen3", "gemma3"):
        return
    assert distance(result(model.forward(tokens, together=7)), once) < 1e-5
    cache = model.new_cache()
    steps = np.concatenate([result(model.forward([token], cache=cache, logits="last")) for token in tokens])
    assert distance(steps, once) < 1e-5
    assert distance(result(model.forward(tokens, logits="last")), once[-1:]) < 1e-6
    assert result(model.forward(tokens, logits="last", together=5)).shape == (1, model.vocab_size)


def test_a_batch_gives_each_what_it_gives_alone(data: bytes) -> None:
    model = load_model(data, "fast", threads=2)
    prompts = [TOKENS, [5], TOKENS[::-1], list(range(50))]
    for prompt, found in zip(prompts, model.forward_batch(prompts), strict=True):
        assert distance(result(found), result(model.forward(prompt))) < 1e-5
        assert found.cache.tokens == prompt


@pytest.mark.parametrize("isa", NAMES)
@pytest.mark.parametrize(
    "shape",
    [
        {"heads": 4, "heads_kv": 2, "context": 1024},
        {"embd": 1152, "heads": 9, "heads_kv": 3, "context": 512},
        {"embd": 1152, "heads": 9, "heads_kv": 3, "context": 512, "type": "F16"},
        {"heads": 4, "heads_kv": 1, "vocab": 1001, "type": "Q2_0"},
    ],
    ids=["long", "wide", "floats", "walked"],
)
def test_single_tokens_of_a_batch_have_the_bits_that_they_have_alone(
    shape: dict[str, Any], isa: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Behind contexts of every length: some are processed in pieces, some whole."""
    monkeypatch.setenv("I2S_ISA", isa)
    out = io.BytesIO()
    new(out, "bitnet-b1.58", layers=2, seed=5, **{"embd": 256, "ff": 384, **shape})
    models = [load_model(out.getvalue(), "fast", threads=threads) for threads in (1, 3)]
    random = np.random.Generator(np.random.PCG64(9))
    prompts = [random.integers(0, 256, length).tolist() for length in (1, 2, 300, 7, 255, 3, 256, 31, 511, 64)]
    prompts = [each for each in prompts if len(each) < models[0].context_length]
    caches = [models[0].new_cache() for _ in prompts]
    for prompt, cache in zip(prompts, caches, strict=True):
        models[0].forward(prompt, cache=cache, logits="last")
    tokens = random.integers(0, 256, len(prompts)).tolist()
    alone = []
    for token, cache in zip(tokens, caches, strict=True):
        alone.append(result(models[0].forward([token], cache=cache)).tobytes())
        cache.cut(cache.used - 1)
    for model in models:
        for count in (len(prompts), 2, 5):
            found = model.forward_batch([[token] for token in tokens[:count]], caches[:count])
            assert [result(each).tobytes() for each in found] == alone[:count]
            for cache in caches[:count]:
                cache.cut(cache.used - 1)


@pytest.mark.parametrize("kind", ["Q8_0", "Q6_K"])
def test_heads_of_other_types_take_tokens_of_a_batch_alone(kind: str) -> None:
    pytest.importorskip("gguf")
    plain = model_file()
    model = load_model(rewritten(plain, {"token_embd.weight": (kind, tables(plain)[kind][0])}), "fast", force=True)
    tokens = [3, 1, 4, 1, 5]
    found = model.forward_batch([[token] for token in tokens])
    assert [result(each).tobytes() for each in found] == [result(model.forward([t])).tobytes() for t in tokens]


@pytest.mark.parametrize("heads_kv", [1, 2])
def test_a_long_context(heads_kv: int) -> None:
    """Beyond the keys that one thread looks at alone, and beyond the first table of angles. Four rows of queries that share
    keys ask for memory in another way than two."""
    out = io.BytesIO()
    new(out, "bitnet-b1.58", layers=1, seed=5, embd=128, ff=128, heads=4, heads_kv=heads_kv, context=2048)
    model = load_model(out.getvalue(), "fast", threads=3)
    random = np.random.Generator(np.random.PCG64(7))
    tokens = random.integers(0, model.vocab_size, 1300).tolist()
    cache = model.new_cache()
    model.forward(tokens[:-1], cache=cache, logits="last")
    name = model.graph.nodes[0].name
    walked = result(model.forward(tokens, taps=(name,), logits="last", together=100))
    for threads in (1, 3):
        other = load_model(out.getvalue(), "fast", threads=threads)
        cache.cut(1299)
        assert distance(result(other.forward(tokens[-1:], cache=cache)), walked) < 1e-4


@pytest.mark.parametrize("architecture", share(ARCHITECTURES, 5), indirect=True)
def test_a_long_prompt(data: bytes, architecture: str) -> None:
    """More tokens than steps go over together, and more keys than are floats at a time. Where sums are added in another
    order, now and then an activation is rounded to the next code."""
    model = load_model(data, "fast", threads=1)
    tokens = np.random.Generator(np.random.PCG64(8)).integers(0, 256, min(300, model.context_length)).tolist()
    once = result(model.forward(tokens))
    assert distance(once, result(model.forward(tokens, taps=(model.graph.nodes[0].name,)))) < 0.02
    for threads in (2, 3):
        assert result(load_model(data, "fast", threads=threads).forward(tokens)).tobytes() == once.tobytes()


def run_steps(steps: list[dict[str, Any]], values: np.ndarray, tokens: int, threads: int) -> np.ndarray:
    """The values of all slots after steps over tokens."""
    program, after = _fast.Program(), values.copy()
    for step in steps:
        program.add(_fast.OPS["times"], **step)
    none, one = np.zeros((1, 1), dtype=np.float32), np.zeros(1, dtype=np.float32)
    program.run(
        SETS[-1].row, 0, threads, 1, np.array([[0, tokens, 0]]), np.arange(tokens), np.arange(tokens),
        np.zeros(2, dtype=np.uintp), after, none, one, one, np.zeros(1, np.int8), np.zeros(1, np.int8), one,
        np.zeros(1, np.int32),
    )  # fmt: skip
    return after


@pytest.mark.parametrize("threads", [1, 3])
def test_steps_over_tokens_keep_out_of_each_others_way(threads: int) -> None:
    """A slot that has another width in the next step holds rows of other tokens: that step must wait for all of them."""
    tokens = 900
    values = np.random.Generator(np.random.PCG64(9)).standard_normal(tokens * 3 * 64).astype(np.float32)
    first, second, third = (slice(tokens * 64 * i, tokens * 64 * (i + 1)) for i in range(3))
    steps = [
        {"x": 0, "out": 64, "width": 60, "factor": 2.0},
        {"x": 128, "out": 0, "width": 64, "factor": 3.0},
        {"x": 0, "out": 128, "width": 64, "factor": 5.0},
    ]
    after = run_steps(steps, values, tokens, threads)
    used = tokens * 60
    assert np.array_equal(after[second][:used], values[first][:used] * np.float32(2))
    assert np.array_equal(after[first], values[third] * np.float32(3))
    assert np.array_equal(after[third], values[third] * np.float32(3) * np.float32(5))


@pytest.mark.parametrize(
    "shape",
    [
        {"embd": 384, "ff": 384, "heads": 8, "heads_kv": 2},  # heads of 48
        {"embd": 128, "ff": 128, "heads": 8, "heads_kv": 1},
        {"embd": 384, "ff": 256, "heads": 6, "heads_kv": 3},
    ],
)
def test_odd_shapes(shape: dict[str, int]) -> None:
    out = io.BytesIO()
    new(out, "bitnet-b1.58", layers=2, seed=3, **shape)
    model, golden = load_model(out.getvalue(), "fast", force=True), load_model(out.getvalue(), force=True)
    assert has_program(model)
    name = model.graph.nodes[0].name
    assert result(model.forward(TOKENS[:1])).tobytes() == result(model.forward(TOKENS[:1], taps=(name,))).tobytes()
    assert distance(result(model.forward(TOKENS)), result(golden.forward(TOKENS))) < 0.1


def test_integers_are_the_definition(data: bytes) -> None:
    """Op by op: the codes of what entered, and exact sums."""
    model, golden = load_model(data, "fast", threads=2), load_model(data)
    found = model.forward(TOKENS, taps=("*",)).taps
    for node in model.graph:
        if node.op != "linear":
            continue
        prefix, matrix = node.weight.removesuffix(".weight"), model.weights.matrix(node.weight)
        codes = found[f"{prefix}.act_q8"]
        acc = accumulate(matrix.payload, matrix.rows, matrix.columns, codes)  # type: ignore[union-attr]
        assert found[f"{prefix}.acc_i32"].tobytes() == acc.tobytes()
        replayed = golden.evaluate(node.name, [found[name] for name in node.inputs])
        assert replayed[f"{prefix}.act_q8"].tobytes() == codes.tobytes()
        assert replayed[node.name].tobytes() == found[node.name].tobytes()


@pytest.mark.parametrize("kind", ["F32", "F16", "BF16", "Q8_0", "Q6_K", "I2_S"])
def test_heads_of_every_type(kind: str) -> None:
    pytest.importorskip("gguf")
    plain = model_file()
    content, _ = tables(plain)[kind]
    changed = rewritten(plain, {"token_embd.weight": (kind, content)})
    model, golden = load_model(changed, "fast", threads=2, force=True), load_model(changed, force=True)
    assert has_program(model)
    assert distance(result(model.forward(TOKENS)), result(golden.forward(TOKENS))) < 0.1
    last = model.forward(TOKENS, logits="last").logits
    assert last is not None
    assert distance(last, result(model.forward(TOKENS))[-1:]) < 1e-5


def test_graphs_that_do_not_compile_are_interpreted() -> None:
    data = model_file()
    model, golden = load_model(data, "fast", threads=1), load_model(data)
    strange = model.graph.without("ffn_sub_norm-0")
    assert (
        distance(
            result(model.replace(graph=strange).forward(TOKENS)), result(golden.replace(graph=strange).forward(TOKENS))
        )
        < 0.2
    )
    other = model.replace(numerics=model.numerics.replace(quantizer={"rounding": "away"}))
    assert not has_program(other)
    assert distance(result(other.forward(TOKENS)), result(golden.forward(TOKENS))) < 0.2
    wide = model.replace(numerics=model.numerics.replace(cache="f32"))
    assert distance(result(wide.forward(TOKENS)), result(golden.forward(TOKENS))) < 0.1
    part = model.graph.layer(0)
    with pytest.raises(NotTranslated):
        translate(part, model.weights, {})


def test_infinities_and_nan_come_through() -> None:
    data = model_file()
    model = load_model(data, "fast", threads=1)
    gain = model.weights.vector("blk.0.attn_norm.weight").copy()
    for value in (np.nan, np.inf, 1e38):
        gain[3] = value
        broken = rewritten(data, {"blk.0.attn_norm.weight": ("F32", gain.tobytes())})
        fast_, golden = load_model(broken, "fast", force=True), load_model(broken, force=True)
        a, b = result(fast_.forward(TOKENS)), result(golden.forward(TOKENS))
        assert np.array_equal(np.isfinite(a), np.isfinite(b)), value


def test_small_official_models(shared: Path) -> None:
    for path in sorted((shared / "vectors" / "gguf").glob("*.gguf")):
        if "arm64" in path.name or "row4" in path.name or "CORRUPT" in path.name:
            continue
        model, golden = load_model(path, "fast", threads=2), load_model(path)
        assert distance(result(model.forward(TOKENS)), result(golden.forward(TOKENS))) < 0.3


def test_invalid_inputs_are_refused() -> None:
    model = load_model(model_file(), "fast")
    with pytest.raises(SettingError, match="too many"):
        model.forward([1] * (model.context_length + 1))
    with pytest.raises(SettingError, match="another profile"):
        model.forward([1], cache=load_model(model_file()).new_cache())


# Kernels


def weights(random: np.random.Generator, rows: int, columns: int, kind: str) -> tuple[Any, Any]:
    """Weights of a type, and the same as floats; bfloat16 is `uint16`."""
    floats = random.standard_normal((rows, columns)).astype(np.float32)
    if kind == "uint16":
        w = (floats.view(np.uint32) >> 16).astype(np.uint16)
        return w, (w.astype(np.uint32) << 16).view(np.float32)
    return floats.astype(kind), floats.astype(kind).astype(np.float32)


@pytest.mark.parametrize("isa", SETS, ids=NAMES)
@given(
    st.integers(1, 40),
    st.integers(1, 300),
    st.integers(1, 9),
    st.sampled_from(["float32", "float16", "uint16"]),
    st.data(),
)
@examples(40)
def test_products(isa: Any, rows: int, columns: int, tokens: int, kind: str, data: st.DataObject) -> None:
    """Near the sums of float64; and each the same whatever is computed beside it, but for one token alone."""
    random = np.random.Generator(np.random.PCG64(data.draw(st.integers(0, 1 << 30))))
    w, exact = weights(random, rows, columns, kind)
    x = random.standard_normal((tokens, columns)).astype(np.float32)
    out = np.empty((tokens, rows), dtype=np.float32)
    _fast.dots(isa.row, _fast.TYPES[kind], address(w), rows, w.strides[0], x, out)
    limit = 4e-7 * math.sqrt(columns) * (np.abs(x).astype(np.float64) @ np.abs(exact).T.astype(np.float64)) + 1e-30
    assert (np.abs(out - x.astype(np.float64) @ exact.T.astype(np.float64)) <= limit).all()
    t, r = data.draw(st.integers(0, tokens - 1)), data.draw(st.integers(0, rows - 1))
    few = np.empty((min(2, tokens - t), rows - r), dtype=np.float32)
    _fast.dots(isa.row, _fast.TYPES[kind], address(w[r:]), rows - r, w.strides[0], x[t : t + 2], few)
    if (len(few) == 1) == (tokens == 1):
        assert few.tobytes() == out[t : t + 2, r:].tobytes()
    np.testing.assert_allclose(few, out[t : t + 2, r:], rtol=0, atol=float(limit.max()))


@pytest.mark.parametrize("isa", SETS, ids=NAMES)
@given(
    st.integers(1024, 1400),
    st.sampled_from([1, 3, 5, 600, 1100]),
    st.sampled_from(["float32", "float16", "uint16"]),
    st.integers(1, 1099),
)
@examples(60)
def test_long_rows_of_one_token(isa: Any, columns: int, rows: int, kind: str, cut: int) -> None:
    """Near the sums of float64, and each the same whichever rows a thread has: few of them, or more than a cache holds."""
    random = np.random.Generator(np.random.PCG64(columns * rows))
    w, exact = weights(random, rows, columns, kind)
    x = random.standard_normal((1, columns)).astype(np.float32)
    out = np.empty((1, rows), dtype=np.float32)
    _fast.dots(isa.row, _fast.TYPES[kind], address(w), rows, w.strides[0], x, out)
    limit = 4e-7 * math.sqrt(columns) * (np.abs(x).astype(np.float64) @ np.abs(exact).T.astype(np.float64))
    assert (np.abs(out - x.astype(np.float64) @ exact.T.astype(np.float64)) <= limit).all()
    cut = cut % rows
    for start, end in ((0, cut), (cut, rows)):
        if end > start:
            part = np.empty((1, end - start), dtype=np.float32)
            _fast.dots(isa.row, _fast.TYPES[kind], address(w[start:]), end - start, w.strides[0], x, part)
            assert part.tobytes() == out[:, start:end].tobytes()


@pytest.mark.parametrize("isa", SETS, ids=NAMES)
def test_every_float16_is_converted(isa: Any) -> None:
    """All 65,536 of them to floats, as factors of one; and floats around all of them back."""
    halves = np.arange(1 << 16, dtype=np.uint16).view(np.float16)
    out = np.empty((1, 1 << 16), dtype=np.float32)
    _fast.dots(isa.row, _fast.TYPES["float16"], address(halves), 1 << 16, 2, np.ones((1, 1), np.float32), out)
    want = halves.astype(np.float32)
    np.testing.assert_array_equal(out[0], want)
    finite = np.abs(want[np.isfinite(want)]).astype(np.float64)
    middle = ((finite[1:] + finite[:-1]) / 2).astype(np.float32)
    around = np.concatenate(
        [want, middle, np.nextafter(middle, np.float32(0)), np.nextafter(middle, np.float32(np.inf))]
    )
    around = np.concatenate([around, -around, np.float32([65519.996, 65520, 1e30, 1e-45, 2.0**-25, 2.0**-24])])
    back = np.empty(around.size, dtype=np.uint16)
    _fast.halve(isa.row, around, back)
    with np.errstate(over="ignore"):
        np.testing.assert_array_equal(back.view(np.float16), around.astype(np.float16))


@pytest.mark.parametrize("isa", SETS, ids=NAMES)
def test_activations(isa: Any) -> None:
    edges = [0.0, -0.0, np.inf, -np.inf, np.nan, 88.0, -88.0, 1e30, -1e30, 1e-40, -1e-40, 87.4, -87.2, -104.0]
    x = np.concatenate([np.linspace(-30, 30, 4001), edges]).astype(np.float32)
    wide = x.astype(np.float64)
    with np.errstate(all="ignore"):
        up = np.where(wide <= 0, 0, wide)
        tanh = np.tanh(np.sqrt(2 / np.pi) * (wide + 0.044715 * wide**3))
        want = {
            "relu": up, "square": wide**2, "relu2": up**2, "silu": wide / (1 + np.exp(-wide)), "gelu": wide / 2 * (1 + tanh),
        }  # fmt: skip
        for name, values in want.items():
            out = np.empty_like(x)
            _fast.activate(isa.row, _fast.ACTIVATIONS[name], x, out)
            np.testing.assert_allclose(out, values.astype(np.float32), rtol=2e-6, atol=2e-6, err_msg=name)


@pytest.mark.parametrize("isa", SETS, ids=NAMES)
@pytest.mark.parametrize("width", [1, 7, 64, 100, 2560])
def test_norms(isa: Any, width: int) -> None:
    x = np.random.Generator(np.random.PCG64(width)).standard_normal((3, width)).astype(np.float32)
    x[1] = 0
    out = np.empty_like(x)
    _fast.norm(isa.row, x, 1e-5, out)
    wide = x.astype(np.float64)
    np.testing.assert_allclose(out, wide / np.sqrt((wide**2).mean(-1, keepdims=True) + 1e-5), rtol=3e-6)


# Weights


def test_weights_are_read_once_and_counted(tmp_path: Path) -> None:
    path = tmp_path / "m.gguf"
    path.write_bytes(model_file())
    seen: list[tuple[int, int]] = []
    model = load_model(path, "fast", threads=2, progress=lambda done, of: seen.append((done, of)))
    assert seen[-1][0] == seen[-1][1] > 0
    assert [done for done, _ in seen] == sorted(done for done, _ in seen)
    matrix = model.weights.matrix("blk.0.attn_q.weight")
    assert address(matrix.payload) % read_ahead.CACHE_LINE == 0  # type: ignore[union-attr]
    first = result(model.forward(TOKENS))
    model.close()
    assert result(model.forward(TOKENS)).tobytes() == first.tobytes()
    assert first.tobytes() == result(load_model(model_file(), "fast", threads=2).forward(TOKENS)).tobytes()
    silent: list[Any] = []
    load_model(path, progress=lambda *seen: silent.append(seen))
    assert silent == []


@pytest.mark.requirement("R9.11-3")
def test_other_byte_order_and_dialect(tmp_path: Path) -> None:
    plain = result(load_model(model_file(), "fast").forward(TOKENS))
    path = tmp_path / "big.gguf"
    path.write_bytes(model_file(byte_order="big"))
    assert result(load_model(path, "fast").forward(TOKENS)).tobytes() == plain.tobytes()
    path.write_bytes(model_file())
    other, golden = (load_model(path, profile, dialect="interleave-64") for profile in ("fast", "bitnet-golden-1"))
    assert has_program(other)
    assert distance(result(other.forward(TOKENS)), result(golden.forward(TOKENS))) < 0.1
    assert distance(result(other.forward(TOKENS)), plain) > 0.1


def test_rows_that_begin_inside_blocks(monkeypatch: pytest.MonkeyPatch) -> None:
    """A matrix of 320 columns, which no converter writes: rows are repacked once."""
    monkeypatch.setattr("i2s_spec.convert.new.BLOCK", 64)
    out = io.BytesIO()
    new(out, "qwen3", layers=2, seed=3, embd=256, ff=256, heads=4, heads_kv=2, head_dim=80)
    model, golden = load_model(out.getvalue(), "fast", force=True), load_model(out.getvalue(), force=True)
    assert has_program(model)
    assert model.weights.matrix("blk.0.attn_output.weight").columns == 320  # type: ignore[union-attr]
    assert distance(result(model.forward(TOKENS)), result(golden.forward(TOKENS))) < 0.1
