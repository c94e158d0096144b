"""This module makes candidates with what repairs are for."""

# Tables: a row is easier to compare with the next than its cells one below the other.
# ruff: noqa: E501

from __future__ import annotations

import struct
from itertools import product
from typing import Any

from candidates_build import (
    CODES,
    Candidates,
    made_tensor,
    number_key,
    small_malformed,
    text_key,
    texts_key,
    with_settings,
)
from overlay import written

from i2s_spec.schema.types import BY_NAME, ValueType
from i2s_spec.testing.sample import Draft, Tensor, array, key_value


def _derived() -> Candidates:
    """Sizes that are missing, in every combination: what can be derived from what is left is."""
    names = (
        "attention.head_count",
        "attention.head_count_kv",
        "rope.dimension_count",
        "attention.key_length",
        "attention.value_length",
        "embedding_length",
    )
    for arch, chosen in product(("llama", "bitnet-b1.58", "qwen3"), product((False, True), repeat=len(names))):
        gone = [f"{arch}.{name}" for name, out in zip(names, chosen, strict=True) if out]
        mark = "".join("01"[out] for out in chosen)
        if any(chosen):
            yield f"derived-{arch}-{mark}", written({"base": arch, "without": gone})
        if sum(chosen) in (1, 2):
            yield (
                f"derived-{arch}-{mark}-no-norm",
                written({"base": arch, "without": [*gone, "blk.0.attn_q_norm.weight", "output_norm.weight"]}),
            )
            yield (
                f"derived-{arch}-{mark}-width",
                written(
                    {"base": arch, "without": gone},
                    [number_key(f"{arch}.attention.key_length", 32), number_key(f"{arch}.attention.value_length", 7)],
                ),
            )
            yield (
                f"derived-{arch}-{mark}-vector",
                written(
                    {"base": arch, "without": gone},
                    [],
                    [
                        Tensor(b"blk.0.attn_k.weight", (128,), 0, bytes(4)),
                        Tensor(b"blk.0.attn_v.weight", (128, 100), 0, bytes(4)),
                    ],
                ),
            )
    for name, data in small_malformed():
        code = name[:4]
        if code in ("M117", "M118", "M116", "M030", "M009", "G407", "I301", "G319") or code.startswith(("I20", "I30")):
            made = with_settings(data, select=[code])
            if made is not None:
                yield f"derived-select-{name}", made
            scrubbed = with_settings(data, scrub_tail=True)
            if scrubbed is not None:
                yield f"derived-scrubbed-{name}", scrubbed
    for arch, code in product(("bitnet", "bitnet-b1.58", "bitnet-25"), ("M117", "M118")):
        keys = [text_key(f"{arch}.hidden_activation", "silu")]
        yield f"derived-activation-{arch}-{code}", written({"base": arch, "select": [code]}, keys)
        yield f"derived-activation-{arch}-{code}-plain", written({"base": arch, "select": [code]})
    tail, codes = struct.pack("<f", 0.5) + bytes(28), CODES[:300]
    for name, scale, parent in (
        ("w.scale", 0.5, "I2_S"),
        ("w.scale", 0.25, "I2_S"),
        ("v.scale", 0.5, "I2_S"),
        ("w.scale", 0.5, "F32"),
    ):
        tensors = [
            made_tensor("w.weight", (128, 64), parent, codes + tail if parent == "I2_S" else bytes(4)),
            made_tensor(name, (1,), "F32", struct.pack("<f", scale)),
        ]
        for size in (None, 1000, 2200):
            more: dict[str, Any] = {} if size is None else {"size": size}
            for select in ([], ["G319"]):
                settings = {"base": "", **more, **({"select": select} if select else {})}
                yield f"derived-scale-{name}-{scale}-{parent}-{size}-{len(select)}", written(settings, [], tensors)
    for arch in ("llama", "bitnet"):
        for key, kind, value in (
            ("tokenizer.ggml.scores", ValueType.INT64, [(1 << 40) + 1, 3]),
            ("tokenizer.ggml.scores", ValueType.UINT32, [1, 2]),
            ("tokenizer.ggml.token_type", ValueType.FLOAT32, [1.0, 1.0]),
            ("tokenizer.ggml.token_type", ValueType.UINT32, [1, 1]),
        ):
            yield (
                f"derived-{arch}-{key}-{kind.label}",
                written({"base": arch}, [key_value(key.encode(), ValueType.ARRAY, array(kind, value))]),
            )
        for key, kind, value in ((f"{arch}.context_length", ValueType.FLOAT32, 4096.0), (f"{arch}.context_length", ValueType.FLOAT32, 0.5), (f"{arch}.context_length", ValueType.BOOL, 1), (f"{arch}.attention.layer_norm_rms_epsilon", ValueType.UINT32, 3),
                                 (f"{arch}.attention.layer_norm_rms_epsilon", ValueType.UINT64, (1 << 40) + 1), (f"{arch}.rope.freq_base", ValueType.UINT64, (1 << 40) + 1), (f"{arch}.rope.freq_base", ValueType.UINT32, 10_000),
                                 ("tokenizer.ggml.eos_token_id", ValueType.FLOAT32, 2.0), ("general.file_type", ValueType.FLOAT32, 40.5), ("tokenizer.ggml.add_bos_token", ValueType.FLOAT32, 1.0), ("tokenizer.ggml.add_eos_token", ValueType.INT32, 1)):  # fmt: skip
            yield (
                f"derived-{arch}-{key}-{kind.label}-{value}",
                written({"base": arch}, [key_value(key.encode(), kind, value)]),
            )
    for name in ("\x07odd", "a\x1bb"):
        tensor = Tensor(name.encode(), (128, 64), BY_NAME["I2_S"].number, codes + tail)
        for more in ({"keep_unknown": True}, {"keep_unknown": True, "bare": True}):
            yield (
                f"derived-name-{name.encode().hex()}-{len(more)}",
                written({"base": "", **more}, [number_key("flag", 2, ValueType.BOOL)], [tensor]),
            )
    flags = [
        key_value(b"tokenizer.ggml.add_bos_token", ValueType.BOOL, 2),
        key_value(b"odd.flags", ValueType.ARRAY, array(ValueType.BOOL, [2, 1])),
    ]
    yield "derived-flags", written({"base": "llama", "keep_unknown": True}, flags)


def repairs() -> Candidates:
    """Models with what repairs are for, several things at once."""
    yield from _derived()
    for arch in ("llama", "bitnet-b1.58", "qwen3", "gemma3"):

        def gone(*names: str, arch: str = arch, **more: Any) -> bytes:
            return written({"base": arch, "without": [name.replace("{arch}", arch) for name in names], **more})

        for names in (("{arch}.attention.head_count",), ("{arch}.attention.head_count_kv",), ("{arch}.block_count",), ("{arch}.embedding_length",), ("{arch}.feed_forward_length",), ("{arch}.rope.dimension_count",),
                      ("{arch}.attention.key_length",), ("{arch}.attention.value_length",), ("{arch}.attention.head_count", "{arch}.embedding_length"), ("{arch}.attention.head_count", "{arch}.attention.key_length", "{arch}.rope.dimension_count"),
                      ("{arch}.feed_forward_length", "blk.0.ffn_up.weight"), ("{arch}.embedding_length", "token_embd.weight"), ("{arch}.attention.head_count", "blk.0.attn_q.weight"), ("{arch}.block_count", "blk.0.attn_q.weight", "blk.0.attn_k.weight"),
                      ("{arch}.vocab_size", "token_embd.weight"), ("output.weight", "output_norm.weight"), ("{arch}.attention.head_count_kv", "blk.0.attn_k.weight"), ("tokenizer.ggml.pre",), ("tokenizer.ggml.pre", "tokenizer.ggml.merges"),
                      ("tokenizer.ggml.token_type",), ("tokenizer.ggml.scores",), ("tokenizer.ggml.tokens", "tokenizer.ggml.pre"), ("general.file_type",), ("general.quantization_version",), ("general.architecture",),
                      ("{arch}.attention.layer_norm_rms_epsilon",), ("{arch}.context_length",)):  # fmt: skip
            yield (
                f"repair-{arch}-{'-'.join(name.rpartition('.')[2] if not name.endswith('weight') else name.split('.')[-2] for name in names)}",
                gone(*names),
            )
        for key in (
            "attention.head_count",
            "attention.head_count_kv",
            "block_count",
            "embedding_length",
            "feed_forward_length",
            "rope.dimension_count",
            "context_length",
            "vocab_size",
            "attention.key_length",
            "attention.value_length",
        ):
            for i, value in enumerate((0, 3, 7, 1 << 20)):
                yield f"repair-{arch}-{key}-{i}", written({"base": arch}, [number_key(f"{arch}.{key}", value)])
            for kind, value in (
                (ValueType.FLOAT32, 2.5),
                (ValueType.FLOAT32, 4.0),
                (ValueType.INT32, -1),
                (ValueType.UINT64, (1 << 40) + 1),
                (ValueType.BOOL, 1),
                (ValueType.STRING, b"4"),
                (ValueType.UINT8, 4),
            ):
                yield (
                    f"repair-{arch}-{key}-{kind.label}-{value}",
                    written({"base": arch}, [key_value(f"{arch}.{key}".encode(), kind, value)]),
                )
        for key, kind, value in (("attention.layer_norm_rms_epsilon", ValueType.UINT32, 1), ("attention.layer_norm_rms_epsilon", ValueType.UINT64, (1 << 40) + 1), ("rope.freq_base", ValueType.UINT32, 10000), ("rope.freq_base", ValueType.BOOL, 1),
                                 ("rope.freq_base", ValueType.FLOAT64, 1e300), ("attention.layer_norm_rms_epsilon", ValueType.FLOAT64, 1e-5), ("rope.freq_base", ValueType.INT64, -(1 << 40) - 1)):  # fmt: skip
            yield (
                f"repair-{arch}-{key}-{kind.label}-{value}",
                written({"base": arch}, [key_value(f"{arch}.{key}".encode(), kind, value)]),
            )
        for key, kind, value in (("tokenizer.ggml.add_bos_token", ValueType.BOOL, 2), ("tokenizer.ggml.add_bos_token", ValueType.UINT32, 1), ("tokenizer.ggml.add_bos_token", ValueType.FLOAT32, 1.0), ("general.alignment", ValueType.UINT32, 64),
                                 ("general.alignment", ValueType.UINT32, 32), ("tokenizer.ggml.eos_token_id", ValueType.FLOAT32, 2.0), ("tokenizer.ggml.eos_token_id", ValueType.STRING, b"2"), ("general.file_type", ValueType.FLOAT32, 40.0)):  # fmt: skip
            for more in ({}, {"keep_unknown": True}):
                yield (
                    f"repair-{arch}-{key}-{kind.label}-{value}-{len(more)}",
                    written({"base": arch, **more}, [key_value(key.encode(), kind, value)]),
                )
        for element, items in (
            (ValueType.FLOAT32, [1.5, 2.0]),
            (ValueType.INT64, [1 << 40, 3]),
            (ValueType.UINT8, [1, 1]),
            (ValueType.BOOL, [0, 2]),
        ):
            for key in (
                f"{arch}.rope.scaling.attn_factors",
                "tokenizer.ggml.scores",
                "tokenizer.ggml.token_type",
                f"{arch}.feed_forward_length",
                f"{arch}.attention.head_count",
                "odd.flags",
            ):
                yield (
                    f"repair-{arch}-{key}-{element.label}",
                    written(
                        {"base": arch, "keep_unknown": True},
                        [key_value(key.encode(), ValueType.ARRAY, array(element, items))],
                    ),
                )
        for name in (
            "blk.0.attn_q.weight",
            "\x07odd",
            "blk.0.attn_q.scale",
            "blk.0.ffn_up.scale",
            "nobody.scale",
            "model.layers.0.self_attn.q_proj.weight",
            "n" * 70,
            "\udcffx",
            "",
        ):
            for kind, ne, data in (
                ("F32", (1,), struct.pack("<f", 0.5)),
                ("I2_S", (128, 128), CODES[:90] + b"\0\0\0\x3f" + b"old memory" * 3),
                ("F32", (4,), bytes(16)),
            ):
                raw = name.encode("utf-8", "surrogateescape")
                tensor = Tensor(raw, ne, BY_NAME[kind].number, data[:-2] if kind == "I2_S" else data)
                yield (
                    f"repair-{arch}-tensor-{raw.hex()[:20]}-{kind}-{ne[0]}",
                    written({"base": arch, "scrub_tail": True}, [], [tensor]),
                )
        for size in (0, 50, 500, 20_000, 60_000):
            yield f"repair-{arch}-cut-{size}", written({"base": arch, "size": size})
        for extra in (1, 31, 64, 4096):
            yield f"repair-{arch}-longer-{extra}", written({"base": arch, "size": 171_328 + extra})
    for tokens in (
        ["a", "a", "a", "[PAD1]", "", ""],
        ["a"] * 40,
        ["[PAD0]", "[PAD0]", "[PAD1]", ""],
        ["<unk>", "<s>", "</s>", "<0x00>", "<0x01>"],
    ):
        yield f"repair-tokens-{len(tokens)}", written({"base": "llama"}, [texts_key("tokenizer.ggml.tokens", *tokens)])
        yield (
            f"repair-tokens-{len(tokens)}-bitnet",
            written({"base": "bitnet"}, [texts_key("tokenizer.ggml.tokens", *tokens)]),
        )
    sound = Draft()
    for alignment in (8, 16, 64, 128):
        for wrong in (32, 48, 0, 24):
            file = sound.records()
            file.key_values.append(key_value(b"general.alignment", ValueType.UINT32, wrong))
            yield f"repair-alignment-{alignment}-{wrong}", sound.built(file, alignment)
    for cut in range(480, len(sound.data), 16):
        yield f"repair-cut-{cut}", sound.data[:cut]
    for field in (
        "tensor_infos[0].offset",
        "tensor_infos[1].offset",
        "tensor_infos[2].offset",
        "tensor_infos[1].type",
        "tensor_infos[1].ne[1]",
        "header.tensor_count",
        "header.key_count",
    ):
        for value in (0, 1, 31, 32, 33, 64, 160, 192, 320, 36, 38, 4096):
            yield f"repair-{field}-{value}".replace("[", "-").replace("]", ""), sound.number(field, value)
