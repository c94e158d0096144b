"""The public interface of models: caches, batches, taps, embedding tables of every type, and refusals."""

from __future__ import annotations

import io
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from builders import model_bytes

from i2s_spec.errors import FormatError, ReadOnWarning, SettingError
from i2s_spec.gguf.reader import open as open_file
from i2s_spec.gguf.writer import Writer
from i2s_spec.model.forward import Model
from i2s_spec.model.load import load_model
from i2s_spec.model.reference.embedding_table import EmbeddingTable
from i2s_spec.model.weights import ModelWeights

TOKENS = [3, 99, 250, 7, 7, 41, 11, 12]


#: A file of two small layers.
model_file = partial(model_bytes, layers=2, seed=2, embd=256, ff=512, heads=4)


def rewritten(data: bytes, tensors: dict[str, Any] | None = None, values: dict[str, Any] | None = None) -> bytes:
    """The file with some tensors as (type, bytes), or without them where that is None; and with other values. Those
    that it does not have are added, with one element."""
    tensors, values = tensors or {}, values or {}
    out = io.BytesIO()
    with open_file(data) as file, Writer(out) as writer:
        for entry in file.metadata.rows:
            if values.get(entry.key, 0) is not None:
                kind = entry.label.partition("[")[2].rstrip("]") if entry.type == 9 else None
                value = values.get(entry.key, file.metadata[entry.key])
                writer.add(entry.key, value, entry.label if kind is None else f"arr[{kind}]")
        for tensor in file.tensors.rows:
            kind, content = tensor.type, tensor.read()
            if tensor.name in tensors:
                if tensors[tensor.name] is None:
                    continue
                kind, content = tensors[tensor.name]
            writer.add_tensor(tensor.name, tensor.shape, kind, content)
        for name, (kind, content) in ((name, tensors[name]) for name in tensors if name not in file.tensors):
            writer.add_tensor(name, (1,), kind, content)
    return out.getvalue()


@pytest.fixture(scope="module")
def data() -> bytes:
    return model_file()


@pytest.fixture(scope="module")
def model(data: bytes) -> Model:
    return load_model(data, threads=1)


def logits(model: Model, tokens: list[int], **settings: Any) -> np.ndarray:
    found = model.forward(tokens, **settings).logits
    assert found is not None
    return found


# Caches and batches


def test_a_cache_grows_by_what_is_run(model: Model) -> None:
    whole = logits(model, TOKENS)
    cache = model.new_cache(20)
    first = logits(model, TOKENS[:5], cache=cache)
    assert (cache.used, cache.tokens, cache.length) == (5, TOKENS[:5], 20)
    rest = logits(model, TOKENS[5:], cache=cache)
    assert np.concatenate([first, rest]).tobytes() == whole.tobytes()
    cache.cut(3)
    again = logits(model, TOKENS[3:], cache=cache)
    assert again.tobytes() == whole[3:].tobytes()


def test_an_error_half_way_leaves_the_cache_as_it_was(model: Model) -> None:
    cache = model.new_cache()
    model.forward(TOKENS[:3], cache=cache)

    def stop(done: int, of: int) -> None:
        assert (done, of) == (2, 5)
        raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        model.forward(TOKENS[3:], cache=cache, together=2, progress=stop)
    assert cache.tokens == TOKENS[:3]
    assert logits(model, TOKENS[3:], cache=cache).tobytes() == logits(model, TOKENS)[3:].tobytes()


def test_a_batch_gives_each_what_it_gives_alone(model: Model) -> None:
    prompts = [TOKENS, [5], TOKENS[::-1]]
    together = model.forward_batch(prompts, taps=("kq", "l_out", "act_sum"))
    for prompt, result in zip(prompts, together, strict=True):
        alone = model.forward(prompt, taps=("kq", "l_out", "act_sum"))
        assert result.logits is not None
        assert alone.logits is not None
        assert result.logits.tobytes() == alone.logits.tobytes()
        assert result.cache.tokens == prompt
        assert {name: tap.tobytes() for name, tap in result.taps.items()} == {
            name: tap.tobytes() for name, tap in alone.taps.items()
        }
    steps = model.forward_batch([[9], [8], [7]], [result.cache for result in together])
    for prompt, token, result in zip(prompts, (9, 8, 7), steps, strict=True):
        assert result.logits is not None
        assert result.logits.tobytes() == logits(model, [*prompt, token])[-1:].tobytes()
    assert model.forward_batch([]) == []
    with pytest.raises(SettingError, match="as many caches, all different"):
        model.forward_batch([[1], [2]], [together[0].cache] * 2)


def test_embeddings(model: Model) -> None:
    embedding = load_model(model_file("qwen3", head_dim=128), threads=1)
    results = embedding.forward_batch([TOKENS, [5]])
    for tokens, result in zip((TOKENS, [5]), results, strict=True):
        alone = embedding.forward(tokens, taps=("result_norm",))
        assert result.logits is None
        assert result.embedding is not None
        assert alone.embedding is not None
        assert (
            result.embedding.tobytes()
            == alone.embedding.tobytes()
            == embedding.forward(tokens, together=3).embedding.tobytes()
        )  # type: ignore[union-attr]
        last = alone.taps["result_norm"][-1].astype(np.float64)
        np.testing.assert_allclose(alone.embedding, last / np.linalg.norm(last), rtol=1e-6, atol=1e-7)
    assert embedding.pooling_rule == "qwen3.pooling_type says 3"


@pytest.mark.requirement("R9.4-1")
@pytest.mark.parametrize("pooling", ["mean", "first", "last"])
def test_poolings(pooling: str) -> None:
    embedding = load_model(model_file("gemma3"), threads=1, pooling=pooling)
    result = embedding.forward(TOKENS, taps=("result_norm",))
    rows = result.taps["result_norm"].astype(np.float64)
    want = {"mean": rows.mean(axis=0), "first": rows[0], "last": rows[-1]}[pooling]
    assert result.embedding is not None
    np.testing.assert_allclose(result.embedding, want / np.linalg.norm(want), rtol=1e-5, atol=1e-7)


def test_last_logits_only(model: Model) -> None:
    whole = logits(model, TOKENS)
    for together in (3, 4, 8, 256):
        assert logits(model, TOKENS, logits="last", together=together).tobytes() == whole[-1:].tobytes()


# Taps


def test_taps_by_name_base_and_pattern(model: Model) -> None:
    def names(*taps: str, **settings: Any) -> set[str]:
        return set(model.forward(TOKENS, taps=taps, **settings).taps)

    assert names("Qcur-0#1") == {"Qcur-0#1"}
    assert names("Qcur") == {"Qcur-0", "Qcur-0#1", "Qcur-1", "Qcur-1#1"}
    assert names("blk.1.*.act_scale") == {f"blk.1.{p}.act_scale" for p in (
        "attn_q", "attn_k", "attn_v", "attn_output", "ffn_up", "ffn_gate", "ffn_down")}  # fmt: skip
    assert names() == set()
    pieces = model.forward(TOKENS, taps=("*_norm", "act_q8"), together=3).taps
    for name, tap in model.forward(TOKENS, taps=("*_norm", "act_q8")).taps.items():
        assert pieces[name].tobytes() == tap.tobytes()
    with pytest.raises(SettingError, match=r"no value is called 'Qcur-7'; there are inp_embd, norm, attn_norm"):
        names("Qcur-7")
    with pytest.raises(TypeError, match="put a single name into a tuple"):
        model.forward(TOKENS, taps="Qcur")


def test_taps_are_copies(model: Model) -> None:
    result = model.forward(TOKENS, taps=("k", "inp_embd"))
    before = logits(model, TOKENS[:1], cache=result.cache)
    result.cache.cut(len(TOKENS))
    result.taps["k-0"][:] = 0
    assert logits(model, TOKENS[:1], cache=result.cache).tobytes() == before.tobytes()


# Tables


def tables(data: bytes) -> dict[str, tuple[Any, np.ndarray]]:
    """The embedding table as each type has it: its bytes, and the numbers that they stand for."""
    import gguf
    from gguf.quants import dequantize, quantize

    from i2s_spec.codec import quantize as codec_quantize
    from i2s_spec.codec import reference

    with open_file(data) as file:
        wide = file.tensors["token_embd.weight"].array().astype(np.float32)
    bfloat16 = (wide.view(np.uint32) >> 16).astype(np.uint16)
    q8 = quantize(wide, gguf.GGMLQuantizationType.Q8_0)
    random = np.random.default_rng(0)
    q6 = random.integers(0, 256, (len(wide), wide.shape[1] // 256 * 210), dtype=np.uint8)
    q6.reshape(-1, 210)[:, 208:] = (
        random.uniform(0.001, 0.002, q6.size // 210).astype("<f2").view(np.uint8).reshape(-1, 2)
    )
    i2s = codec_quantize.quantize(wide, "embedding-mean")
    return {
        "F32": (wide.tobytes(), wide),
        "F16": (wide.astype(np.float16).tobytes(), wide.astype(np.float16).astype(np.float32)),
        "BF16": (bfloat16.tobytes(), (bfloat16.astype(np.uint32) << 16).view(np.float32)),
        "Q8_0": (q8.tobytes(), dequantize(q8, gguf.GGMLQuantizationType.Q8_0)),
        "Q6_K": (q6.tobytes(), dequantize(q6, gguf.GGMLQuantizationType.Q6_K)),
        "I2_S": (i2s, reference.dequantize(i2s, wide.shape)),
    }


@pytest.mark.parametrize("kind", ["F32", "F16", "BF16", "Q8_0", "Q6_K", "I2_S"])
def test_embedding_tables_of_every_type(data: bytes, kind: str) -> None:
    """Rows and heads are the numbers that the gguf package reads; the head is their products in float64."""
    pytest.importorskip("gguf")
    content, want = tables(data)[kind]
    model = load_model(rewritten(data, {"token_embd.weight": (kind, content)}), threads=1, force=True)
    table = EmbeddingTable(model.weights, "token_embd.weight")
    assert table.type == kind
    assert table.take(np.arange(table.rows)).tobytes() == want.tobytes()
    result = model.forward(TOKENS, taps=("inp_embd", "result_norm"))
    assert result.taps["inp_embd"].tobytes() == want[TOKENS].tobytes()
    products = result.taps["result_norm"].astype(np.float64) @ want.T.astype(np.float64)
    np.testing.assert_allclose(result.logits, products, rtol=1e-6, atol=1e-6 * np.abs(products).max())
    runtime = model.replace(numerics="bitnetcpp-2025").forward(TOKENS, taps=("result_norm",))
    scale = np.abs(products).max()
    products = runtime.taps["result_norm"].astype(np.float64) @ want.T.astype(np.float64)
    limit = {"F32": 1e-6, "F16": 1e-3, "BF16": 1e-2, "Q8_0": 2e-2, "Q6_K": 2e-2, "I2_S": 2e-2}[kind]
    np.testing.assert_allclose(runtime.logits, products, rtol=0, atol=limit * scale)


@pytest.mark.parametrize("kind", ["TQ2_0", "TQ1_0", "F32", "F16", "BF16"])
def test_projections_of_other_types(data: bytes, model: Model, kind: str) -> None:
    """Ternary types are the same model where their F16 scale is exact; floats are multiplied as they are."""
    from i2s_spec.codec.change_groups import pack_blocks

    exact = {}
    changed = {}
    for tensor in model.file.tensors.rows:
        if str(tensor.type) == "I2_S":
            trits, _ = tensor.ternary().whole()
            from i2s_spec.codec import native

            exact[tensor.name] = ("I2_S", bytes(native.pack(trits, 0.0625)))
            floats = trits.astype(np.float32) * np.float32(0.0625)
            changed[tensor.name] = (kind, {
                "F32": floats.tobytes, "F16": floats.astype(np.float16).tobytes,
                "BF16": (floats.view(np.uint32) >> 16).astype(np.uint16).tobytes,
            }[kind]() if kind not in ("TQ1_0", "TQ2_0") else pack_blocks(trits, 0.0625, kind))  # fmt: skip
    same = load_model(rewritten(data, exact), threads=1)
    other = load_model(rewritten(data, changed), threads=1, force=True)
    if kind.startswith("TQ"):
        assert logits(other, TOKENS).tobytes() == logits(same, TOKENS).tobytes()
        return
    assert not [name for name in other.tap_names() if "act_q8" in name]
    plain = same.numerics.replace(quantizer={"groups": "none"})
    assert logits(other, TOKENS).tobytes() == logits(same.replace(numerics=plain), TOKENS).tobytes()


@pytest.mark.requirement("R2.1-2")
def test_byte_order_does_not_matter(data: bytes, model: Model) -> None:
    big = load_model(model_file(byte_order="big"), threads=1)
    assert logits(big, TOKENS).tobytes() == logits(model, TOKENS).tobytes()


def test_from_a_path_a_stream_a_map_and_an_open_file(data: bytes, model: Model, tmp_path: Path) -> None:
    path = tmp_path / "model.gguf"
    path.write_bytes(data)
    want = logits(model, TOKENS).tobytes()
    with load_model(path) as one, load_model(str(path), trusted=True) as two, load_model(io.BytesIO(data)) as three:
        assert [logits(each, TOKENS).tobytes() for each in (one, two, three)] == [want] * 3
    with open_file(path) as file:
        assert logits(load_model(file), TOKENS).tobytes() == want


# Refusals


@pytest.mark.parametrize(
    ("tokens", "message"),
    [
        ([], "the prompt is empty; there must be at least one token"),
        ([1, 2, 384], "token 2 is 384; the ids of this model are 0 to 383"),
        ([-1], "token 0 is -1; the ids"),
        ([[1, 2]], r"not an array of shape \[1, 2\]"),
        ([0] * 600, "600 tokens are too many; the model's context holds 512"),
    ],
)
def test_prompts_that_cannot_be_run(tokens: Any, message: str) -> None:
    model = load_model(model_file(vocab=384, context=512), threads=1)
    cache = model.new_cache()
    with pytest.raises(SettingError, match=message):
        model.forward(tokens, cache=cache)
    assert cache.used == 0


@pytest.mark.requirement("R9.11-1")
def test_tokens_are_whole_numbers(model: Model) -> None:
    for tokens in ([1.0], ["1"], [True]):
        with pytest.raises(TypeError, match="must be integers"):
            model.forward(tokens)  # type: ignore[arg-type]


def test_caches_that_do_not_fit(model: Model) -> None:
    with pytest.raises(SettingError, match="the model's context is 1 to"):
        model.new_cache(model.context_length + 1)
    with pytest.raises(SettingError, match="a cache of 0 tokens"):
        model.new_cache(0)
    cache = model.new_cache(4)
    model.forward([1, 2, 3], cache=cache)
    with pytest.raises(SettingError, match="2 tokens after 3 in the cache are too many; the cache holds 4"):
        model.forward([4, 5], cache=cache)
    with pytest.raises(SettingError, match="for another model, or another profile"):
        model.replace(numerics="bitnetcpp-2025").forward([4], cache=cache)
    with pytest.raises(ValueError, match="it cannot be cut to 5"):
        cache.cut(5)


def test_broken_models_are_refused_with_the_linters_finding(data: bytes, shared: Path) -> None:
    corrupt = shared / "vectors/gguf/bitnet.i2_s.2threads-CORRUPT.gguf"
    with pytest.raises(FormatError, match="chunked-payload"):
        load_model(corrupt)
    tried = load_model(corrupt, force=True, threads=1)
    assert not np.isfinite(logits(tried, TOKENS)).all()


@pytest.mark.requirement("R9.11-2")
@pytest.mark.parametrize("force", [False, True])
def test_missing_and_misshapen_tensors_are_refused_whatever_is_forced(data: bytes, force: bool) -> None:
    missing = rewritten(data, {"blk.1.ffn_sub_norm.weight": None})
    with pytest.raises(FormatError, match="M101"):
        load_model(missing, force=force)
    wide = rewritten(data, values={"bitnet-b1.58.feed_forward_length": 640})
    with pytest.raises(FormatError, match="M103"):
        load_model(wide, force=force)


@pytest.mark.parametrize("scale", [np.nan, np.inf])
def test_a_scale_that_is_not_a_number_is_refused(data: bytes, model: Model, scale: float) -> None:
    content = model.file.tensors["blk.1.attn_k.weight"].read()
    broken = content[:-32] + np.float32(scale).tobytes() + bytes(28)
    file = rewritten(data, {"blk.1.attn_k.weight": ("I2_S", broken)})
    with pytest.raises(ValueError, match=r"blk\.1\.attn_k\.weight"):
        load_model(file)
    tried = load_model(file, force=True, threads=1)
    assert not np.isfinite(logits(tried, TOKENS)).all()


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        ({"numerics": "quick"}, "there is no numeric profile 'quick'"),
        ({"threads": 0}, "0 threads do nothing"),
        ({"activation": "swish"}, "activations are relu2, silu, gelu"),
        ({"pooling": "max"}, "unknown pooling 'max'; there are: mean, first, last"),
        ({"dialect": "interleave-96"}, "no layout is called 'interleave-96'"),
    ],
)
def test_unknown_settings_are_refused(data: bytes, settings: dict[str, Any], message: str) -> None:
    with pytest.raises(ValueError, match=message):
        load_model(data, **settings)


def test_files_that_are_not_models_are_refused(shared: Path) -> None:
    for path in sorted((shared / "real").glob("*.gguf")):
        with pytest.raises((FormatError, SettingError)):
            load_model(path)
    with pytest.raises(FormatError):
        load_model(b"GGUF")


def test_types_that_no_operation_reads(data: bytes, model: Model) -> None:
    rows, columns = model.file.tensors["blk.0.attn_q.weight"].shape
    content = bytes(rows * columns // 256 * 210)
    with pytest.raises(
        SettingError, match=r"is Q6_K; in this place, only I2_S, Q2_0, .*, F32, F16, BF16 can be run here"
    ):
        load_model(rewritten(data, {"blk.0.attn_q.weight": ("Q6_K", content)}), force=True)


def test_weights_are_read_when_they_are_needed(data: bytes) -> None:
    model = load_model(data, threads=1)
    assert model.weights._loaded == {}
    with pytest.raises(SettingError, match="no tensor 'nothing'"):
        ModelWeights(model.file).vector("nothing")
    model.forward([1])
    assert set(model.weights._loaded) == set(model.file.tensors)
    model.close()
    model.forward([2])


def test_tensors_that_the_graph_does_not_use_are_named() -> None:
    """Sub-norms under a checkpoint's names: refused, and with `force` run with a warning; scales are only warned of."""
    gains = ("F32", np.ones(1, "<f4").tobytes())
    for name, strict in (("layers.0.mlp.ffn_sub_norm.weight", True), ("layers.1.x.weight_scale", False)):
        data = rewritten(model_bytes("llama", layers=2), {name: gains})
        if strict:
            with pytest.raises(FormatError, match="M102"):
                load_model(data)
        with pytest.warns(ReadOnWarning, match=f"computed without tensor '{name}', of which llama has none"):
            load_model(data, threads=1, force=strict)
