"""This module says whether an engine computes a model that it has loaded: layout, kernels, activation, rotation, values."""

from __future__ import annotations

from collections.abc import Iterator
from math import isfinite
from typing import TYPE_CHECKING, Final

from i2s_spec.errors import quote
from i2s_spec.linter.reason import Reason
from i2s_spec.schema.architecture import ARCHITECTURES, Architecture
from i2s_spec.schema.dialect import CANONICAL, Dialect
from i2s_spec.schema.runtimes import Runtime
from i2s_spec.schema.types import I2_S

if TYPE_CHECKING:
    from i2s_spec.linter.subject import Subject

#: The activation that a graph applies, in words.
_ACTIVATIONS: Final = {"relu2": "ReLU²", "silu": "SiLU", "gelu": "GELU"}


def reasons(subject: Subject, runtime: Runtime, architecture: Architecture, dialect: Dialect) -> Iterator[Reason]:
    """What an engine computes wrongly, or only on some machines; nothing where it is right."""
    if runtime.i2s == "converts" and subject.has_i2s:
        refusal = runtime.refusal
        assert refusal is not None
        yield Reason(refusal.text, refusal.source, "option")
    yield from _activation(subject, runtime, architecture)
    if runtime.rope and runtime.rope != architecture.rope:
        fact = runtime.fact("rope")
        assert fact is not None
        yield Reason(fact.text, fact.source, "wrong")
    if subject.has_i2s and runtime.i2s in ("computes", "converts"):
        yield from _layout(runtime, dialect)
        yield from _shapes(subject, runtime)
        yield from _sizes(subject, runtime)
        yield from _values(subject, runtime)
    elif not subject.has_i2s:
        yield Reason(
            "the file holds no I2_S tensors; how it computes others is not known here", runtime.source, "doubt"
        )
    yield from _vocabulary(subject, runtime)


def _activation(subject: Subject, runtime: Runtime, architecture: Architecture) -> Iterator[Reason]:
    """The feed-forward's activation, which a file hardly ever states."""
    own = architecture.activation
    key = f"{architecture.name}.hidden_activation"
    stated = None
    if key in subject.file.metadata and subject.file.metadata.entry(key).label == "str":
        stated = subject.file.metadata[key]
    fact = runtime.fact("activation")
    applied = dict(runtime.activations).get(architecture.name, own)
    wanted = stated if stated in _ACTIVATIONS else own
    if runtime.name == "llama.cpp" and stated in _ACTIVATIONS:
        applied = stated
    if applied != wanted and fact is not None:
        text = f"{fact.text}; this model needs {_ACTIVATIONS[wanted]}"
        yield Reason(text, fact.source, "wrong")
    elif applied != wanted:
        text = f"it applies {_ACTIVATIONS[applied]}, and {key} says {_ACTIVATIONS[wanted]}"
        yield Reason(text, runtime.source, "wrong")


def _layout(runtime: Runtime, dialect: Dialect) -> Iterator[Reason]:
    """Which machines read the layout of the file."""
    layout = dialect.layout.name
    if dialect.code_map != CANONICAL.code_map:
        yield Reason(
            f"it takes codes for {CANONICAL.code_map}; the file's are {dialect.code_map}", runtime.source, "wrong"
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
            text = fact.text if fact is not None else "its kernels compute rubbish there"
            said = text if text.startswith(machine) else f"{machine}: {text}"
            yield Reason(said, fact.source if fact is not None else runtime.source, effect)


def _shapes(subject: Subject, runtime: Runtime) -> Iterator[Reason]:
    """Rows that are no whole blocks, and rows that are too short."""
    narrow = runtime.fact("narrow")
    if narrow is not None:
        for i, ne in subject.i2s():
            if ne[0] < 512:
                text = f"{quote(subject.name(i), 64)} has {ne[0]:,} columns: {narrow.text}; convert it to another type"
                yield Reason(text, narrow.source, "doubt", subject.info_span(i, "ne"))
                break
    wide = runtime.fact("int16")
    if wide is not None:
        for i, ne in subject.i2s():
            if ne[0] >= 4096:
                text = f"{quote(subject.name(i), 64)} has {ne[0]:,} columns: {wide.text}"
                yield Reason(text, wide.source, "note", subject.info_span(i, "ne"))
                break
    if runtime.columns is None:
        return
    multiple, where = runtime.columns
    fact = runtime.fact("rows")
    for i, ne in subject.i2s():
        if ne[0] % multiple:
            text = (
                f"{quote(subject.name(i), 64)} has rows of {ne[0]:,} elements, and {where} need multiples of {multiple}"
            )
            more = f": {fact.text}" if fact is not None else ""
            yield Reason(text + more, fact.source if fact else runtime.source, "wrong", subject.info_span(i, "ne"))
            return
    if runtime.name.startswith("bitnet.cpp"):
        for i, ne in subject.i2s():
            if ne[0] % 256:
                text = (
                    f"Metal: {quote(subject.name(i), 64)} has rows of {ne[0]:,}, and the kernel needs multiples of 256"
                )
                yield Reason(text, "microsoft/BitNet ggml-metal.metal:3349", "cpu", subject.info_span(i, "ne"))
                return


def _sizes(subject: Subject, runtime: Runtime) -> Iterator[Reason]:
    """Tensors that were given another room than they take: their bytes are not where a reader looks."""
    for room in subject.rooms:
        placement = room.placement
        if placement.number != I2_S.number or placement.size is None:
            continue
        if room.size < placement.size or (
            room.next is not None and room.size > -(-placement.size // subject.step) * subject.step
        ):
            text = f"{quote(subject.name(placement.row), 64)} has room for {room.size:,} bytes, and takes {placement.size:,}"
            yield Reason(text, "microsoft/BitNet setup_env.py", "wrong", subject.info_span(placement.row, "offset"))
            return


def _values(subject: Subject, runtime: Runtime) -> Iterator[Reason]:
    """Codes and scales, where payloads are read anyway."""
    for tensor in subject.survey or ():
        name = quote(tensor.name, 64)
        if not isfinite(tensor.scale):
            yield Reason(
                f"the scale of {name} is {tensor.scale}: so are all outputs", runtime.source, "wrong", tensor.scale_span
            )
            return
        if tensor.counts[3]:
            text = f"{name} holds code 3, which is {runtime.code3 or 'something else in each runtime'} here"
            fact = runtime.fact("code3")
            yield Reason(text, fact.source if fact else runtime.source, "wrong", tensor.span(0, tensor.payload_bytes))
            return


def _vocabulary(subject: Subject, runtime: Runtime) -> Iterator[Reason]:
    """What happens to text: another split gives other tokens, which the weights were not trained for."""
    metadata = subject.file.metadata
    if not runtime.pre or "tokenizer.ggml.pre" in metadata or metadata.get("tokenizer.ggml.model") != "gpt2":
        return
    text = f"tokenizer.ggml.pre is missing: it {runtime.pre}; text may become other tokens than in training"
    yield Reason(text, "microsoft/BitNet#508", "note")


def architecture_of(subject: Subject) -> Architecture | None:
    """The declared architecture of a file."""
    return ARCHITECTURES.get(subject.architecture)
