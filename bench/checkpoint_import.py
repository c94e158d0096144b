"""This module measures `import_checkpoint` against reading the same checkpoint and writing a file of the same size.

The checkpoint has all sizes of BitNet b1.58 2B-4T in bf16: 332 tensors, 4.8 GB, 128,256 tokens. Its weights are one
random block, repeated, and its tokens are invented. The probe reads every shard and writes as many bytes as the GGUF
file has, in pieces, without computing anything.
"""

from __future__ import annotations

import json
import os
from collections.abc import Callable, Iterator
from functools import partial
from pathlib import Path
from time import perf_counter
from typing import Any, Final

import numpy as np

from bench import processes
from bench.measure import Claim, Contender, Result, Row, interleaved, ratios, rows, timed
from bench.parts import Benchmark, Setting
from i2s_spec.checkpoints.writing.import_checkpoint import import_checkpoint
from i2s_spec.convert.hugging_face.safetensors import NewTensor, write_checkpoint
from i2s_spec.convert.synthetic.vocabulary import byte_level
from i2s_spec.model.tokenizer.pretokenizers import BY_NAME

#: Sizes of BitNet b1.58 2B-4T, and small ones of the same shape.
FULL: Final = {"embd": 2560, "ff": 6912, "layers": 30, "heads": 20, "kv": 5, "vocab": 128_256}
SMALL: Final = {"embd": 256, "ff": 512, "layers": 2, "heads": 4, "kv": 2, "vocab": 1024}
#: bf16 words of the block that all matrices repeat, and bytes of the probe's pieces.
BLOCK: Final = 1 << 22
PIECE: Final = 1 << 22
OUT: Final = "out.gguf"


def benchmarks() -> list[Benchmark]:
    """The benchmarks in this order."""
    return [Benchmark("bf16", bf16), Benchmark("memory", memory)]


def checkpoint(setting: Setting, layers: int | None = None) -> Path:
    """Write the checkpoint and return its folder.

    :param layers: number of layers; all of them unless given
    """
    folder = setting.folder / "checkpoint"
    s = dict(SMALL if setting.quick else FULL)
    s["layers"] = layers or s["layers"]
    folder.mkdir()
    setting.say("writing the checkpoint")
    write_checkpoint(folder / "model.safetensors", list(_tensors(s)))
    config = {
        "architectures": ["BitNetForCausalLM"], "model_type": "bitnet", "hidden_act": "relu2", "vocab_size": s["vocab"],
        "hidden_size": s["embd"], "intermediate_size": s["ff"], "num_hidden_layers": s["layers"],
        "num_attention_heads": s["heads"], "num_key_value_heads": s["kv"], "max_position_embeddings": 4096,
        "rms_norm_eps": 1e-5, "rope_theta": 500000.0, "tie_word_embeddings": True,
        "quantization_config": {
            "quant_method": "bitnet", "linear_class": "autobitlinear", "quantization_mode": "online",
        },
    }  # fmt: skip
    (folder / "config.json").write_text(json.dumps(config))
    (folder / "tokenizer.json").write_text(json.dumps(_tokenizer(s["vocab"])))
    return folder


def _tensors(s: dict[str, int]) -> Iterator[NewTensor]:
    random = np.random.default_rng(7).standard_normal(BLOCK).astype(np.float32) * np.float32(0.02)
    block = (random.view(np.uint32) >> 16).astype("<u2").tobytes()
    ones = np.full(max(s["embd"], s["ff"]), 0x3F80, dtype="<u2").tobytes()

    def data(size: int, words: bytes) -> Iterator[bytes]:
        for at in range(0, size, len(words)):
            yield words[: size - at]

    def tensor(name: str, *shape: int) -> NewTensor:
        size = 2 * int(np.prod(shape))
        make: Callable[[], Iterator[bytes]] = partial(data, size, block if len(shape) > 1 else ones)
        return NewTensor(name, "BF16", shape, make)

    embd, ff, kv = s["embd"], s["ff"], s["embd"] // s["heads"] * s["kv"]
    yield tensor("model.embed_tokens.weight", s["vocab"], embd)
    yield tensor("model.norm.weight", embd)
    for layer in range(s["layers"]):
        at = f"model.layers.{layer}."
        for name, *shape in (
            ("self_attn.q_proj", embd, embd), ("self_attn.k_proj", kv, embd), ("self_attn.v_proj", kv, embd),
            ("self_attn.o_proj", embd, embd), ("mlp.gate_proj", ff, embd), ("mlp.up_proj", ff, embd),
            ("mlp.down_proj", embd, ff), ("input_layernorm", embd), ("post_attention_layernorm", embd),
            ("self_attn.attn_sub_norm", embd), ("mlp.ffn_sub_norm", ff),
        ):  # fmt: skip
            yield tensor(f"{at}{name}.weight", *shape)


def _tokenizer(vocab: int) -> dict[str, Any]:
    words = byte_level(vocab)
    special = [i for i, kind in enumerate(words.types) if kind == 3]
    splits = [{"type": "Split", "pattern": {"Regex": each}, "behavior": "Isolated", "invert": False}
              for each in BY_NAME["llama-bpe"].splits]  # fmt: skip
    level = {"type": "ByteLevel", "add_prefix_space": False, "trim_offsets": True, "use_regex": False}
    flags = {"single_word": False, "lstrip": False, "rstrip": False, "normalized": False, "special": True}
    return {
        "version": "1.0", "added_tokens": [{"id": i, "content": words.tokens[i], **flags} for i in special],
        "normalizer": None, "decoder": level, "post_processor": None,
        "pre_tokenizer": {"type": "Sequence", "pretokenizers": [*splits, level]},
        "model": {
            "type": "BPE", "ignore_merges": True, "merges": list(words.merges),
            "vocab": {token: i for i, token in enumerate(words.tokens) if i not in special},
        },
    }  # fmt: skip


def probe(folder: Path) -> float:
    """Seconds for reading the shards and writing as many bytes as the import did."""
    buffer, target = bytearray(PIECE), folder.with_name("probe")
    size = folder.with_name(OUT).stat().st_size
    start = perf_counter()
    with open(folder / "model.safetensors", "rb", buffering=0) as source:
        while source.readinto(buffer):
            pass
    with open(target, "wb", buffering=0) as out:
        for at in range(0, size, PIECE):
            out.write(memoryview(buffer)[: min(PIECE, size - at)])
        os.fsync(out.fileno())
    seconds = perf_counter() - start
    target.unlink()
    return seconds


def whole(folder: Path) -> object:
    """The import on all processors."""
    return import_checkpoint(folder, folder.with_name(OUT), force=True)


def bf16(setting: Setting) -> Result:
    """The import of the full size beside the probe."""
    folder = checkpoint(setting)
    contenders = [  # the probe comes second, because it writes as many bytes as the import did
        Contender("import", timed(lambda: whole(folder))),
        Contender("probe", lambda: probe(folder)),
    ]
    times = interleaved(contenders, setting.rounds, setting.say)
    claim = Claim("share of the probe's speed", ratios(times["probe"], times["import"]), "x",
                  least=None if setting.quick else 0.5)  # fmt: skip
    read, size = (folder / "model.safetensors").stat().st_size, folder.with_name(OUT).stat().st_size
    return Result(f"{read:,} bytes read, {size:,} written", rows(times), (claim,))


def memory(setting: Setting) -> Result:
    """Peak memory of the import in a fresh process, above its imports: of two layers, since only one tensor is in
    memory."""
    folder = checkpoint(setting, 2)
    grown = (float(processes.child("import", folder).grown),)
    claim = Claim("import of the checkpoint", grown, "B", most=None if setting.quick else float(1 << 30))
    return Result("peak memory above the imports", (Row("import", grown, "B"),), (claim,))
