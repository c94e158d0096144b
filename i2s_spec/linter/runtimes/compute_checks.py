"""What an engine computes wrongly of a model that it has loaded: layout, kernels, activation, rotation, values."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import islice
from math import isfinite
from typing import TYPE_CHECKING, Final

from i2s_spec.errors import counted, quote
from i2s_spec.linter.analysis.payload_stats import payload_anomalies, scales_not_finite
from i2s_spec.linter.runtimes import records
from i2s_spec.linter.runtimes.records import Reason
from i2s_spec.schema import limits
from i2s_spec.schema.architectures import Architecture
from i2s_spec.schema.dialect import CANONICAL, Dialect
from i2s_spec.schema.runtimes import Runtime
from i2s_spec.schema.types import I2_S

if TYPE_CHECKING:
    from i2s_spec.linter.analysis.context import LintContext

#: The activation that a graph applies, in words.
_ACTIVATIONS: Final = {"relu2": "ReLU²", "silu": "SiLU", "gelu": "GELU"}


def reasons(subject: LintContext, runtime: Runtime, architecture: Architecture, dialect: Dialect) -> Iterator[Reason]:
    """Yield what an engine computes wrongly, only on some machines, or correctly according to runs; that it was not
    tried, if there is no run."""
    found = records.form(subject)
    if runtime.i2s == "converts" and subject.has_i2s:
        refusal = runtime.refusal
        assert refusal is not None
        yield Reason(refusal.text, refusal.source, "option")
        found = found.with_matrices(I2_S.name, runtime.converted)
    yield from _activation(subject, runtime, architecture)
    yield from _scales(subject, runtime, architecture)
    if runtime.rope and runtime.rope != architecture.rope:
        fact = runtime.fact("rope")
        assert fact is not None
        yield Reason(fact.text, fact.source, "wrong")
    if subject.has_i2s and runtime.i2s in ("computes", "converts"):
        yield from _layout(runtime, dialect)
        yield from _shapes(subject, runtime)
        yield from _sizes(subject, runtime)
        yield from _values(subject, runtime)
    yield from _limits(subject, runtime)
    yield from _not_finite(subject, runtime)
    yield from _vocabulary(subject, runtime)
    for shown in records.runs_of_form(runtime, found) or [records.not_computed(subject)]:
        failed = shown.effect in ("no", "crash") and found != records.form(subject)
        yield shown._replace(effect="doubt") if failed else shown  # what fails is the converted file


def _limits(subject: LintContext, runtime: Runtime) -> Iterator[Reason]:
    """Yield sizes that the kernels of a type, or the memory of a device, do not take."""
    index = subject.file.index
    for each in runtime.limits:
        for i in range(min(index.tensors, limits.MANY_TENSORS)):
            info = index.tensor(i)
            kind = subject.file.tensors.common_type(info.type)
            name = runtime.converted if kind is I2_S and runtime.i2s == "converts" else kind.name if kind else ""
            if each.types and name not in each.types:
                continue
            short = bool(each.columns) and len(info.ne) > 1 and info.ne[0] < each.columns
            large = bool(each.bytes) and kind is not None and kind.nbytes(info.ne) > each.bytes
            if short or large:
                size = counted(info.ne[0], "column") if short else counted(kind.nbytes(info.ne), "byte") if kind else ""
                text, effect = f"{quote(info.name, 64)} has {size}: {each.text}", str(each.effect)
                if kind is I2_S and runtime.i2s == "converts":
                    text, effect = text + "; it converts such files to other types only", "doubt"
                yield Reason(text, each.source, effect, subject.info_span(i, "ne"))
                break


def _activation(subject: LintContext, runtime: Runtime, architecture: Architecture) -> Iterator[Reason]:
    """Yield the activation of the feed-forward network, which files rarely state."""
    own = architecture.activation
    key = f"{architecture.prefix}.hidden_activation"
    stated = None
    if key in subject.file.metadata and subject.file.metadata.entry(key).label == "str":
        stated = subject.file.metadata[key]
    fact = runtime.fact("activation")
    applied = dict(runtime.activations).get(architecture.prefix, own)
    wanted = stated if stated in _ACTIVATIONS else own
    if applied != wanted and fact is not None:
        text = f"{fact.text}; this model needs {_ACTIVATIONS[wanted]}"
        yield Reason(text, fact.source, "wrong")
    elif applied != wanted:
        text = f"it applies {_ACTIVATIONS[applied]}, and {key} says {_ACTIVATIONS[wanted]}"
        yield Reason(text, runtime.source, "wrong")


def _scales(subject: LintContext, runtime: Runtime, architecture: Architecture) -> Iterator[Reason]:
    """Yield what an engine does with scales beside weights, as far as its source was read."""
    index = subject.file.index
    names = [name for i in range(index.tensors) if (name := index.tensor(i).name).endswith(b"scale")]
    ignored = "scales-ignored-" + architecture.prefix
    for fact, ending, part, effect in (
        (runtime.fact("scales"), b".scale", b"", "note"),
        (runtime.fact("input-scales"), b".input_scale", b"", "note"),
        (runtime.fact(ignored), b".scale", b".ffn_", "wrong"),
    ):
        row = next((name for name in names if name.endswith(ending) and part in name), None)
        if fact is not None and row is not None:
            yield Reason(f"{quote(row, 64)}: {fact.text}", fact.source, effect)


def _layout(runtime: Runtime, dialect: Dialect) -> Iterator[Reason]:
    """Yield the machines that read the layout of the file as another one."""
    layout = dialect.layout.name
    if dialect.code_map != CANONICAL.code_map:
        yield Reason(
            f"it reads codes as {CANONICAL.code_map}; the file has {dialect.code_map}", runtime.source, "wrong"
        )
    right = [machine for machine, read in runtime.layouts if read == layout]
    wrong = [(machine, read) for machine, read in runtime.layouts if read != layout]
    if not runtime.layouts:
        return
    for machine, read in wrong:
        effect = "cpu" if right else "wrong"
        if read:
            fact = runtime.fact("arm") if machine.startswith("ARM") else None
            more = f": {fact.text}" if fact is not None and read == "interleave-64" else ""
            source = fact.source if fact is not None else runtime.source
            yield Reason(f"{machine}: reads {layout} as {read}{more}", source, effect)
        else:
            fact = runtime.fact("arm" if machine.startswith("ARM") else "no-avx2")
            text = fact.text if fact is not None else "its kernels compute wrong results there"
            stated_text = text if text.startswith(machine) else f"{machine}: {text}"
            yield Reason(stated_text, fact.source if fact is not None else runtime.source, effect)


def _shapes(subject: LintContext, runtime: Runtime) -> Iterator[Reason]:
    """Yield rows that do not consist of whole blocks, and rows that are long."""
    wide = runtime.fact("int16")
    if wide is not None:
        for i, ne in subject.i2s():
            if ne[0] >= 4096:
                text = f"{quote(subject.name(i), 64)} has {counted(ne[0], 'column')}: {wide.text}"
                yield Reason(text, wide.source, "note", subject.info_span(i, "ne"))
                break
    if runtime.columns is None:
        return
    multiple, where = runtime.columns
    fact = runtime.fact("rows")
    for i, ne in subject.i2s():
        if ne[0] % multiple:
            text = (
                f"{quote(subject.name(i), 64)} has rows of {counted(ne[0], 'element')}, and "
                f"{where} need multiples of {multiple}"
            )
            more = f": {fact.text}" if fact is not None else ""
            yield Reason(text + more, fact.source if fact else runtime.source, "wrong", subject.info_span(i, "ne"))
            return
    for machine, multiple, source in runtime.narrower:
        for i, ne in subject.i2s():
            if ne[0] % multiple:
                name = quote(subject.name(i), 64)
                text = f"{machine}: {name} has rows of {ne[0]:,}, and the kernel needs multiples of {multiple}"
                yield Reason(text, source, "cpu", subject.info_span(i, "ne"))
                return


def _sizes(subject: LintContext, runtime: Runtime) -> Iterator[Reason]:
    """Yield tensors whose extent differs from their size: their bytes are not where a reader expects them."""
    for extent in subject.extents:
        placement = extent.placement
        if placement.number != I2_S.number or placement.size is None:
            continue
        if extent.allotted_bytes < placement.size or (
            extent.next is not None
            and extent.allotted_bytes > -(-placement.size // subject.effective_alignment) * subject.effective_alignment
        ):
            name, allotted = quote(subject.name(placement.row), 64), extent.allotted_bytes
            text = f"{name} needs {counted(placement.size, 'byte')}, and the file has {allotted:,} for it"
            yield Reason(
                text, "microsoft/BitNet@16da220:setup_env.py:145", "wrong", subject.info_span(placement.row, "offset")
            )
            return


def _values(subject: LintContext, runtime: Runtime) -> Iterator[Reason]:
    """Yield odd codes and scales, if payloads are read anyway."""
    for tensor in subject.survey or ():
        name = quote(tensor.name, 64)
        if not isfinite(tensor.scale):
            yield Reason(
                f"the scale of {name} is {tensor.scale}, and so are all outputs",
                runtime.source,
                "wrong",
                tensor.scale_span,
            )
            return
        if tensor.counts[3]:
            text = f"{name} holds code 3, which is {runtime.unused_code or 'different in each runtime'} here"
            fact = runtime.fact("code3")
            yield Reason(text, fact.source if fact else runtime.source, "wrong", tensor.span(0, tensor.payload_bytes))
            return


def _not_finite(subject: LintContext, runtime: Runtime) -> Iterator[Reason]:
    """Yield floats, and scales of blocks, that are infinite or NaN, if payloads are read anyway."""
    if subject.survey is None:
        return
    odd = [(found.other.name, "scales", found.span) for found in islice(scales_not_finite(subject), 1)]
    for place in payload_anomalies(subject).not_finite[:1]:
        other = subject.survey.others[place]
        odd.append((other.name, "values", other.span(0, other.nbytes)))
    for name, what, span in odd[:1]:
        text = f"{what} of {quote(name, 64)} are infinite or NaN, and so are outputs"
        yield Reason(text, runtime.source, "wrong", span)


def _vocabulary(subject: LintContext, runtime: Runtime) -> Iterator[Reason]:
    """Yield how text is split: another split gives other tokens than those that the weights were trained with."""
    metadata = subject.file.metadata
    first, pre = runtime.fact("first-token"), metadata.get("tokenizer.ggml.pre")
    if (
        first is not None
        and isinstance(pre, str)
        and pre in runtime.no_first_token
        and "tokenizer.ggml.add_bos_token" not in metadata
    ):
        text = f"tokenizer.ggml.add_bos_token is missing, and tokenizer.ggml.pre is {pre}: {first.text}"
        yield Reason(text, first.source, "note")
    if not runtime.pre or "tokenizer.ggml.pre" in metadata or metadata.get("tokenizer.ggml.model") != "gpt2":
        return
    text = f"tokenizer.ggml.pre is missing: it {runtime.pre}; text may get other tokens than in training"
    yield Reason(text, "microsoft/BitNet#508", "note")
