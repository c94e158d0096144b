"""Rules about what runtimes do with the file; they apply if a report on runtimes is requested.

Each finding is about one runtime. Its verdict comes from `linter.runtimes`; the facts with their sources are in
`schema.runtimes`.
"""

from collections.abc import Iterator
from typing import TYPE_CHECKING

from i2s_spec.errors import Span, TrustedText
from i2s_spec.linter.analysis.conditions import runtimes_requested
from i2s_spec.linter.analysis.subject import Subject
from i2s_spec.linter.rule import NOTE, WARNING, Finding, Weights, rule

if TYPE_CHECKING:
    from i2s_spec.linter.runtimes.reason import Reason
    from i2s_spec.linter.runtimes.verdicts import Verdict

_NOWHERE = Span(0, 0)


def _verdicts(subject: Subject) -> tuple["Verdict", ...]:
    """The verdicts; the code that makes them is loaded only where they are requested."""
    from i2s_spec.linter.runtimes.verdicts import verdicts

    return verdicts(subject)


def _first(verdict: "Verdict", *effects: str) -> "Reason":
    """The decisive reason."""
    return next(reason for reason in verdict.reasons if reason.effect in effects)


def _details(verdict: "Verdict", reason: "Reason") -> dict[str, TrustedText]:
    return {
        "runtime": TrustedText(verdict.title),
        "why": TrustedText(reason.text),
        "source": TrustedText(reason.source),
    }


@rule("P201", "runtime-refuses", "{runtime} does not load this file: {why} ({source})", severity=NOTE, clause="7.6",
      provenance=("ggml-org/llama.cpp#12997", "ollama/ollama#10334", "microsoft/BitNet#206"),
      when=runtimes_requested, weights=Weights.IF_READ)  # fmt: skip
def runtime_refuses(subject: Subject) -> Iterator[Finding]:
    """A runtime does not load the file, or crashes on it.

    Why: most often the runtime does not know type 36, and reports another cause: an invalid magic, or a row that is not
    a multiple of 0. The file may be sound, but the runtime does not support it.

    Example: any I2_S file in llama.cpp, in Ollama and LM Studio, which use it, and in gguf-py.

    Fix: use a runtime that loads it, or convert the file for the runtime (`i2s convert`).
    """
    for verdict in _verdicts(subject):
        if verdict.loads in ("no", "crash"):
            reason = _first(verdict, "no", "crash")
            span = reason.span or _NOWHERE
            yield runtime_refuses.at(
                span, got=TrustedText(verdict.loads), want=TrustedText("yes"), **_details(verdict, reason)
            )


@rule("P202", "runtime-computes-wrongly", "{runtime} loads this file but computes something else: {why} ({source})",
      severity=NOTE, clause="7.6", provenance=("microsoft/BitNet#588", "microsoft/BitNet#602"),
      when=runtimes_requested, weights=Weights.IF_READ)  # fmt: skip
def runtime_computes_wrongly(subject: Subject) -> Iterator[Finding]:
    """A runtime loads the file but computes something else than the model.

    Why: no error is reported. The model writes wrong text, and the file seems to be the cause, but the difference is in
    the runtime: the activation of the feed-forward, the rotation, or the layout that it expects.

    Example: bitnet-b1.58-2B-4T in bitnet.cpp of 2026, which applies SiLU instead of ReLU².

    Fix: use another runtime, or a version of this one without the fault. Compare values with `i2s golden`.
    """
    for verdict in _verdicts(subject):
        if verdict.computes == "wrongly":
            reason = _first(verdict, "wrong")
            span = reason.span or _NOWHERE
            yield runtime_computes_wrongly.at(
                span, got=TrustedText(verdict.computes), want=TrustedText("correctly"), **_details(verdict, reason)
            )


@rule("P203", "runtime-depends-on-machine", "{runtime} computes this file correctly only on some machines: {why} ({source})",
      severity=NOTE, clause="7.6", provenance=("microsoft/BitNet#585", "microsoft/BitNet#547"),
      when=runtimes_requested, weights=Weights.IF_READ)  # fmt: skip
def runtime_depends_on_machine(subject: Subject) -> Iterator[Finding]:
    """A runtime computes the file correctly on some machines, and wrongly on others.

    Why: kernels for different processors expect different layouts, or are missing. The same file gives correct text on
    one machine and garbage on another, without a message.

    Example: a published file in bitnet.cpp of December 2025 on a Raspberry Pi.

    Fix: on the other machines, use a runtime that reads the file's layout there.
    """
    for verdict in _verdicts(subject):
        if verdict.computes.startswith("depends"):
            reason = _first(verdict, "cpu")
            span = reason.span or _NOWHERE
            yield runtime_depends_on_machine.at(
                span, got=TrustedText(verdict.computes), want=TrustedText("correctly"), **_details(verdict, reason)
            )


@rule("P204", "runtime-needs-conversion", "{runtime} takes this file only after a conversion: {why} ({source})",
      severity=NOTE, clause="7.6",
      provenance=("ikawrakow/ik_llama.cpp#365", "ikawrakow/ik_llama.cpp#167"),
      when=runtimes_requested, weights=Weights.IF_READ)  # fmt: skip
def runtime_needs_conversion(subject: Subject) -> Iterator[Finding]:
    """A runtime loads the file, but must convert it before it can compute it.

    Why: the runtime reads the type only for conversion and has no kernels for it. Without the conversion it crashes, or
    every product with such a tensor is 0, without a message.

    Example: an I2_S file in ik_llama.cpp without a conversion by llama-quantize --allow-requantize
    --token-embedding-type f16.

    Fix: convert the file first, with the runtime's own tool.
    """
    for verdict in _verdicts(subject):
        if verdict.loads == "with option":
            reason = _first(verdict, "option")
            span = reason.span or _NOWHERE
            yield runtime_needs_conversion.at(
                span, got=TrustedText(verdict.loads), want=TrustedText("yes"), **_details(verdict, reason)
            )


@rule("P205", "no-runtime", "no known runtime loads this file and computes it correctly", severity=WARNING,
      clause="7.6", provenance=("microsoft/BitNet#588",), when=runtimes_requested, weights=Weights.IF_READ)  # fmt: skip
def no_runtime(subject: Subject) -> Iterator[Finding]:
    """No known runtime loads the file and computes it correctly, on any machine.

    Why: nobody can use the file as it is. The other findings give the reason of each runtime.

    Example: an I2_S model of architecture bitnet-b1.58 with a tensor that no loader knows.

    Fix: repair the faults that the other findings name. For a model of a new architecture there may be nothing to
    repair.
    """
    report = _verdicts(subject)
    useful = [v for v in report if v.loads in ("yes", "with option") and v.computes[:7] in ("correct", "depends")]
    doubtful = any(v.computes == "not tried" for v in report)
    if subject.has_i2s and not useful and not doubtful:
        yield no_runtime.at(_NOWHERE, got=0, want=1)
