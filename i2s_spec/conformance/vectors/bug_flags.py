"""This module declares the flags: each is a kind of bug, in one sentence, with the programs that had it.

The mistakes of models are those that `golden compare` names, under the same names.
"""

from __future__ import annotations

from typing import Final, NamedTuple

from i2s_spec.conformance.vectors.feature_flags import LAYOUT_NAMES
from i2s_spec.golden.diagnosis.mistakes import MISTAKES


class BugFlag(NamedTuple):
    """A kind of bug: what the program does wrong, and where it was seen."""

    says: str
    seen: str = ""


#: Mistakes of models that no vector of this suite shows, and why.
NOT_IN_MODELS: Final = {
    "activation-blocks": "rows of the models are no multiples of 256; vectors of activations have the rule q8_k",
    "int16-wrap-avx2": "the models' rows are too short for it; vectors of bitlinear have int16-wrap",
    "int16-wrap-neon": "the models' rows are too short for it; vectors of bitlinear have int16-wrap",
    "rope-factors-ignored": "no model of the suite has rope_freqs.weight",
    "rope-scale-ignored": "no model of the suite scales positions",
    "pooling-last": "every embedding model of the suite takes the last token",
}

_PAYLOADS: Final = {
    "bit-order": BugFlag("Takes the codes of a byte from the lowest bits up.", "BitNet-rs; private converters"),
    "nibbles-swapped": BugFlag("Exchanges the two halves of each byte."),
    "group-stride": BugFlag("Takes the codes of a byte to be 16 elements apart, not 32."),
    "layout-as-sequential": BugFlag(
        "Takes the codes of a byte for neighbours: the tensor is still ternary, and permuted.",
        "larql before its PR 156; NanoDex",
    ),
    "layout-not-x86-128": BugFlag(
        "Reads every file in blocks of 64, as ARM builds did.", "microsoft/BitNet#470, #585, #598"
    ),
    "layout-not-arm-64": BugFlag("Reads a payload of an ARM build in blocks of 128.", "microsoft/BitNet#600"),
    "layout-not-rows-1x4": BugFlag(
        "Reads a payload of four rows to a byte in blocks of 128.", "src/ggml-bitnet-mad.cpp without ACT_PARALLEL"
    ),
    **{
        f"layout-not-{name}": BugFlag("Does not read the layout that the caller names.")
        for name in LAYOUT_NAMES.values()
        if name not in ("x86-128", "arm-64", "rows-1x4")
    },
    "offset-by-one": BugFlag("Gives each element the value of its neighbour."),
    "offset-by-a-group": BugFlag("Gives each element the value of the one 32 places before."),
    "transposed": BugFlag("Exchanges rows and columns."),
    "rows-as-ne0": BugFlag("Takes the first number of ne for the rows.", "larql#412"),
    "blocks-restart-at-rows": BugFlag(
        "Begins blocks anew at each row, where they run on.", "kernels and get_rows of the BitNet fork"
    ),
    "last-block-dropped": BugFlag("Leaves out the last 128 elements or columns."),
    "code-map": BugFlag("Reads codes 0, 1, 2 as 0, +1, -1.", "microsoft/BitNet#412"),
    "code-map-ignored": BugFlag("Reads every code map as the canonical one."),
    "sign-swapped": BugFlag("Exchanges -1 and +1."),
    "signed-shift": BugFlag("Shifts signed bytes, so that the sign comes in from the left."),
    "zero-byte-as-zero": BugFlag("Takes bytes of 0 for weights of 0, not -1.", "microsoft/BitNet#608"),
    "unsigned-trits": BugFlag("Gives codes 0, 1, 2 for trits.", "gpu/ kernels with an offset left on"),
    "code-three": BugFlag(
        "Accepts code 3, and makes -1, 0, +1 or +2 of it.",
        "dequantize_row_i2_s of the BitNet fork (0); its kernels, ik_llama.cpp and 0xBitNet (+2)",
    ),
    "code-three-weight": BugFlag("Makes something else than +2 of code 3 of Q2_0."),
    "remainder-accepted": BugFlag(
        "Decodes a number of elements that is no whole number of blocks.", "llama-quantize of the BitNet fork"
    ),
    "tail-forgotten": BugFlag(
        "Does not count the 32 bytes behind the payload.", "0xBitNet's size function before its loader adds them"
    ),
    "scale-not-checked": BugFlag("Accepts a scale that is NaN, infinite, negative, or 0 of codes that are not."),
    "scale-ignored": BugFlag("Leaves the scale out.", "Project Zero"),
    "scale-reciprocal": BugFlag("Divides by the scale.", "microsoft/BitNet#616"),
    "scale-twice": BugFlag("Applies the scale twice."),
    "scale-as-f16": BugFlag("Rounds the scale to F16.", "IQ1_BN of ik_llama.cpp; conversions to TQ2_0"),
    "scale-as-bf16": BugFlag("Rounds the scale to bfloat16."),
    "scale-place": BugFlag("Reads the scale four bytes before or behind its place."),
    "tail-last-float": BugFlag("Reads the last float of the tail for the scale."),
    "scale-rounded-up": BugFlag("Rounds the place of the scale up to a multiple of 4."),
    "scale-in-front": BugFlag("Reads the scale in front of the payload.", "a fork for PowerPC"),
    "scale-per-row": BugFlag("Takes the floats of the tail for scales of rows."),
    "tail-averaged": BugFlag("Averages the eight floats of the tail."),
    "tail-compared": BugFlag("Refuses a tail for its other 28 bytes."),
    "scale-byte-order": BugFlag(
        "Reads the scale in the wrong byte order.", "gguf_writer.py of the BitNet fork leaves it unswapped"
    ),
    "payload-swapped": BugFlag("Swaps the payload of a big-endian file in words."),
    "subnormal-flushed": BugFlag("Flushes subnormal numbers to 0."),
    "minus-zero": BugFlag("Gives -0.0 for a weight of 0."),
    "group-code-map": BugFlag("Reads codes of groups as 0, +1, -1."),
    "group-as-interleave": BugFlag("Reads Q2_0 in the order of I2_S."),
    "q2_0-bits-reversed": BugFlag("Takes the codes of a byte of Q2_0 from the highest bits down."),
    "q2_0-d-last": BugFlag("Looks for the scale of Q2_0 behind its codes."),
    "q2_0-64-as-128": BugFlag("Reads Q2_0 of groups of 64 in groups of 128.", "llama.cpp#25833, #25824, #22256"),
    "q2_0-128-as-64": BugFlag("Reads groups of 128 in groups of 64.", "llama.cpp#29058, #23909; Bonsai-demo#82"),
    "ptq1_0-sequential": BugFlag("Takes the digits of a byte of PTQ1_0 for neighbours."),
    "ptq1_0-qh-first": BugFlag("Looks for qh of PTQ1_0 in front of qs."),
    "ptq1_0-d-first": BugFlag("Looks for the scale of PTQ1_0 in front of its codes."),
    "tq1_0-sequential": BugFlag("Takes the digits of a byte of TQ1_0 for neighbours."),
    "tq1_0-qh-first": BugFlag("Looks for qh of TQ1_0 in front of qs."),
    "digits-by-division": BugFlag("Divides bytes by powers of 3, where the digit is in the high bits of a product."),
    "digits-reversed": BugFlag("Takes the last digit of a byte for the first."),
    "tq2_0-bits-reversed": BugFlag("Takes the codes of a byte of TQ2_0 from the highest bits down."),
    "tq2_0-sequential": BugFlag("Takes the codes of a byte of TQ2_0 for neighbours."),
    "tq2_0-d-first": BugFlag("Looks for the scale of TQ2_0 in front of its codes."),
    "iq1_bn-sequential": BugFlag("Takes the digits of a byte of IQ1_BN for neighbours."),
    "iq2_bn-sequential": BugFlag("Takes the codes of a byte of IQ2_BN for neighbours."),
    "iq2_bn-bits-reversed": BugFlag("Takes the codes of a byte of IQ2_BN from the highest bits down."),
    "group-scale-neighbour": BugFlag("Gives each group the scale of the next."),
    "scale-per-tensor": BugFlag("Takes the first scale for all groups or rows."),
    "f16-subnormal-flushed": BugFlag("Flushes subnormal F16 scales to 0."),
    "f16-as-bf16": BugFlag("Reads F16 scales as bfloat16."),
    "tl-tiles-ignored": BugFlag("Unpacks TL1 with other tiles than those of its kernel."),
}

_NUMBERS: Final = {
    "quantize-threshold": BugFlag("Makes 0 of weights from another magnitude on than 1e-6 in float64."),
    "quantize-scale": BugFlag("Stores another scale than the rule."),
    "quantize-rounding": BugFlag("Cuts quotients off, or rounds halves away from 0."),
    "quantize-group-scale": BugFlag("Stores another scale of groups than their largest magnitude."),
    "activation-truncated": BugFlag("Cuts activation codes off towards 0."),
    "activation-floored": BugFlag("Rounds activation codes down."),
    "activation-half-up": BugFlag("Rounds ties of activation codes up.", "0xBitNet's reference in JavaScript"),
    "activation-half-away": BugFlag("Rounds ties of activation codes away from 0.", "microsoft/BitNet of 2026"),
    "activation-reciprocal": BugFlag("Gives amax / 127 for the scale of activations, where 127 / amax is meant."),
    "activation-no-floor": BugFlag("Divides by the largest magnitude of a token of zeros.", "microsoft/BitNet of 2026"),
    "activations-unsigned": BugFlag("Takes activation codes for unsigned bytes."),
    "offset-not-subtracted": BugFlag("Does not take the sum of the activation codes off, or half of it."),
    "int16-wrap": BugFlag("Adds up in 16 bits that wrap around.", "src/ggml-bitnet-mad.cpp without VNNI"),
    "int16-saturates": BugFlag("Adds up in 16 bits that saturate."),
    "epilogue-order": BugFlag("Divides the scales first, which rounds otherwise.", "microsoft/BitNet of 2026"),
}

_FILES: Final = {
    "accepts-bad-magic": BugFlag("Accepts what is no GGUF file."),
    "accepts-bad-header": BugFlag("Accepts a header that cannot be.", "llama.cpp#15711"),
    "accepts-bad-metadata": BugFlag("Accepts key-values that cannot be.", "llama.cpp#19003, #26318; gguf-tools#28"),
    "accepts-bad-info": BugFlag("Accepts tensor infos that cannot be.", "llama.cpp#18674"),
    "accepts-bad-extent": BugFlag("Accepts tensors that the file does not hold.", "ROCm/hrx-system#278"),
    "accepts-bad-payload": BugFlag("Accepts codes, scales and tails that cannot be."),
    "model-not-checked": BugFlag("Accepts keys and tensors that make no model."),
    "bounds-not-checked": BugFlag("Accepts numbers that no machine has room for."),
    "offset-from-start": BugFlag("Counts offsets from the start of the file, not of the data section."),
    "alignment-ignored": BugFlag("Aligns to 32, whatever general.alignment says."),
    "ne-reversed": BugFlag("Gives dimensions in the order of NumPy, not in that of the file."),
    "value-type-confused": BugFlag("Reads unsigned values as signed ones."),
    "array-length": BugFlag("Reads lengths of arrays in fewer bits than 64."),
    "version-2-refused": BugFlag("Refuses version 2, which differs in nothing that it reads."),
    "big-endian-refused": BugFlag("Takes a big-endian file for a version that does not exist."),
    "merges-missing": BugFlag("Splits texts into letters, and merges nothing."),
    "text-encoding": BugFlag("Takes UTF-8 for single bytes of Latin-1."),
    "text-normalised": BugFlag("Changes case or blanks of a text before it is split."),
    "first-token": BugFlag("Puts the first token where it is not asked for, or does not where it is."),
}

#: Every flag by its name.
FLAGS: Final = {
    **{mistake.name: BugFlag(_sentence, mistake.seen) for mistake in MISTAKES
       for _sentence in (f"{mistake.says[0].upper()}{mistake.says[1:]}.",) if mistake.name not in NOT_IN_MODELS},
    **_PAYLOADS,
    **_NUMBERS,
    **_FILES,
}  # fmt: skip
