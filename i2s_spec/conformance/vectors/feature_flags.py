"""This module declares the features: what a decoder has to support, or to promise, before it is asked a vector."""

from __future__ import annotations

from typing import Final

from i2s_spec.schema.dialect import CANONICAL, LAYOUTS

#: Layouts that vectors name by the processor whose builds wrote them.
_PROCESSORS: Final = {"interleave-128": "x86-128", "interleave-64": "arm-64"}

#: The names of the layouts of GGUF files in vectors.
LAYOUT_NAMES: Final = {name: _PROCESSORS.get(name, name) for name, layout in LAYOUTS.items() if layout.in_gguf}

#: Every feature by its name; a decoder that lacks a feature of a vector is not asked it, which is not a failure.
FEATURES: Final = {
    "type.i2_s": "type 36, I2_S",
    "type.q2_0": "type 42, Q2_0 with groups of 64",
    "type.q2_0.g128": "type 42, Q2_0 with groups of 128",
    "type.pq2_0": "type 142, PQ2_0",
    "type.ptq1_0": "type 143, PTQ1_0",
    "type.tq1_0": "type 34, TQ1_0",
    "type.tq2_0": "type 35, TQ2_0",
    "type.iq1_bn": "type 134, IQ1_BN",
    "type.iq2_bn": "type 135, IQ2_BN",
    "type.tl1": "TL1, with the tiles of its kernel",
    "type.tl2": "TL2, with the tiles of its kernel",
    **{
        f"layout.{known}": f"{name}, the layout of the file format" if name == CANONICAL.layout.name else name
        for name, known in LAYOUT_NAMES.items()
    },
    "codes.zero-first": "the code map zero-first",
    "codes.twos-complement": "the code map twos-complement",
    "codes.offset-2": "the code map offset-2",
    "tail.replicated-8": "tails with the scale eight times",
    "rows.partial": "rows that are no multiple of a block",
    "big-endian": "big-endian files",
    "gguf.v2": "version 2 of the container",
    "strict.codes": "refuses the unused code",
    "strict.scales": "refuses scales that clause 6.2 forbids",
    "strict.shapes": "refuses shapes that do not fill whole blocks",
    "strict.extent": "refuses data of another size than the tensor's",
    "quantize.absmax": "the rule absmax",
    "quantize.hf-first": "the rule hf-first",
    "quantize.embedding-mean": "the rule embedding-mean",
    "quantize.convert-ms": "the rule convert-ms",
    "quantize.c-article": "the rule c-article",
    "quantize.ggml": "the quantizer of ggml or ik_llama.cpp for the type",
    "activation.golden": "activations as clause 9.8 has them",
    "activation.ties-away": "activations without a floor, ties away from 0",
    "activation.ties-up": "activations with ties up",
    "activation.q8_k": "activations in blocks of 256 with signed scales",
    "profile.golden-1": "gives the values of the numeric profile bitnet-golden-1 to the bit",
    "arch.bitnet-b1.58": "runs architecture bitnet-b1.58",
    "arch.llama": "runs architecture llama",
    "arch.qwen3": "runs architecture qwen3 as an embedding model",
    "arch.gemma3": "runs architecture gemma3 as an embedding model",
    "prism.hadamard": "undoes a folded rotation",
    "forward.values": "gives values between the layers",
    "tokenizer.llama-bpe": "the pre-tokenizer llama-bpe",
}
