"""Rules that other commands of this package apply: those that use a model, and those that convert other formats.

The linter does not apply them: a GGUF file with such a fault can still be useful, and other inputs are not GGUF files.
"""

from i2s_spec.linter.analysis.conditions import elsewhere
from i2s_spec.linter.rule import raised
from i2s_spec.schema import faults

_TOKENS = elsewhere("text is turned into tokens, or tokens into text")
_CHECKPOINTS = elsewhere("the input of a conversion from a checkpoint")

raised(
    faults.TOKENIZER_UNSUPPORTED,
    """i2s does not implement this kind of tokenizer.

    Why: ternary models have byte-level vocabularies with merges, or SentencePiece vocabularies with scores. A
    vocabulary of another kind, read as one of these, would give tokens that the model was not trained on.

    Example: tokenizer.ggml.model = bert.

    Fix: give token ids instead of text.
    """,
    clause="3.5",
    when=_TOKENS,
)

raised(
    faults.TOKENIZER_TOO_LARGE,
    """A list of the vocabulary is longer than any tokenizer should accept.

    Why: the tables in memory are many times larger than the list, so a small file could use all memory.

    Example: ten million merges.

    Fix: shorten the list; no known model comes near the limits.
    """,
    clause="3.5",
    when=_TOKENS,
    cwe=770,
)

raised(
    faults.MERGE_OF_NO_TOKENS,
    """A merge joins texts that are not tokens.

    Why: each merge takes two tokens and gives a third. If one of the three is missing, the rank of the merge has no
    meaning, and programs treat it differently.

    Example: the merge 'a b' in a vocabulary without 'ab'.

    Fix: write tokens and merges from the same tokenizer.
    """,
    clause="3.5",
    when=_TOKENS,
)

raised(
    faults.SCORE_NOT_A_NUMBER,
    """The score of a token is not a number.

    Why: pieces are joined in the order of their scores, and NaN cannot be ordered.

    Example: tokenizer.ggml.scores with a NaN for one token.

    Fix: write the scores from the original tokenizer again.
    """,
    clause="3.5",
    when=_TOKENS,
)

raised(
    faults.PRE_UNSUPPORTED,
    """i2s does not implement this pre-tokenizer.

    Why: it defines how text is split before merges apply. With another one, the same text gives other tokens, and the
    model answers a little worse, without a message.

    Example: tokenizer.ggml.pre = tekken.

    Fix: choose one with --pre if you know that it splits text in the same way, or give token ids.
    """,
    clause="3.5",
    when=_TOKENS,
)

raised(
    faults.TEMPLATE_FAILED,
    """The chat template cannot be rendered.

    Why: a template is a program from the file. i2s runs it only on request, in a sandbox and in a separate process with
    limits on time, memory and output. A template that exceeds a limit is stopped.

    Example: a template that loops 10^9 times.

    Fix: choose a format by name with --format, or write the prompt yourself.
    """,
    clause="12.5",
    when=elsewhere("a chat template is rendered"),
    cwe=1336,
)

raised(
    faults.LOGITS_NOT_FINITE,
    """The model computes infinities or NaN.

    Why: no token can be chosen from logits that are NaN. A scale or a norm of the file is not finite, or is so large
    that sums overflow.

    Example: a file that llama-quantize wrote with two threads.

    Fix: `i2s lint` names the tensor. `i2s golden record` shows where the first such number appears.
    """,
    clause="9.11",
    when=elsewhere("a model is run"),
)

raised(
    faults.CHECKPOINT_MALFORMED,
    """A safetensors file cannot be read.

    Why: its header is a length and JSON text with the place of every tensor. The weights cannot be located if the
    length exceeds the file, the JSON is invalid, or two tensors share bytes.

    Example: a download that stopped early, or a Git LFS pointer with the name model.safetensors.

    Fix: fetch the checkpoint again.
    """,
    clause="12.1",
    when=_CHECKPOINTS,
    cwe=125,
)

raised(
    faults.CHECKPOINT_TENSOR_MALFORMED,
    """A tensor of a safetensors file has an invalid shape, type or place.

    Why: if the number of bytes does not match shape and type, or the tensor lies outside the file, other weights would
    be read. Packed ternary weights also need a scale with one element.

    Example: a packed weight of shape 640 x 2560 in uint8 without its weight_scale.

    Fix: write the checkpoint again with the library that made it.
    """,
    clause="12.1",
    when=_CHECKPOINTS,
    cwe=125,
)

raised(
    faults.CHECKPOINT_REFUSED,
    """A checkpoint cannot be imported or checked in its current state.

    Why: its files contradict each other, or i2s does not support what they contain: a shard that the index names is
    missing, shapes differ from config.json, weights are not finite, a tokenizer has gaps. A GGUF file made from it
    would load and be wrong.

    Example: `model.safetensors.index.json` names two shards, and one was not downloaded.

    Fix: the message names the file or the tensor. Fetch it again, or pass what the checkpoint does not state as an
    option.
    """,
    clause="12.1",
    when=elsewhere("the input of an import, of `verify --against` and of `lint`"),
    cwe=20,
)

raised(
    faults.RECEIPT_MALFORMED,
    """A receipt cannot be read.

    Why: `i2s verify` compares a file with what its receipt records. An incomplete receipt leaves nothing to compare.

    Example: a JSON file that is not a receipt, or a receipt that a later version wrote.

    Fix: make the receipt again with `i2s import --receipt`, from the checkpoint.
    """,
    clause="12.1",
    when=elsewhere("the receipt of `verify`"),
    cwe=20,
)

raised(
    faults.NPY_MALFORMED,
    """A .npy file cannot be read.

    Why: reading an array of Python objects would execute code from the file, so such arrays are refused. An array that
    ends early would be filled with old memory.

    Example: `numpy.save` of a list of arrays, which stores objects.

    Fix: save a plain array of float32 or int8.
    """,
    clause="12.1",
    when=elsewhere("the input of i2s encode"),
    cwe=502,
)
