"""The known mistakes of programs: wrong decoders, wrong runtimes, wrong readers, each with its name and its sentences.

This is the one list of them. `golden compare` names the mistakes of `MODEL_MISTAKES`, each of which `golden.diagnosis`
applies to a model; the flags of test vectors are these names; `i2s conform run` explains answers with their sentences and
with the wrong layouts below; the mutants in `tests/mutants` are programs that have them.

Sources: the reports that each `seen` names; clause 10.5.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final, NamedTuple

from i2s_spec.schema.blocks import BLOCK_LAYOUTS, DIGITS_PER_BYTE, BlockLayout, BlockPart, GroupScale
from i2s_spec.schema.dialect import LAYOUTS, Formula, Layout


class Mistake(NamedTuple):
    """A way in which programs are wrong.

    :param name: short, stable
    :param says: what was done wrong, where a program ran a model; empty for a mistake that no comparison of models names
    :param does: what such a program does, where that is not `says`
    :param answer: what shows that an answer was made so: the end of a sentence
    :param seen: where it was met
    """

    name: str
    says: str = ""
    does: str = ""
    answer: str = ""
    seen: str = ""

    @property
    def bug(self) -> str:
        """What such a program does, as a sentence."""
        return self.does or f"{self.says[0].upper()}{self.says[1:]}."


#: Mistakes of programs that run models, the likelier ones first where several explain the same.
MODEL_MISTAKES: Final = (
    Mistake("layout-interleave-64",
        "the payload was read as interleave-64, the blocks of 64 of ARM builds since November 2025; the file has "
        "another layout", seen="microsoft/BitNet#470, #585"),
    Mistake("layout-interleave-128", "the payload was read as interleave-128; the file has another layout",
        seen="microsoft/BitNet#600"),
    Mistake("layout-rows-1x4", "the payload was read as rows-1x4, four rows to a byte; the file has another layout",
        seen="src/ggml-bitnet-mad.cpp without ACT_PARALLEL"),
    Mistake("rows-1x4-as-interleave-128",
        "the weights were packed as rows-1x4 and multiplied as blocks of 128: an x86 build without ACT_PARALLEL on "
        "files of its own", seen="src/ggml-bitnet-mad.cpp without ACT_PARALLEL"),
    Mistake("layout-sequential-msb",
        "the payload was read as four neighbors to a byte, the first in the highest bits",
        seen="NanoDex; larql before its PR 156"),
    Mistake("layout-sequential-lsb",
        "the payload was read as four neighbors to a byte, the first in the lowest bits", seen="BitNet-rs"),
    Mistake("lanes-reversed",
        "the four lanes of a block were taken in reverse order: shifts 0, 2, 4, 6, where 6, 4, 2, 0 are right"),
    Mistake("weights-transposed", "the matrix was read with its sides exchanged: ne is [in, out], rows are outputs"),
    Mistake("codes-zero-first", "codes 0, 1, 2 were read as 0, +1, -1; they mean -1, 0, +1",
        seen="microsoft/BitNet#412"),
    Mistake("codes-signs-swapped", "codes 0 and 2 were taken for +1 and -1; they mean -1 and +1"),
    Mistake("codes-twos-complement", "codes were read as two's complement; they are trits plus 1",
        seen="files from before the release"),
    Mistake("codes-offset-2", "2 was subtracted from each code; 1 is right", seen="T-MAC; gpu/"),
    Mistake("type-read-as-codes",
        "projections of another type (F32, F16, BF16 or TQ2_0) were read as I2_S: their bytes were taken for codes",
        seen="0xBitNet"),
    Mistake("table-read-as-halves",
        "the embedding table (F32 or BF16) was read as F16: its bytes were taken for another type's", seen="0xBitNet"),
    Mistake("offset-not-subtracted",
        "the sum of the activation codes was not subtracted: codes 0, 1, 2 were multiplied as they are",
        does="Does not take the sum of the activation codes off, or half of it."),
    Mistake("scale-reciprocal", "the weights were divided by the scale; they have to be multiplied",
        does="Divides by the scale.", answer="the trits are right, and the reciprocal of the scale was applied",
        seen="microsoft/BitNet#616"),
    Mistake("scale-ignored", "the weight scale was left out", does="Leaves the scale out.",
        answer="the trits are right, and the scale was not applied", seen="Project Zero"),
    Mistake("scale-twice", "the weight scale was applied twice", does="Applies the scale twice.",
        answer="the trits are right, and the scale was applied twice"),
    Mistake("scale-half", "the weight scale was rounded to F16", seen="IQ1_BN of ik_llama.cpp; TQ2_0"),
    Mistake("scales-requantised",
        "weights that are ternary already were quantized again by their mean: each scale was multiplied by the share of "
        "the matrix's weights that are not 0", seen="litespark-inference; llama.cpp's converter; transformers, online"),
    Mistake("activation-scale-ignored", "the sums were not divided by the activation scale"),
    Mistake("activation-scale-multiplied",
        "the sums were multiplied by the activation scale 127 / amax; they have to be divided"),
    Mistake("activation-four-scales",
        "activations were quantized with four interleaved scales for each token, as ik_llama.cpp does; one is right",
        seen="ik_llama.cpp"),
    Mistake("activation-blocks",
        "activations were quantized in blocks of 256, as Q8_K; one scale for each token is right",
        seen="upstream llama.cpp with TQ2_0"),
    Mistake("activation-blocks-32",
        "activations were quantized in blocks of 32, as Q8_0; one scale for each token is right",
        seen="upstream llama.cpp with Q2_0"),
    Mistake("activation-blocks-64",
        "activations were quantized in blocks of 64 columns; one scale for each token is right"),
    Mistake("activation-blocks-128",
        "activations were quantized in blocks of 128 columns; one scale for each token is right"),
    Mistake("activation-one-scale", "all tokens were quantized with one activation scale; each has its own"),
    Mistake("activation-128", "activation scales were 128 / amax; they are 127 / amax"),
    Mistake("activation-truncated", "activation codes were truncated toward 0; they have to be rounded",
        does="Cuts activation codes off towards 0."),
    Mistake("activation-floored", "activation codes were rounded down; they have to be rounded to the nearest",
        does="Rounds activation codes down."),
    Mistake("activation-not-quantized", "activations were not quantized at all"),
    Mistake("activation-2026",
        "activations were quantized without a floor, ties away from zero: the official runtime since May 2026",
        seen="microsoft/BitNet of 2026"),
    Mistake("activation-half-up", "ties of activation codes were rounded up; they go to even",
        does="Rounds ties of activation codes up.", seen="0xBitNet's reference in JavaScript"),
    Mistake("activation-4-bits", "activations were quantized to 4 bits, -7 to 7; they have 8"),
    Mistake("offset-half", "half of the sum of the activation codes was subtracted; all of it has to be"),
    Mistake("sum-of-half", "only the first half of the columns was added up"),
    Mistake("last-block-dropped", "the last 128 columns were not added up",
        does="Leaves out the last 128 elements or columns."),
    Mistake("int16-wrap-avx2", "sums wrapped around in 16 bits, as in x86 builds without VNNI",
        seen="src/ggml-bitnet-mad.cpp"),
    Mistake("int16-wrap-neon", "sums wrapped around in 16 bits, as in ARM builds without dot products",
        seen="src/ggml-bitnet-mad.cpp"),
    Mistake("rope-pairs", "the rotation paired other elements: neighbors instead of halves, or the other way round",
        seen="0xBitNet's rope.wgsl"),
    Mistake("rope-base-10000", "the rotation used base 10000; the file says another", seen="rope.freq_base missing"),
    Mistake("rope-base-500000", "the rotation used base 500000; the file says another",
        seen="Llama 3 and BitNet-b1.58-2B-4T"),
    Mistake("rope-base-1000000", "the rotation used base 1000000; the file says another", seen="Qwen models"),
    Mistake("rope-missing", "queries and keys were not rotated"),
    Mistake("rope-reversed", "the rotation went in the opposite direction"),
    Mistake("rope-from-1", "positions were counted from 1; they begin with 0"),
    Mistake("rope-factors-ignored", "rope_freqs.weight was ignored"),
    Mistake("rope-half-of-head", "only the first half of each head was rotated"),
    Mistake("rope-scale-ignored", "the scale of positions was left out; the file says one",
        seen="rope.scaling.factor not read"),
    Mistake("rope-positions-doubled", "positions were multiplied by 2 more than the file says"),
    Mistake("rope-positions-halved", "positions were multiplied by 0.5 more than the file says"),
    Mistake("rope-positions-quartered", "positions were multiplied by 0.25 more than the file says"),
    Mistake("rope-positions-eighth", "positions were multiplied by 0.125 more than the file says"),
    Mistake("activation-silu", "the gate went through SiLU", seen="microsoft/BitNet#588, #602"),
    Mistake("activation-relu2", "the gate went through ReLU squared", seen="0xBitNet"),
    Mistake("activation-gelu", "the gate went through GELU"),
    Mistake("relu-not-squared", "the gate went through ReLU that was not squared"),
    Mistake("up-activated", "the activation was applied to ffn_up; it belongs to ffn_gate"),
    Mistake("gate-up-exchanged", "ffn_gate and ffn_up were read in each other's place"),
    Mistake("key-value-exchanged", "attn_k and attn_v were read in each other's place"),
    Mistake("attn-sub-norm-missing", "attn_sub_norm was left out"),
    Mistake("ffn-sub-norm-missing", "ffn_sub_norm was left out"),
    Mistake("sub-norms-missing", "both sub-norms were left out"),
    Mistake("ffn-sub-norm-first",
        "ffn_sub_norm was applied to the activated gate, before it was multiplied by ffn_up"),
    Mistake("attn-post-norm-missing", "post_attention_norm was left out", seen="Gemma models"),
    Mistake("ffn-post-norm-missing", "post_ffw_norm was left out", seen="Gemma models"),
    Mistake("input-norms-missing", "the norms in front of single projections were left out",
        seen="loaders for plain qwen3 and gemma3"),
    Mistake("head-norms-missing", "the norms of query and key heads were left out"),
    Mistake("norms-exchanged", "the gains of attn_norm and ffn_norm were read in each other's place"),
    Mistake("gains-missing", "norms were applied without their gains"),
    Mistake("gains-plus-one", "1 was added to the gains, which the file holds with it", seen="Gemma models"),
    Mistake("gains-minus-one", "the gains lack the 1 that belongs to them", seen="Gemma models"),
    Mistake("norm-centred", "the mean was subtracted before the norm, as LayerNorm does"),
    Mistake("eps-0", "the norms used no epsilon; the file says one"),
    Mistake("eps-1e-6", "the norms used an epsilon of 1e-6; the file says another"),
    Mistake("eps-1e-5", "the norms used an epsilon of 1e-5; the file says another"),
    Mistake("attention-not-scaled", "scores were not divided by the square root of the head's width"),
    Mistake("attention-scaled-by-width", "scores were divided by the head's width; its square root is right"),
    Mistake("attention-scaled-by-embedding",
        "scores were divided by the square root of the embedding's width; it is the head's width"),
    Mistake("attention-not-causal", "tokens saw later tokens"),
    Mistake("window-ignored", "tokens saw those before the window of their layer (attention.sliding_window)"),
    Mistake("window-everywhere", "layers that see every earlier token saw the window of the others"),
    Mistake("window-one-more", "tokens saw one token before the window of their layer"),
    Mistake("window-one-less", "the oldest token of the window was not seen"),
    Mistake("heads-in-turn", "query head h used key head h mod G; h // (H / G) is right"),
    Mistake("heads-first", "every query head used the first key head; head h has to use h // (H / G)"),
    Mistake("embedding-scaled", "the embedding was multiplied by the square root of its width, as in Gemma models"),
    Mistake("embedding-not-scaled", "the embedding was not multiplied by the square root of its width",
        seen="Gemma models"),
    Mistake("rotation-ignored", "the weights are rotated (prism.hadamard), and what enters them was not",
        seen="llama.cpp on Bonsai 2 files of type 42"),
    Mistake("residual-missing", "a block's input was not added to its output"),
    Mistake("residual-normed", "a block's input was added after its norm; it is added as it is"),
    Mistake("residual-of-layer",
        "the input of the layer was added to the output of the feed-forward block; the sum after attention is right"),
    Mistake("attention-gate-missing", "the result of attention was not multiplied by the sigmoid of its gate"),
    Mistake("net-gate-missing", "the result of a delta net was not multiplied by SiLU of its gate"),
    Mistake("net-norms-missing", "queries and keys of delta nets were not brought to length 1"),
    Mistake("convolution-forgets",
        "the convolution of a delta net saw the token itself only: the rows of earlier tokens were not kept"),
    Mistake("states-grow", "states of delta nets grew by e^-gate; they have to fade by e^gate"),
    Mistake("states-not-corrected",
        "keys and values were added to the states of delta nets, without taking off what the states give for the key"),
    Mistake("value-heads-grouped",
        "value head h of a delta net used key head h // (H / G), as in checkpoints; in GGUF files it is h mod G"),
    Mistake("head-tied", "the embedding table was used as head; the file has output.weight",
        seen="bitnet.cpp, llama.cpp's fork of 2025"),
    Mistake("pooling-mean", "the mean of all tokens was taken; the model pools otherwise",
        seen="utils/convert-bitnet-embedding-to-gguf.py without a configuration"),
    Mistake("pooling-first", "the first token was taken; the model pools otherwise"),
    Mistake("pooling-last", "the last token was taken; the model pools otherwise"),
)  # fmt: skip

#: Mistakes of programs that decode payloads.
PAYLOAD_MISTAKES: Final = (
    Mistake("bit-order", does="Takes the codes of a byte from the lowest bits up.",
        seen="BitNet-rs; private converters"),
    Mistake("nibbles-swapped", does="Exchanges the two halves of each byte."),
    Mistake("group-stride", does="Takes the codes of a byte to be 16 elements apart, not 32."),
    Mistake("layout-as-sequential",
        does="Takes the codes of a byte for neighbours: the tensor is still ternary, and permuted.",
        seen="larql before its PR 156; NanoDex"),
    Mistake("layout-not-x86-128", does="Reads every file in blocks of 64, as ARM builds did.",
        seen="microsoft/BitNet#470, #585, #598"),
    Mistake("layout-not-arm-64", does="Reads a payload of an ARM build in blocks of 128.",
        seen="microsoft/BitNet#600"),
    Mistake("layout-not-rows-1x4", does="Reads a payload of four rows to a byte in blocks of 128.",
        seen="src/ggml-bitnet-mad.cpp without ACT_PARALLEL"),
    *(Mistake(f"layout-not-{name}", does="Does not read the layout that the caller names.")
      for name, layout in LAYOUTS.items()
      if layout.in_gguf and name not in ("interleave-128", "interleave-64", "rows-1x4")),
    Mistake("offset-by-one", does="Gives each element the value of its neighbour."),
    Mistake("offset-by-a-group", does="Gives each element the value of the one 32 places before."),
    Mistake("transposed", does="Exchanges rows and columns.", answer="the matrix is transposed"),
    Mistake("rows-as-ne0", does="Takes the first number of ne for the rows.", seen="larql#412"),
    Mistake("blocks-restart-at-rows", does="Begins blocks anew at each row, where they run on.",
        seen="kernels and get_rows of the BitNet fork"),
    Mistake("code-map", does="Reads codes 0, 1, 2 as 0, +1, -1.", seen="microsoft/BitNet#412"),
    Mistake("code-map-ignored", does="Reads every code map as the canonical one."),
    Mistake("sign-swapped", does="Exchanges -1 and +1.", answer="every sign is the other one"),
    Mistake("signed-shift", does="Shifts signed bytes, so that the sign comes in from the left."),
    Mistake("zero-byte-as-zero", does="Takes bytes of 0 for weights of 0, not -1.", seen="microsoft/BitNet#608"),
    Mistake("absolute-values", does="Gives +1 for weights of -1.", answer="every weight has lost its sign"),
    Mistake("unsigned-trits", does="Gives codes 0, 1, 2 for trits.",
        answer="1 was not subtracted from the codes", seen="gpu/ kernels with an offset left on"),
    Mistake("code-three", does="Accepts code 3, and makes -1, 0, +1 or +2 of it.",
        answer="the code {code} became {value}",
        seen="dequantize_row_i2_s of the BitNet fork (0); its kernels, ik_llama.cpp and 0xBitNet (+2)"),
    Mistake("code-three-weight", does="Makes something else than +2 of code 3 of Q2_0."),
    Mistake("remainder-accepted", does="Decodes a number of elements that is no whole number of blocks.",
        seen="llama-quantize of the BitNet fork"),
    Mistake("tail-forgotten", does="Does not count the 32 bytes behind the payload.",
        seen="0xBitNet's size function before its loader adds them"),
    Mistake("scale-not-checked", does="Accepts a scale that is NaN, infinite, negative, or 0 of codes that are not."),
    Mistake("scale-as-f16", does="Rounds the scale to F16.",
        answer="the trits are right, and the scale was rounded to F16", seen="IQ1_BN of ik_llama.cpp; conversions to TQ2_0"),
    Mistake("scale-as-bf16", does="Rounds the scale to bfloat16.",
        answer="the trits are right, and the scale was cut or rounded to bfloat16"),
    Mistake("scale-place", does="Reads the scale four bytes before or behind its place.",
        answer="the trits are right, and the scale was read {place}"),
    Mistake("tail-last-float", does="Reads the last float of the tail for the scale."),
    Mistake("scale-rounded-up", does="Rounds the place of the scale up to a multiple of 4."),
    Mistake("scale-in-front", does="Reads the scale in front of the payload.", seen="a fork for PowerPC"),
    Mistake("scale-per-row", does="Takes the floats of the tail for scales of rows."),
    Mistake("scale-first-row", does="Applies the scale to the first row alone.",
        answer="the trits are right, and the scale was applied to the first row alone"),
    Mistake("scale-in-blocks", does="Reads blocks of 34 bytes that begin with an F16 scale.",
        answer="blocks of 34 bytes were read, an F16 scale in front of each", seen="BitNet-rs"),
    Mistake("codes-four-values", does="Reads codes 0 to 3 as -2, -1, +1 and +2, neighbours in a byte, without a scale.",
        answer="the codes were read as -2, -1, +1 and +2, four neighbours to a byte", seen="QK256 of BitNet-rs"),
    Mistake("tail-averaged", does="Averages the eight floats of the tail."),
    Mistake("tail-compared", does="Refuses a tail for its other 28 bytes."),
    Mistake("scale-byte-order", does="Reads the scale in the wrong byte order.",
        answer="the trits are right, and the scale was read in the other byte order",
        seen="gguf_writer.py of the BitNet fork leaves it unswapped"),
    Mistake("payload-swapped", does="Swaps the payload of a big-endian file in words."),
    Mistake("subnormal-flushed", does="Flushes subnormal numbers to 0."),
    Mistake("minus-zero", does="Gives -0.0 for a weight of 0.", answer="only the sign of zeros differs"),
    Mistake("group-code-map", does="Reads codes of groups as 0, +1, -1."),
    Mistake("group-as-interleave", does="Reads Q2_0 in the order of I2_S."),
    Mistake("q2_0-bits-reversed", does="Takes the codes of a byte of Q2_0 from the highest bits down."),
    Mistake("q2_0-d-last", does="Looks for the scale of Q2_0 behind its codes."),
    Mistake("q2_0-64-as-128", does="Reads Q2_0 of groups of 64 in groups of 128.",
        seen="llama.cpp#25833, #25824, #22256"),
    Mistake("q2_0-128-as-64", does="Reads groups of 128 in groups of 64.",
        seen="llama.cpp#29058, #23909; Bonsai-demo#82"),
    Mistake("ptq1_0-sequential", does="Takes the digits of a byte of PTQ1_0 for neighbours."),
    Mistake("ptq1_0-qh-first", does="Looks for qh of PTQ1_0 in front of qs."),
    Mistake("ptq1_0-d-first", does="Looks for the scale of PTQ1_0 in front of its codes."),
    Mistake("tq1_0-sequential", does="Takes the digits of a byte of TQ1_0 for neighbours."),
    Mistake("tq1_0-qh-first", does="Looks for qh of TQ1_0 in front of qs."),
    Mistake("digits-by-division",
        does="Divides bytes by powers of 3, where the digit is in the high bits of a product."),
    Mistake("digits-reversed", does="Takes the last digit of a byte for the first."),
    Mistake("digits-not-cut",
        does="Does not cut the product of a byte and a power of 3 to a byte, in a language whose bytes do not wrap.",
        answer="the product of a byte and a power of 3 was not cut to a byte", seen="bitnet-go a3d7700, TQ1_0"),
    Mistake("tq2_0-bits-reversed", does="Takes the codes of a byte of TQ2_0 from the highest bits down."),
    Mistake("tq2_0-sequential", does="Takes the codes of a byte of TQ2_0 for neighbours."),
    Mistake("tq2_0-d-first", does="Looks for the scale of TQ2_0 in front of its codes."),
    Mistake("iq1_bn-sequential", does="Takes the digits of a byte of IQ1_BN for neighbours."),
    Mistake("iq2_bn-sequential", does="Takes the codes of a byte of IQ2_BN for neighbours."),
    Mistake("iq2_bn-bits-reversed", does="Takes the codes of a byte of IQ2_BN from the highest bits down."),
    Mistake("group-scale-neighbour", does="Gives each group the scale of the next."),
    Mistake("scale-per-tensor", does="Takes the first scale for all groups or rows."),
    Mistake("f16-subnormal-flushed", does="Flushes subnormal F16 scales to 0."),
    Mistake("f16-as-bf16", does="Reads F16 scales as bfloat16."),
    Mistake("tl-tiles-ignored", does="Unpacks TL1 with other tiles than those of its kernel."),
)  # fmt: skip

#: Mistakes of programs that quantize and multiply.
NUMBER_MISTAKES: Final = (
    Mistake("quantize-threshold", does="Makes 0 of weights from another magnitude on than 1e-6 in float64."),
    Mistake("quantize-scale", does="Stores another scale than the rule."),
    Mistake("quantize-rounding", does="Cuts quotients off, or rounds halves away from 0."),
    Mistake("quantize-group-scale", does="Stores another scale of groups than their largest magnitude."),
    Mistake("activation-half-away", does="Rounds ties of activation codes away from 0.",
        seen="microsoft/BitNet of 2026"),
    Mistake("activation-reciprocal",
        does="Gives amax / 127 for the scale of activations, where 127 / amax is meant."),
    Mistake("activation-no-floor", does="Divides by the largest magnitude of a token of zeros.",
        seen="microsoft/BitNet of 2026"),
    Mistake("activations-unsigned", does="Takes activation codes for unsigned bytes."),
    Mistake("int16-wrap", does="Adds up in 16 bits that wrap around.", seen="src/ggml-bitnet-mad.cpp without VNNI"),
    Mistake("int16-saturates", does="Adds up in 16 bits that saturate."),
    Mistake("epilogue-order", does="Divides the scales first, which rounds otherwise.",
        seen="microsoft/BitNet of 2026"),
)  # fmt: skip

#: Mistakes of programs that read, check and tokenize whole files.
FILE_MISTAKES: Final = (
    Mistake("accepts-bad-magic", does="Accepts what is no GGUF file."),
    Mistake("accepts-bad-header", does="Accepts a header that cannot be.", seen="llama.cpp#15711"),
    Mistake("accepts-bad-metadata", does="Accepts key-values that cannot be.",
        seen="llama.cpp#19003, #26318; gguf-tools#28"),
    Mistake("accepts-bad-info", does="Accepts tensor infos that cannot be.", seen="llama.cpp#18674"),
    Mistake("accepts-bad-extent", does="Accepts tensors that the file does not hold.", seen="ROCm/hrx-system#278"),
    Mistake("accepts-bad-payload", does="Accepts codes, scales and tails that cannot be."),
    Mistake("model-not-checked", does="Accepts keys and tensors that make no model."),
    Mistake("bounds-not-checked", does="Accepts numbers that no machine has room for."),
    Mistake("refuses-everything", does="Refuses sound files: a refusal counts only where the sound twin is accepted."),
    Mistake("refuses-type-36", does="Refuses every file in which a tensor is of type 36, whatever is asked of it.",
        seen="gguf-parser-go 0.28.2; Ollama of August 2026"),
    Mistake("text-trimmed", does="Cuts blanks, line ends or NUL off the ends of texts.",
        seen="abrander/gguf 3d15a05; gogguf 270b2ea; candle 0.11.1 (NUL)"),
    Mistake("empty-array-type", does="Forgets the type of the elements of an empty array.",
        seen="candle 0.11.1; llama-rs 0.23.1; ferrox 0.25.0; oxillama 0.1.4; pmetal 0.7.0"),
    Mistake("key-hyphen", does="Refuses keys with a hyphen, such as those of bitnet-b1.58.", seen="gguf-rs-lib 0.3.3"),
    Mistake("type-size", does="Gives a tensor of one of ggml's other types the wrong size.",
        seen="abrander/gguf 3d15a05; gogguf 270b2ea; gguf-rs 0.1.8; ggus 0.5.1; llama-rs 0.23.1"),
    Mistake("offset-from-start", does="Counts offsets from the start of the file, not of the data section."),
    Mistake("alignment-ignored", does="Aligns to 32, whatever general.alignment says."),
    Mistake("ne-reversed", does="Gives dimensions in the order of NumPy, not in that of the file."),
    Mistake("value-type-confused", does="Reads unsigned values as signed ones."),
    Mistake("array-length", does="Reads lengths of arrays in fewer bits than 64."),
    Mistake("version-2-refused", does="Refuses version 2, which differs in nothing that it reads."),
    Mistake("big-endian-refused", does="Takes a big-endian file for a version that does not exist."),
    Mistake("merges-missing", does="Splits texts into letters, and merges nothing."),
    Mistake("text-encoding", does="Takes UTF-8 for single bytes of Latin-1."),
    Mistake("text-normalised", does="Changes case or blanks of a text before it is split."),
    Mistake("first-token", does="Puts the first token where it is not asked for, or does not where it is."),
)  # fmt: skip

#: Every mistake by its name.
MISTAKES: Final = {each.name: each for each in (*MODEL_MISTAKES, *PAYLOAD_MISTAKES, *NUMBER_MISTAKES, *FILE_MISTAKES)}


def wrong_layouts(right: Layout) -> Iterator[tuple[str, Layout]]:
    """Layouts that a program may read or write: the right one, without a name, and wrong ones."""
    yield "", right
    for layout in LAYOUTS.values():
        if layout is not right:
            yield layout.name, layout
    yield f"{right} with the bits from the other end", right._replace(shift_of=Formula(f"6 - ({right.shift_of})"))


def wrong_block_layouts(right: BlockLayout) -> Iterator[tuple[str, BlockLayout]]:
    """Layouts of blocks that a program may read: the right one, without a sentence, and wrong ones, with what was done."""
    yield "", right
    if right.coding == "bits":
        turned = tuple(part._replace(place_of=Formula(f"6 - ({part.place_of})")) for part in right.parts)
        yield "the codes were read from the highest bits of a byte", right._replace(parts=turned)
        if right.scale.per == "block":
            front = 2 if right.scale.offset == 0 else 0
            in_order = (BlockPart(right.block, Formula(f"{front} + k // 4"), Formula("k % 4 * 2")),)
            yield "the codes were read one after the other", right._replace(parts=in_order)
            quarter = right.block // 4
            planes = (BlockPart(right.block, Formula(f"{front} + k % {quarter}"), Formula(f"k // {quarter} * 2")),)
            yield "the codes were read as four planes of a block", right._replace(parts=planes)
    else:
        in_order = (BlockPart(right.block, Formula(f"k // {DIGITS_PER_BYTE}"), Formula(f"k % {DIGITS_PER_BYTE}")),)
        yield "the digits were read one after the other", right._replace(parts=in_order)
    if right.scale.per == "block":
        size = right.scale.nbytes
        last = right.nbytes - size
        offset, by = (last, -size) if right.scale.offset == 0 else (0, size)
        moved = tuple(part._replace(byte_of=Formula(f"({part.byte_of}) + {by}")) for part in right.parts)
        where = "last" if offset else "first"
        yield (
            f"the scale of a block was read {where} in it",
            right._replace(parts=moved, scale=GroupScale("block", right.scale.type, offset)),
        )
    for other in BLOCK_LAYOUTS.values():
        if other is not right and other.scale.per == "block" and other.nbytes != right.nbytes:
            yield f"the bytes were read as {other}", other
