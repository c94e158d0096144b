"""The conditions of rules: which files they apply to.

A rule names its condition as `when`. The engine calls it before the rule, once for each file; the first line of its
docstring is what the rule's page says. Conditions of a single module stand there, beside its rules.
"""

from __future__ import annotations

from collections.abc import Callable
from itertools import islice
from typing import Any, Final

from i2s_spec.gguf.reader import File
from i2s_spec.inspect.kind import kind_of
from i2s_spec.linter.analysis.architecture_view import architecture_view
from i2s_spec.linter.analysis.checkpoint_facts import CheckpointFacts
from i2s_spec.linter.analysis.context import LintContext, analysis
from i2s_spec.linter.analysis.loader_view import loader_view
from i2s_spec.linter.analysis.scales import in_layer
from i2s_spec.schema import kinds
from i2s_spec.schema.keys import FLOATS

#: Most tensors that are searched for a matrix of a layer.
LOOKED_AT: Final = 1000


# --- what is asked for, and what is not a file under the linter ---


def elsewhere(words: str) -> Callable[[Any], bool]:
    """Return the condition of rules that other commands apply: no file under the linter meets it."""

    def never(_: Any) -> bool:
        return False

    never.__doc__ = words
    return never


def runtimes_requested(subject: LintContext) -> bool:
    """where runtimes are asked for (--runtimes)"""
    return subject.runtimes_requested


def compared_with_reference(subject: LintContext) -> bool:
    """files that are compared with a reference (--reference)"""
    return subject.weights is not None and not with_base_model(subject)


def compared_with_record(subject: LintContext) -> bool:
    """files whose header is compared with a record (--expect)"""
    return subject.record is not None


def with_base_model(subject: LintContext) -> bool:
    """files that are used beside a model, with that model (--reference)"""
    kind = subject.kind
    return kind is not None and not kind.is_model and base_model(subject) is not None


def adapters_with_base(subject: LintContext) -> bool:
    """LoRA adapters that are compared with their base model (--reference)"""
    return adapters(subject) and base_model(subject) is not None


@analysis
def base_model(subject: LintContext) -> File | None:
    """Return the reference, if it is a model in GGUF whose header could be read."""
    base = subject.weights.file if subject.weights is not None else None
    kind = kind_of(base) if base is not None else None
    return base if kind is not None and kind.is_model else None


def checkpoints(examined: object) -> bool:
    """folders of safetensors"""
    return isinstance(examined, CheckpointFacts)


# --- kinds of files ---


def adapters(subject: LintContext) -> bool:
    """LoRA adapters"""
    return _is(subject, kinds.ADAPTER)


def projectors(subject: LintContext) -> bool:
    """projectors of multimodal models"""
    return _is(subject, kinds.PROJECTOR)


def importance_matrices(subject: LintContext) -> bool:
    """importance matrices"""  # noqa: D401
    return _is(subject, kinds.IMATRIX)


def control_vectors(subject: LintContext) -> bool:
    """control vectors"""
    return _is(subject, kinds.CONTROL_VECTOR)


def _is(subject: LintContext, name: str) -> bool:
    return subject.kind is not None and subject.kind.name == name


# --- architectures ---


def declared_models(subject: LintContext) -> bool:
    """models of a declared architecture"""
    return architecture_view(subject).is_declared


def known_models(subject: LintContext) -> bool:
    """models of an architecture that llama.cpp has, or that is declared here"""
    return ternary_by_type_or_key(subject) or loader_view(subject) is not None


def declared_or_known_models(subject: LintContext) -> bool:
    """models of an architecture that llama.cpp has, or that is declared here"""
    return declared_models(subject) or known_models(subject)


def ternary_by_type_or_key(subject: LintContext) -> bool:
    """models of a declared architecture that are ternary, or say so"""
    return architecture_view(subject).is_bitnet


def ternary_models(subject: LintContext) -> bool:
    """ternary models of a declared architecture"""
    return architecture_view(subject).is_ternary


def ternary_embedding_models(subject: LintContext) -> bool:
    """ternary embedding models"""
    return ternary_models(subject) and architecture_view(subject).model.embedding_model


# --- vocabularies ---


def usual_vocabularies(subject: LintContext) -> bool:
    """files with a gpt2 or llama vocabulary"""
    return architecture_view(subject).has_usual_vocabulary


def byte_level_vocabularies(subject: LintContext) -> bool:
    """files with a gpt2 vocabulary"""
    return architecture_view(subject).tokenizer == "gpt2"


def with_tokens(subject: LintContext) -> bool:
    """files with tokens"""
    return architecture_view(subject).tokens is not None


# --- tensors and payloads ---


def with_i2s(subject: LintContext) -> bool:
    """files with I2_S tensors"""
    return subject.has_i2s


def i2s_read(subject: LintContext) -> bool:
    """files with I2_S tensors whose payloads are read"""
    return subject.survey is not None and len(subject.survey) > 0


@analysis
def layers_read(subject: LintContext) -> bool:
    """files with I2_S matrices of layers whose payloads are read, without a reference"""
    reading = subject.reading.mode
    if reading == "none" or (reading == "sample" and subject.on_server) or subject.weights is not None:
        return False
    return subject.file.fault is None and any(
        (found := in_layer(subject.name(row))) is not None and found[1].startswith((b"attn_", b"ffn_"))
        for row, _ in islice(subject.i2s(), LOOKED_AT)
    )


@analysis
def float_queries_read(subject: LintContext) -> bool:
    """models of declared architectures with attn_q and attn_k stored as floats, read whole, without a reference"""
    if (
        subject.reading.mode != "full"
        or subject.on_server
        or subject.weights is not None
        or subject.file.fault is not None
    ):
        return False
    known = architecture_view(subject)
    return known.is_declared and any(row.type in FLOATS and row.name.endswith("attn_q.weight") for row in known.rows)


def queries_read(subject: LintContext) -> bool:
    """files with I2_S matrices of layers, or with queries stored as floats, that are read, without a reference"""
    return layers_read(subject) or float_queries_read(subject)
