"""This module says which programs can use a converted file, and what they compute with it.

It only states known facts about released programs, and only if they concern the file.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator
from typing import Final

from i2s_spec.schema.architectures.architecture import ARCHITECTURES
from i2s_spec.schema.programs.runtimes import LOOKED_UP

#: Architectures with ReLU squared in the feed-forward network: those of BitNet b1.58 2B-4T.
_RELU2: Final = tuple(each.name for each in ARCHITECTURES.values() if each.activation == "relu2")

_RELU2_NEEDED = (
    "The model was trained with ReLU squared, if it is BitNet b1.58 2B-4T; architecture bitnet means SiLU to llama.cpp "
    "and to BitNet's forks, and the output is then wrong without an error: --hidden-activation relu2 says what is meant."
)
_RELU2_READ = (
    "llama.cpp computes architecture bitnet with SiLU, whatever bitnet.hidden_activation says: the requests that would "
    "read the key (ggml-org/llama.cpp#26751, #25885) were closed unmerged. The output is wrong without an error, unless the "
    "program is patched: compare the perplexity (about 17 on wikitext-2 with ReLU squared; about 97 with SiLU)."
)

#: Architectures of BitNet's embedding models, with tensors that upstream does not know.
_NORM_IN: Final = tuple(each.name for each in ARCHITECTURES.values() if each.has_input_norms)

#: Rows must be multiples of 64 in Q2_0, of 256 in TQ1_0 and TQ2_0, of 128 in I2_S and in PrismML's types.
_GROUP: Final = 64
_OTHERS: Final = (("TQ2_0", 256), ("I2_S", 128))


def _takes_activation(architecture: str | None) -> bool:
    declared = ARCHITECTURES.get(architecture or "")
    return declared is not None and declared.takes_activation


def _way_out(architecture: str | None, activation: str | None, rows: Collection[int]) -> str:
    """Whether and how conversion to Q2_0 makes a file that llama.cpp computes correctly."""
    if architecture in _RELU2 or (_takes_activation(architecture) and activation == "relu2"):
        return (
            "--to Q2_0 does not help: llama.cpp reads it since July 2026, but computes no BitNet architecture "
            "with ReLU squared, which this model needs."
        )
    if architecture in _NORM_IN:
        return f"--to Q2_0 makes tensors that llama.cpp reads since July 2026, if not {architecture} with *_norm_in tensors."
    declared = ARCHITECTURES.get(architecture or "")
    if declared is not None and declared.prefix not in LOOKED_UP:
        return f"--to Q2_0 makes tensors that llama.cpp reads since July 2026; nobody tried whether it knows {architecture}."
    if any(row % _GROUP for row in rows):
        uneven = min(row for row in rows if row % _GROUP)
        return (
            f"--to Q2_0 --fallback F16 makes a file that llama.cpp reads since July 2026; rows of {uneven:,}, "
            "which is not a multiple of 64, become F16."
        )
    text = (
        "--to Q2_0 is recommended: it makes a file that llama.cpp reads since July 2026, and only rounds scales "
        "to float16"
    )
    for row in sorted(rows):
        missing = [name for name, block in _OTHERS if row % block]
        if missing:
            return f"{text}, and rows of {row:,}, which are not whole blocks of {' and '.join(missing)}, fit."
    return f"{text}."


def advice(
    types: set[str],
    architecture: str | None,
    former: str | None,
    activation: str | None,
    layout: str | None,
    pre: bool = True,
    rows: Collection[int] = (),
) -> tuple[str, ...]:
    """What to know about a file before it is loaded, most important first.

    :param types: the types of the file's tensors
    :param architecture: its declared name, or the value of `general.architecture`
    :param former: its previous value, if it was changed
    :param activation: the activation of the feed-forward network that the file states
    :param layout: the layout of the I2_S tensors, if there are any
    :param pre: whether the file says how text is split before tokenization, or need not
    :param rows: lengths of the rows of its ternary matrices
    """
    upstream = "I2_S" not in types
    way_out = _way_out(architecture, activation, rows)
    notes = [
        *(() if upstream else _of_i2s(layout, way_out)),
        *_of_architecture(architecture, former, activation, upstream),
        *_of_group_types(types, way_out),
        *_of_blocks_of_256(types, rows, upstream),
    ]
    if upstream and not pre:
        notes.append(
            "tokenizer.ggml.pre is missing: upstream llama.cpp warns, and splits text by its default rule; for the "
            "tokenizer of 2B-4T it should say llama-bpe."
        )
    return tuple(notes)


def _of_i2s(layout: str | None, way_out: str) -> Iterator[str]:
    yield (
        "Only BitNet's llama.cpp forks and programs made for I2_S read type 36; upstream llama.cpp refuses the file, "
        "and ik_llama.cpp has to requantize it first (llama-quantize --allow-requantize --token-embedding-type f16, to "
        f"IQ2_BN). {way_out}"
    )
    if layout not in (None, "interleave-128"):
        yield (
            f"The file does not state that its layout is {layout}: programs that expect another one load it and "
            "compute with wrong weights."
        )


def _of_architecture(
    architecture: str | None, former: str | None, activation: str | None, upstream: bool
) -> Iterator[str]:
    if upstream and architecture in _RELU2:
        yield (
            f"Upstream llama.cpp does not know architecture {architecture}, only bitnet, which it computes with SiLU: "
            "--arch bitnet --hidden-activation relu2 makes a file that it loads. BitNet's forks of 2025 load this one."
        )
    if _takes_activation(architecture):
        if activation == "relu2":
            yield _RELU2_READ
        elif former in _RELU2:
            yield _RELU2_NEEDED
    if upstream and architecture in _NORM_IN:
        yield (
            f"Upstream llama.cpp loads no {architecture} with *_norm_in tensors (wrong number of tensors): "
            "BitNet's fork of 2026 does."
        )


def _of_group_types(types: set[str], way_out: str) -> Iterator[str]:
    """The programs that read types with a scale for each group or row."""
    if types & {"PQ2_0", "PTQ1_0"}:
        yield (
            "Only PrismML's llama.cpp fork, since August 2026, and programs made for its types read 142 and 143; "
            f"llama.cpp refuses the file. {way_out}"
        )
    if "Q2_0_G128" in types:
        yield (
            "Groups of 128 under type 42 are read by PrismML's branch prism-v5 alone; every other program takes them for "
            f"groups of 64, and refuses the file. --to PQ2_0 makes one for PrismML's fork. {way_out}"
        )
    if types & {"IQ1_BN", "IQ2_BN"}:
        yield "Only ik_llama.cpp reads IQ1_BN and IQ2_BN."
    if "I2_SR" in types:
        yield (
            "One fork of BitNet (sabdulmajid/BitNet) has I2_SR under type 40, which is NVFP4 to llama.cpp, and under "
            f"general.file_type 41, which is Q2_0 there. {way_out}"
        )
    if "Q2_0" in types:
        yield (
            "llama.cpp reads Q2_0 since July 2026 (ggml-org/llama.cpp#24448) and refuses it before; PrismML's fork does "
            "since August 2026, and took it for groups of 128 before. Activations are quantized per 32 elements, where "
            "I2_S kernels do it per token: the weights are the same, the results are close and not equal."
        )


def _of_blocks_of_256(types: set[str], rows: Collection[int], upstream: bool) -> Iterator[str]:
    if not types & {"TQ1_0", "TQ2_0"}:
        return
    if upstream:
        yield (
            "llama.cpp quantizes activations per 256 elements for TQ1_0 and TQ2_0, where I2_S kernels do it per token: "
            "the weights are the same, the results are close and not equal."
        )
    if any(row % 256 for row in rows) and not any(row % _GROUP for row in rows):
        uneven = min(row for row in rows if row % 256)
        yield (
            f"Rows of {uneven:,} are not whole blocks of 256, and stay floats; --to Q2_0, which llama.cpp reads since July "
            "2026, can hold them: its groups have 64."
        )
