"""Mistakes that are injected into the importer, each with the check of the receipt that must fail."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from tiny_checkpoints import (
    Tiny,
    bf16_2b4t,
    bonsai,
    embedding_gemma3,
    embedding_qwen3,
    llama3,
    one_bit_llm,
    packed_2b4t,
    qwen35,
    weight_only,
)

from i2s_spec.checkpoints import families, plan, source_weights, token_files
from i2s_spec.checkpoints import import_checkpoint as importer
from i2s_spec.checkpoints.families import Family

Patch = Callable[[pytest.MonkeyPatch], None]


def _family(**changes: Any) -> Patch:
    """The family with other data; a function gets the old value."""

    def patch(monkeypatch: pytest.MonkeyPatch) -> None:
        recognize = families.recognize

        def changed(*given: Any) -> Any:
            found = recognize(*given)
            family: Family = found.family
            new = {key: value(getattr(family, key)) if callable(value) else value for key, value in changes.items()}
            return found._replace(family=family._replace(**new))

        monkeypatch.setattr(importer, "recognize", changed)

    return patch


def _exchanged(one: str, other: str) -> Callable[[dict[str, str]], dict[str, str]]:
    """Two names of a layer for each other."""
    words = {one: other, other: one}
    return lambda layer: {module: words.get(name, name) for module, name in layer.items()}


def other_convention(monkeypatch: pytest.MonkeyPatch) -> None:
    """Scales that multiply are taken to divide, and the other way round."""
    recognize = families.recognize

    def changed(*given: Any) -> Any:
        found = recognize(*given)
        return found._replace(convention="divide" if found.convention == "multiply" else "multiply")

    monkeypatch.setattr(importer, "recognize", changed)


def _sizes(**changes: Callable[[Any], Any]) -> Patch:
    def patch(monkeypatch: pytest.MonkeyPatch) -> None:
        sizes_of = importer.sizes_of

        def changed(config: Any) -> Any:
            found = sizes_of(config)
            h = found.h._replace(
                **{key: value(getattr(found.h, key)) for key, value in changes.items() if key != "rope"}
            )
            rope = changes["rope"](found.rope) if "rope" in changes else found.rope
            return found._replace(h=h, rope=rope)

        monkeypatch.setattr(importer, "sizes_of", changed)

    return patch


def _matrix(change: Callable[[source_weights.TernaryMatrix], source_weights.TernaryMatrix]) -> Patch:
    """What becomes of a matrix once it is read, packed or not."""

    def patch(monkeypatch: pytest.MonkeyPatch) -> None:
        for name in ("float_matrix", "packed_matrix"):
            read = getattr(plan, name)
            monkeypatch.setattr(plan, name, lambda *given, read=read: change(_with_trits(read(*given))))

    return patch


def _with_trits(matrix: source_weights.TernaryMatrix | source_weights.FloatMatrix) -> source_weights.TernaryMatrix:
    return source_weights.TernaryMatrix(matrix.trits, matrix.scales, matrix.rule)


def _absmean(change: Callable[[np.ndarray], tuple[np.ndarray, np.float32]]) -> Patch:
    """Another rule for floats: weights to trits and scale."""

    def patch(monkeypatch: pytest.MonkeyPatch) -> None:
        def made(stored: Any, rule: str, *_: Any) -> source_weights.TernaryMatrix:
            values = np.concatenate(list(source_weights.float_windows(stored))).reshape(stored.shape)
            trits, scale = change(values)
            return source_weights.TernaryMatrix(trits.astype(np.int8), np.full((1, 1), scale, np.float32), rule)

        monkeypatch.setattr(plan, "float_matrix", made)

    return patch


def _mean(values: np.ndarray) -> np.float32:
    return np.float32(np.abs(values).mean())


def _floats(change: Callable[[str, np.ndarray], np.ndarray]) -> Patch:
    """What becomes of the floats of a tensor before they are written."""

    def patch(monkeypatch: pytest.MonkeyPatch) -> None:
        words = plan.float_words
        monkeypatch.setattr(plan, "float_words", lambda name, values, type: words(name, change(name, values), type))
        slow = plan._float_bytes
        monkeypatch.setattr(plan, "_table_bytes", lambda name, stored, type, _: slow(name, stored, type, None))

    return patch


def _values(change: Callable[[dict[str, Any]], Any]) -> Patch:
    """What becomes of the keys of the tokenizer."""

    def patch(monkeypatch: pytest.MonkeyPatch) -> None:
        values = importer.tokenizer_values

        def changed(*given: Any) -> dict[str, Any]:
            found = values(*given)
            change(found)
            return found

        monkeypatch.setattr(importer, "tokenizer_values", changed)

    return patch


def _plan(change: Callable[[list[Any]], list[Any]]) -> Patch:
    def patch(monkeypatch: pytest.MonkeyPatch) -> None:
        planned = importer.planned

        def changed(*given: Any) -> Any:
            tensors, tied = planned(*given)
            return change(tensors), tied

        monkeypatch.setattr(importer, "planned", changed)

    return patch


def _relabelled(tensors: list[Any], one: str, other: str) -> list[Any]:
    """Two tensors under each other's names."""
    names = {one: other, other: one}
    return [tensor._replace(name=names.get(tensor.name, tensor.name)) for tensor in tensors]


def _like_halves(monkeypatch: pytest.MonkeyPatch) -> None:
    """BF16 read as if it were F16."""
    widened = source_weights.widened
    monkeypatch.setattr(
        source_weights, "widened", lambda words, type: widened(words, "F16" if type == "BF16" else type)
    )


def _rows_in_fours(matrix: source_weights.TernaryMatrix) -> source_weights.TernaryMatrix:
    """Packed rows taken as neighbors, not as blocks."""
    rows, cols = matrix.trits.shape
    return matrix._replace(trits=matrix.trits.reshape(4, rows // 4, cols).swapaxes(0, 1).reshape(rows, cols).copy())


def _transposed(matrix: source_weights.TernaryMatrix) -> source_weights.TernaryMatrix:
    rows, cols = matrix.trits.shape
    return matrix._replace(trits=np.ascontiguousarray(matrix.trits.T)) if rows == cols else matrix


def _kv_heads(monkeypatch: pytest.MonkeyPatch) -> None:
    """All rows permuted as if there were as many heads as keys have."""
    permuted = plan.to_gguf_rows
    monkeypatch.setattr(plan, "to_gguf_rows", lambda matrix, heads: permuted(matrix, 2))


def _grouped_heads(monkeypatch: pytest.MonkeyPatch) -> None:
    """Value heads in the order of the checkpoint."""
    monkeypatch.setattr(plan, "tiled_heads", lambda net, word: None)


def _shifted(key: str) -> Callable[[dict[str, Any]], None]:
    def change(values: dict[str, Any]) -> None:
        items = list(values[key])
        values[key] = items[1:] + items[:1]

    return change


def _set(key: str, value: Any) -> Patch:
    return _values(lambda values: values.__setitem__(f"tokenizer.{key}", value))


def _rows_shifted(name: str, values: np.ndarray) -> np.ndarray:
    return np.roll(values.reshape(-1, 128), 1, axis=0).reshape(-1) if name == "token_embd.weight" else values


def _wide_table() -> Tiny:
    """An embedding in F32, which F16 rounds."""
    tiny = packed_2b4t()
    table = np.random.default_rng(1).standard_normal((384, 128)).astype("<f4")
    tiny.tensors["model.embed_tokens.weight"] = ("F32", table)
    return tiny


def _towards_zero(name: str, values: np.ndarray) -> np.ndarray:
    if name != "token_embd.weight":
        return values
    halves = values.astype(np.float16)
    bits = halves.view(np.uint16) - (np.abs(halves.astype(np.float32)) > np.abs(values)).astype(np.uint16)
    return bits.view(np.float16).astype(np.float32)


def _words_for_marks(monkeypatch: pytest.MonkeyPatch) -> None:

    made = token_files.by_id

    def changed(words: Any, added: list[Any], size: int) -> tuple[list[str], list[int]]:
        tokens, types = made(words, added, size)
        return tokens, [1 if kind == token_files.CONTROL else kind for kind in types]

    monkeypatch.setattr(token_files, "by_id", changed)


#: Mistakes of an importer: a checkpoint that shows each, the type, the patch, and the check that must fail.
MISTAKES: dict[str, tuple[Callable[[], Tiny], str, Patch, str]] = {
    "gate and up exchanged": (llama3, "I2_S", _family(layer=_exchanged("ffn_gate", "ffn_up")), "b"),
    "keys and values exchanged": (packed_2b4t, "I2_S", _family(layer=_exchanged("attn_k", "attn_v")), "b"),
    "two norms exchanged": (packed_2b4t, "I2_S", _family(layer=_exchanged("attn_norm", "ffn_norm")), "b"),
    "head norms exchanged": (embedding_qwen3, "I2_S", _family(layer=_exchanged("attn_q_norm", "attn_k_norm")), "b"),
    "input norms exchanged": (embedding_qwen3, "I2_S", _family(layer=_exchanged("attn_q_norm_in", "attn_v_norm_in")), "b"),
    "queries not permuted": (llama3, "I2_S", _family(rows="same"), "e"),
    "queries permuted for nothing": (packed_2b4t, "I2_S", _family(rows="neighbors"), "e"),
    "queries permuted by the heads of keys": (llama3, "I2_S", _kv_heads, "b"),
    "reciprocal scale": (packed_2b4t, "I2_S", other_convention, "c"),
    "scale that divides taken as it is": (llama3, "I2_S", other_convention, "c"),
    "largest magnitude as scale": (bf16_2b4t, "I2_S", _absmean(
        lambda w: (np.sign(w) * (np.abs(w) > 1e-6), np.float32(np.abs(w).max()))), "b"),
    "weights cut off, not rounded": (bf16_2b4t, "I2_S", _absmean(
        lambda w: (np.clip(np.trunc(w / _mean(w)), -1, 1), _mean(w))), "b"),
    "weights rounded up": (bf16_2b4t, "I2_S", _absmean(lambda w: (np.clip(np.ceil(w / _mean(w)), -1, 1), _mean(w))), "b"),
    "median in place of the mean": (bf16_2b4t, "I2_S", _absmean(
        lambda w: (np.clip(np.rint(w / np.median(np.abs(w))), -1, 1), np.median(np.abs(w)))), "b"),
    "gain in place of the scale": (bf16_2b4t, "I2_S", _matrix(lambda m: m._replace(scales=1 / m.scales)), "c"),
    "scale shrunk by the zeros": (bf16_2b4t, "I2_S", _matrix(
        lambda m: m._replace(scales=m.scales * np.float32(np.abs(m.trits).mean()))), "c"),
    "scale rounded to a half": (bf16_2b4t, "I2_S", _matrix(
        lambda m: m._replace(scales=m.scales.astype(np.float16).astype(np.float32))), "c"),
    "scale off by its last bit": (bf16_2b4t, "I2_S", _matrix(
        lambda m: m._replace(scales=np.nextafter(m.scales, np.float32(9)))), "c"),
    "signs turned": (packed_2b4t, "I2_S", _matrix(lambda m: m._replace(trits=-m.trits)), "b"),
    "square matrices transposed": (packed_2b4t, "I2_S", _matrix(_transposed), "b"),
    "packed rows taken as neighbors": (packed_2b4t, "I2_S", _matrix(_rows_in_fours), "b"),
    "bfloat16 read as float16": (bf16_2b4t, "I2_S", _like_halves, "b"),
    "scales of groups in reverse": (bonsai, "Q2_0", _matrix(
        lambda m: m._replace(scales=np.ascontiguousarray(m.scales[::-1]))), "c"),
    "one scale for all groups": (bonsai, "Q2_0", _matrix(lambda m: m._replace(scales=m.scales[:1, :1])), "c"),
    "Gemma's norms without the 1": (embedding_gemma3, "I2_S", _family(norm_offset=0.0), "b"),
    "the 1 added to a model without": (packed_2b4t, "I2_S", _family(norm_offset=1.0), "b"),
    "embedding scaled": (embedding_gemma3, "I2_S", _floats(
        lambda name, values: values * np.float32(128**0.5) if name == "token_embd.weight" else values), "b"),
    "embedding off by a row": (packed_2b4t, "I2_S", _floats(_rows_shifted), "b"),
    "embedding rounded towards 0": (_wide_table, "I2_S", _floats(_towards_zero), "b"),
    "value heads left grouped": (qwen35, "I2_S", _grouped_heads, "b"),
    "share and decay exchanged": (qwen35, "I2_S", _family(layer=_exchanged("ssm_alpha", "ssm_beta")), "b"),
    "decays as logarithms": (qwen35, "I2_S", _floats(
        lambda name, values: np.log(-values) if name.endswith("ssm_a") else values), "b"),
    "convolution in reverse": (qwen35, "I2_S", _floats(
        lambda name, values: values[:, :, ::-1] if name.endswith("ssm_conv1d.weight") else values), "b"),
    "heads rotated wholly": (qwen35, "I2_S", _sizes(rope_dims=lambda _: 32), "k"),
    "sections of another model": (qwen35, "I2_S", _sizes(rope=lambda r: r._replace(sections=(11, 11, 10))), "k"),
    "layers in reverse": (packed_2b4t, "I2_S", _plan(
        lambda tensors: _relabelled(tensors, "blk.0.ffn_down.weight", "blk.1.ffn_down.weight")), "b"),
    "a norm left out": (packed_2b4t, "I2_S", _plan(lambda tensors: tensors[:-1]), "a"),
    "a tensor too many": (packed_2b4t, "I2_S", _plan(
        lambda tensors: [*tensors, tensors[-1]._replace(name="blk.0.extra.weight")]), "a"),
    "head left out": (llama3, "I2_S", _plan(
        lambda tensors: [tensor for tensor in tensors if tensor.name != "output.weight"]), "a"),
    "head and embedding exchanged": (llama3, "I2_S", _plan(
        lambda tensors: _relabelled(tensors, "output.weight", "token_embd.weight")), "b"),
    "bias left out": (weight_only, "I2_S", _plan(
        lambda tensors: [tensor for tensor in tensors if not tensor.name.endswith("bias")]), "a"),
    "base of the rotation left at its default": (packed_2b4t, "I2_S", _sizes(rope=lambda r: r._replace(base=10000.0)), "g"),
    "epsilon of another model": (packed_2b4t, "I2_S", _sizes(eps=lambda _: 1e-2), "k"),
    "context of another model": (packed_2b4t, "I2_S", _sizes(context=lambda _: 4096), "k"),
    "architecture of another activation": (packed_2b4t, "I2_S", _family(architecture="bitnet"), "g"),
    "vocabulary off by one": (llama3, "I2_S", _values(_shifted("tokenizer.ggml.tokens")), "f"),
    "merges in reverse": (llama3, "I2_S", _values(
        lambda values: values["tokenizer.ggml.merges"].reverse()), "f"),
    "merges left out": (llama3, "I2_S", _values(
        lambda values: values["tokenizer.ggml.merges"].__delitem__(slice(5, None))), "f"),
    "pre-tokenizer of another model": (llama3, "I2_S", _set("ggml.pre", "gpt-2"), "f"),
    "no first token": (llama3, "I2_S", _set("ggml.add_bos_token", False), "f"),
    "a last token": (llama3, "I2_S", _set("ggml.add_eos_token", True), "f"),
    "special tokens as words": (llama3, "I2_S", _words_for_marks, "f"),
    "end of text exchanged": (llama3, "I2_S", _set("ggml.eos_token_id", 381), "f"),
    "chat template left out": (llama3, "I2_S", _values(lambda values: values.pop("tokenizer.chat_template")), "f"),
    "chat template of another model": (llama3, "I2_S", _set("chat_template", "{{ messages[0]['content'] }}"), "f"),
    "scores turned": (one_bit_llm, "I2_S", _values(
        lambda values: values.__setitem__("tokenizer.ggml.scores", [-s for s in values["tokenizer.ggml.scores"]])), "f"),
    "scores left out": (embedding_gemma3, "I2_S", _values(
        lambda values: values.__setitem__("tokenizer.ggml.scores", [0.0] * 384)), "f"),
    "a space put before text": (embedding_gemma3, "I2_S", _set("ggml.add_space_prefix", True), "f"),
}  # fmt: skip
