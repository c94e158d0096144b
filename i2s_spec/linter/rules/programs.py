"""Rules about programs that use a file: other commands of this package, and the known runtimes.

The first part is applied by the commands that use a model, and those that convert other formats. The linter does not
apply it: a GGUF file with such a fault can still be useful, and other inputs are not GGUF files. The second part
applies if a report on runtimes is requested.
"""

from collections.abc import Iterator
from typing import TYPE_CHECKING

from i2s_spec.errors import Span, TrustedText
from i2s_spec.linter.analysis.conditions import elsewhere, runtimes_requested
from i2s_spec.linter.analysis.context import LintContext
from i2s_spec.linter.rule import NOTE, WARNING, Finding, Rule, WeightUse, raised, rule
from i2s_spec.schema import faults

if TYPE_CHECKING:
    from i2s_spec.linter.runtimes.verdicts import Verdict

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


# --- runtimes --------------------------------------------------------------------------------------------------------
# Each finding is about one runtime. Its verdict comes from `linter.runtimes.verdicts`; the facts with their sources are in
# `schema.runtimes`.

_NOWHERE = Span(0, 0)


def _was_read(verdict: "Verdict") -> bool:
    """Whether a verdict is about an engine whose source was read, so that it could say no without a run."""
    from i2s_spec.schema.runtimes import RUNTIME

    runtime = RUNTIME[verdict.runtime]
    return runtime.kind == "engine" and not runtime.recorded


def _with_effect(subject: LintContext, made: Rule, *effects: str) -> Iterator[Finding]:
    """Yield a finding for each runtime on which a reason with one of these effects decides, with that reason."""
    from i2s_spec.linter.runtimes.verdicts import COMPUTES, CORRECTLY, LOADS, YES, verdicts

    loading = effects[0] in LOADS
    words = {(LOADS if loading else COMPUTES)[effect] for effect in effects}
    for verdict in verdicts(subject):
        found = verdict.loads if loading else verdict.computes
        if found in words:
            reason = next(reason for reason in verdict.reasons if reason.effect in effects)
            yield made.at(
                reason.span or _NOWHERE, got=TrustedText(found), want=TrustedText(YES if loading else CORRECTLY),
                runtime=TrustedText(verdict.title), why=TrustedText(reason.text), source=TrustedText(reason.source),
            )  # fmt: skip


@rule("P201", "runtime-refuses", "{runtime} does not load this file: {why} ({source})", severity=NOTE, clause="7.6",
      provenance=("ggml-org/llama.cpp#12997", "ollama/ollama#10334", "microsoft/BitNet#206"),
      when=runtimes_requested, weights=WeightUse.IF_READ)  # fmt: skip
def runtime_refuses(subject: LintContext) -> Iterator[Finding]:
    """A runtime does not load the file, or crashes on it.

    Why: most often the runtime does not know type 36, and reports another cause: an invalid magic, or a row that is not
    a multiple of 0. The file may be sound, but the runtime does not support it.

    Example: any I2_S file in llama.cpp, in Ollama and LM Studio, which use it, and in gguf-py.

    Fix: use a runtime that loads it, or convert the file for the runtime (`i2s convert`).
    """
    yield from _with_effect(subject, runtime_refuses, "no", "crash")


@rule("P202", "runtime-computes-wrongly", "{runtime} loads this file but computes something else: {why} ({source})",
      severity=NOTE, clause="7.6", provenance=("microsoft/BitNet#588", "microsoft/BitNet#602"),
      when=runtimes_requested, weights=WeightUse.IF_READ)  # fmt: skip
def runtime_computes_wrongly(subject: LintContext) -> Iterator[Finding]:
    """A runtime loads the file but computes something else than the model.

    Why: no error is reported. The model writes wrong text, and the file seems to be the cause, but the difference is in
    the runtime: the activation of the feed-forward, the rotation, or the layout that it expects.

    Example: bitnet-b1.58-2B-4T in bitnet.cpp of 2026, which applies SiLU instead of ReLU².

    Fix: use another runtime, or a version of this one without the fault. Compare values with `i2s golden`.
    """
    yield from _with_effect(subject, runtime_computes_wrongly, "wrong")


@rule("P203", "runtime-depends-on-machine", "{runtime} computes this file correctly only on some machines: {why} ({source})",
      severity=NOTE, clause="7.6", provenance=("microsoft/BitNet#585", "microsoft/BitNet#547"),
      when=runtimes_requested, weights=WeightUse.IF_READ)  # fmt: skip
def runtime_depends_on_machine(subject: LintContext) -> Iterator[Finding]:
    """A runtime computes the file correctly on some machines, and wrongly on others.

    Why: kernels for different processors expect different layouts, or are missing. The same file gives correct text on
    one machine and garbage on another, without a message.

    Example: a published file in bitnet.cpp of December 2025 on a Raspberry Pi.

    Fix: on the other machines, use a runtime that reads the file's layout there.
    """
    yield from _with_effect(subject, runtime_depends_on_machine, "cpu")


@rule("P204", "runtime-needs-conversion", "{runtime} takes this file only after a conversion: {why} ({source})",
      severity=NOTE, clause="7.6",
      provenance=("ikawrakow/ik_llama.cpp#365", "ikawrakow/ik_llama.cpp#167"),
      when=runtimes_requested, weights=WeightUse.IF_READ)  # fmt: skip
def runtime_needs_conversion(subject: LintContext) -> Iterator[Finding]:
    """A runtime loads the file, but must convert it before it can compute it.

    Why: the runtime reads the type only for conversion and has no kernels for it. Without the conversion it crashes, or
    every product with such a tensor is 0, without a message.

    Example: an I2_S file in ik_llama.cpp without a conversion by llama-quantize --allow-requantize
    --token-embedding-type f16.

    Fix: convert the file first, with the runtime's own tool.
    """
    yield from _with_effect(subject, runtime_needs_conversion, "option")


@rule("P205", "no-runtime", "no known runtime loads this file and computes it correctly", severity=WARNING,
      clause="7.6", provenance=("microsoft/BitNet#588",), when=runtimes_requested, weights=WeightUse.IF_READ)  # fmt: skip
def no_runtime(subject: LintContext) -> Iterator[Finding]:
    """No known runtime loads the file and computes it correctly, on any machine.

    Why: nobody can use the file as it is. The other findings give the reason of each runtime.

    Example: an I2_S model of architecture bitnet-b1.58 with a tensor that no loader knows.

    Fix: repair the faults that the other findings name. For a model of a new architecture there may be nothing to
    repair.
    """
    from i2s_spec.linter.runtimes import verdicts as words

    report = words.verdicts(subject)
    good = words.CORRECTLY, words.EXPECTED, words.DEPENDS
    useful = any(each.loads in (words.YES, words.WITH_OPTION) and each.computes in good for each in report)
    doubtful = any(each.computes in (words.NOT_TRIED, words.NOT_COMPARED) and _was_read(each) for each in report)
    if subject.has_i2s and not useful and not doubtful:
        yield no_runtime.at(_NOWHERE, got=0, want=1)
