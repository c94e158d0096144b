"""Rules that other programs of this package apply: those that use a model, and those that convert other formats.

The linter does not apply them: a GGUF file with such a fault can still be of use, and the others are not GGUF files.
"""

from i2s_spec.linter.rule import Needs, raised
from i2s_spec.schema import faults

WHEN = "text is turned into tokens, or tokens into text"

raised(
    faults.TOKENIZER_UNSUPPORTED,
    """The tokenizer is of a kind that is not implemented here.

    Why: byte-level vocabularies with merges and SentencePiece vocabularies with scores are what models with ternary weights
    have. A vocabulary of another kind read as one of these would give tokens that the model was not trained on.

    Example: tokenizer.ggml.model = bert.

    Fix: give token ids instead of text.
    """,
    clause="3.5",
    when=WHEN,
)

raised(
    faults.TOKENIZER_TOO_LARGE,
    """A list of the vocabulary is longer than any tokenizer should read.

    Why: tables in memory take many times the bytes of the list, so a small file could ask for all memory.

    Example: ten million merges.

    Fix: none in the file; no known model comes near the limits.
    """,
    clause="3.5",
    when=WHEN,
    cwe=770,
)

raised(
    faults.MERGE_OF_NO_TOKENS,
    """A merge joins texts that are not tokens.

    Why: each merge takes two tokens and gives a third; where one of the three is missing, its rank means nothing, and
    programs differ in what they make of it.

    Example: the merge 'a b' in a vocabulary without 'ab'.

    Fix: write tokens and merges from the same tokenizer.
    """,
    clause="3.5",
    when=WHEN,
)

raised(
    faults.SCORE_NOT_A_NUMBER,
    """The score of a token is not a number.

    Why: pieces are joined in the order of their scores, and NaN has no place in any order.

    Example: tokenizer.ggml.scores with a NaN for one token.

    Fix: write the scores from the original tokenizer again.
    """,
    clause="3.5",
    when=WHEN,
)

raised(
    faults.PRE_UNSUPPORTED,
    """The pre-tokenizer is not implemented here.

    Why: it says how text is split before merges apply. With another one, the same text gives other tokens, and the model
    answers a little worse without a word.

    Example: tokenizer.ggml.pre = tekken.

    Fix: choose one with --pre if you know that it splits alike; or give token ids.
    """,
    clause="3.5",
    when=WHEN,
)

raised(
    faults.TEMPLATE_FAILED,
    """The chat template cannot be rendered.

    Why: a template is a program from the file. It is only run when somebody asks, in a sandbox and in a process of its own
    that is bounded in time, memory and output; what goes beyond is stopped.

    Example: a template that loops a thousand million times.

    Fix: choose a format by name with --format, or write the prompt yourself.
    """,
    clause="12.5",
    when="a chat template is rendered",
    cwe=1336,
)

raised(
    faults.LOGITS_NOT_FINITE,
    """The model computes infinities or NaN.

    Why: among logits that are no numbers no token can be chosen. A scale or a norm of the file is not finite, or so large
    that sums overflow.

    Example: a file that llama-quantize wrote with two threads.

    Fix: `i2s lint` names the tensor; `i2s golden record` shows where the first such number appears.
    """,
    clause="9.11",
    when="a model is run",
)

raised(
    faults.CHECKPOINT_MALFORMED,
    """A safetensors file cannot be read.

    Why: its header is a length and JSON that says where every tensor lies. Where the length is beyond the file, the JSON
    is invalid, or two tensors share bytes, the weights cannot be found.

    Example: a download that ended early, or a Git LFS pointer under the name model.safetensors.

    Fix: fetch the checkpoint again.
    """,
    clause="12.1",
    when="the input of a conversion from a checkpoint",
    needs=Needs.OTHER_FORMAT,
    cwe=125,
)

raised(
    faults.CHECKPOINT_TENSOR_MALFORMED,
    """A tensor of a safetensors file has an invalid shape, type or place.

    Why: a tensor whose bytes are not as many as its shape and type take, or that lies outside the file, would be read as
    other weights; packed ternary weights need a scale beside them, of one element.

    Example: a packed weight of shape 640 x 2560 in uint8 without its weight_scale.

    Fix: write the checkpoint again with the library that made it.
    """,
    clause="12.1",
    when="the input of a conversion from a checkpoint",
    needs=Needs.OTHER_FORMAT,
    cwe=125,
)

raised(
    faults.CHECKPOINT_REFUSED,
    """A checkpoint cannot be imported, or checked, as it is.

    Why: what its files say does not fit together, or is not known here: a shard that the index names is missing, shapes
    differ from config.json, weights are not finite, a tokenizer has holes. A file made of it would load and be wrong.

    Example: `model.safetensors.index.json` names two shards, and one was not downloaded.

    Fix: the message names the file or the tensor; fetch it again, or choose by hand what the checkpoint leaves open.
    """,
    clause="12.1",
    when="the input of an import, of `verify --against` and of `lint`",
    needs=Needs.OTHER_FORMAT,
    cwe=20,
)

raised(
    faults.RECEIPT_MALFORMED,
    """A receipt cannot be read.

    Why: `i2s verify` compares a file with what its receipt records. An incomplete receipt leaves nothing to compare.

    Example: another JSON file under the name of the receipt, or one that a later version wrote.

    Fix: make the receipt again with `i2s import --receipt`, from the checkpoint.
    """,
    clause="12.1",
    when="the receipt of `verify`",
    needs=Needs.OTHER_FORMAT,
    cwe=20,
)

raised(
    faults.NPY_MALFORMED,
    """A .npy file cannot be read.

    Why: arrays of Python objects would have to be unpickled, which executes what the file says, so they are refused; and
    an array that ends early would be filled with whatever is in memory.

    Example: `numpy.save` of a list of arrays, which stores objects.

    Fix: save a plain array of float32 or int8.
    """,
    clause="12.1",
    when="the input of i2s encode",
    needs=Needs.OTHER_FORMAT,
    cwe=502,
)
