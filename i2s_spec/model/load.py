"""Load a model: refuse files with errors, decide what the file leaves open, and build the graph.

The weights are read when the first pass needs them; only profile `fast` reads them all first, while the file is checked.
"""

from __future__ import annotations

import os
import struct
from collections.abc import Callable, Mapping
from math import isfinite, prod
from typing import TYPE_CHECKING, Any, Final, Literal
from warnings import warn

from i2s_spec.errors import Fault, FormatError, ReadOnWarning, SettingError, counted, quote
from i2s_spec.gguf.source import require_written
from i2s_spec.schema import dialect as dialects
from i2s_spec.schema import faults
from i2s_spec.schema.faults import order_prefix
from i2s_spec.schema.keys import ARCHITECTURE_UNKNOWN, KEY_MISSING, KEY_TYPE, KEY_VALUE

if TYPE_CHECKING:
    from i2s_spec.gguf.reader import File, Tensor
    from i2s_spec.gguf.source import Origin
    from i2s_spec.model.forward import Model
    from i2s_spec.model.graph import Graph
    from i2s_spec.model.numerics import NumericProfile
    from i2s_spec.schema.architectures import Architecture, Hyperparameters
    from i2s_spec.schema.dialect import Dialect
    from i2s_spec.schema.rotation import Rotation

#: Errors that `force` does not override: faults that stop the reader, and an unknown architecture or sizes.
_ALWAYS: Final = frozenset(each for each in vars(faults).values() if isinstance(each, Fault))
_UNKNOWN: Final = frozenset(fault.code for fault in (ARCHITECTURE_UNKNOWN, KEY_MISSING, KEY_TYPE, KEY_VALUE))

#: The meanings of `pooling_type`.
POOLINGS: Final = {1: "mean", 2: "first", 3: "last"}


def load_model(
    origin: Origin,
    numerics: str | NumericProfile = "bitnet-golden-1",
    threads: int | None = None,
    *,
    dialect: str | Dialect = "canonical",
    activation: str | None = None,
    pooling: str | None = None,
    force: bool = False,
    trusted: bool = False,
    progress: Callable[[int, int], object] | None = None,
) -> Model:
    """Load a model from a GGUF file.

    :param origin: as for `open`: a path, a buffer, a stream; or a `File` that is open already
    :param numerics: the name of a numeric profile, or a `NumericProfile`
    :param threads: how many threads may work; by default one for each processor. Results do not depend on it
    :param dialect: the dialect in which I2_S tensors are read; a file does not state it, and a wrong one gives garbage
    :param activation: `relu2`, `silu` or `gelu`, which overrides file and profile (clause 9.6)
    :param pooling: for embedding models, `last`, `mean` or `first`, which overrides the file
    :param force: load the model even if the linter finds errors
    :param trusted: map the file into memory; only for files that nobody can shorten
    :param progress: called with (bytes that were read, bytes in all), by profiles that read all weights first
    :raises FormatError: with the linter's first error, and for an architecture or sizes that cannot be run (M001 to M004)
    :raises ValueError: for a dialect that does not exist, and for a file that consists of holes
    :raises SettingError: for settings that do not exist, and for a model that is sound but cannot be run here: experts,
        in architectures that have none, scaled positions other than linear, types of tensors that no operation reads
    """
    from i2s_spec.gguf.reader import File
    from i2s_spec.gguf.reader import open as open_file
    from i2s_spec.model.numerics import numeric_profile
    from i2s_spec.model.read_ahead import ReadAhead

    chosen = numeric_profile(numerics)
    read_as = dialects.parse(dialect)
    threads = _processors() if threads is None else threads
    if threads < 1:
        raise SettingError(f"{counted(threads, 'thread does', 'threads do')} nothing; at least 1 is needed")
    file = origin if isinstance(origin, File) else open_file(origin, trusted=trusted)
    ahead: ReadAhead | None = None
    try:
        require_written(file.source)
        if chosen.reads_ahead:
            ahead = ReadAhead(file, read_as, threads)
        _require_usual_form(file)
        if not force:
            refuse_broken(file)
        model = _model(file, chosen, threads, read_as, activation, pooling, force)
        _warn_of_unused(model)
        if ahead is not None:
            model.weights.preloaded = ahead.finish(progress)
        model.operations.prepare(model.graph, model.weights)
        file.require_unchanged()
        return model
    except BaseException:
        if ahead is not None:
            ahead.close()
        if file is not origin:
            file.close()
        raise


def refusal(file: File) -> str | None:
    """Return why `load_model` refuses a file without linter errors; None if it does not. No weights are read.

    :raises FormatError: if the file changed
    """
    from i2s_spec.model.numerics import numeric_profile

    try:
        require_written(file.source)
        _model(file, numeric_profile("bitnet-golden-1"), 1, dialects.CANONICAL, None, None, force=False)
    except (FormatError, SettingError, ValueError) as error:
        file.require_unchanged()
        return str(error)
    return None


def _processors() -> int:
    """Return the number of processors that this process may use."""
    allowed = getattr(os, "sched_getaffinity", None)
    return len(allowed(0)) if allowed is not None else os.cpu_count() or 1


def refuse_broken(file: File, *, select: tuple[str, ...] = (), payload: Literal["none", "sample"] = "none") -> None:
    """Raise the linter's first error, in the order of the bytes, if there is one.

    :param select: prefixes of codes that count; by default all
    :param payload: whether weights are checked, a bounded part of each
    """
    from i2s_spec.linter.engine import lint
    from i2s_spec.linter.rule import Severity
    from i2s_spec.linter.rules.tensor_infos import groups_of_128  # these are read correctly here
    from i2s_spec.linter.selection import selected

    if not select:  # other rules could only warn
        levels = selected(payload=payload != "none")
        select = tuple(code for code, level in levels.items() if level is Severity.ERROR)
    for finding in lint(file.source, select=select, payload=payload).findings:
        if finding.severity is Severity.ERROR and finding.code != groups_of_128.code:
            raise FormatError(finding.rule.fault, finding.span, finding.got, finding.want, **finding.details)


def refused_always(error: FormatError) -> bool:
    """Whether an error refuses the file even with `force`: the reader cannot read it, or its architecture is not known."""
    return error.fault in _ALWAYS or error.code in _UNKNOWN


def _model(
    file: File,
    profile: NumericProfile,
    threads: int,
    dialect: Dialect,
    activation: str | None,
    pooling: str | None,
    force: bool,
) -> Model:
    from i2s_spec.model.architectures import GraphSettings, LocalLayers, graph_of, resolve_activation
    from i2s_spec.model.forward import Model
    from i2s_spec.model.reference.bitlinear import require_groups
    from i2s_spec.model.weights import ModelWeights
    from i2s_spec.schema.architectures import architecture_of, hyperparameters, local_layers

    _require_usual_form(file)
    architecture = architecture_of(file.metadata, file.tensors)
    embedding = file.tensors.get("token_embd.weight")
    h = hyperparameters(file.metadata, embedding.shape[0] if embedding is not None else None)
    used = _experts_used(architecture, file.metadata, h)
    if h.rope_dims % 2 or h.rope_dims > h.head_dim:
        raise SettingError(
            f"{counted(h.rope_dims, 'dimension')} of a head are to be rotated in pairs; a head has {h.head_dim:,}"
        )
    if architecture.key("rope.freq_base").name not in file.metadata:
        h = h._replace(rope_base=profile.rope_bases.get(architecture.prefix, h.rope_base))
    rule = resolve_activation(architecture, file.metadata, profile, activation, h.vocab)
    kind, why = _pooling(architecture, file.metadata, pooling)
    local = local_layers(file.metadata, architecture, h.layers)
    causal = file.metadata.short(f"{architecture.prefix}.attention.causal") is not False
    if architecture.delta_nets:
        _require_sections(architecture, file.metadata, h)
        if not causal:
            raise SettingError(
                f"{architecture.prefix}.attention.causal is false, and states of delta nets know the past only"
            )
    settings = GraphSettings(
        activation=rule.activation,
        rope=architecture.rope if profile.rope == "architecture" else profile.rope,
        rope_scale=_rope_scale(architecture, file.metadata),
        pooling=kind,
        causal=causal,
        head=architecture.head,
        sub_norm_eps=profile.sub_norm_eps,
        sub_norms=profile.sub_norms,
        rotation=_rotation(file),
        local=LocalLayers(*local) if local is not None else None,
        experts_used=used,
    )
    graph = graph_of(architecture.name, h, settings, file.tensors)
    if settings.rotation is not None:
        _require_rotated(settings.rotation, graph, architecture, h)
    _require(file, architecture, h, graph, scales=not force)
    for node in graph:
        if node.op in ("linear", "expert_linear"):
            tensor = file.tensors[node.weight]
            require_groups(tensor.ne[0], profile.quantizer_of(tensor.type.name if tensor.type is not None else ""))
    weights = ModelWeights(file, dialect)
    return Model(file, architecture, h, profile, graph, weights, settings, rule, why, threads)


def _warn_of_unused(model: Model) -> None:
    """Warn of tensors that neither the graph uses nor the architecture declares, such as norms under another name."""
    used = {name for node in model.graph for name in node.weights}
    others = [name for name in model.file.tensors if name not in used and model.architecture.match(name) is None]
    if others:
        more = f" and {len(others) - 1:,} more" if len(others) > 1 else ""
        text = f"computed without tensor {quote(others[0])}{more}, of which {model.architecture.name} has none"
        warn(f"{quote(model.file.name, 4096, bare=True)}: {text}", ReadOnWarning, stacklevel=3)


def _experts_used(architecture: Architecture, metadata: Mapping[str, Any], h: Hyperparameters) -> int:
    """How many experts compute each token; 0 if the model has none."""
    if not h.experts:
        return 0
    if not any("_exps." in spec.name for spec in architecture.inventory):
        raise SettingError(f"the model has {counted(h.experts, 'expert')}; no graph of {architecture.name} has any")
    used = metadata.get(f"{architecture.prefix}.expert_used_count")
    if not isinstance(used, int) or not 1 <= used <= h.experts:
        raise SettingError(f"the model has {counted(h.experts, 'expert')}, and {used} of them are used for each token")
    return used


def _require_usual_form(file: File) -> None:
    """Refuse a file in the form of a single writer, whose scales would be read in the wrong place, or codes in the wrong
    order; `force` does not help."""
    from i2s_spec.gguf.writer_forms import writer_form

    if (form := writer_form(file)) is not None:
        raise SettingError(
            f"the file has the form of {form.program} ({form.words}), which is not run: i2s convert IN OUT --to canonical "
            "makes a file in the usual form"
        )


def _rotation(file: File) -> Rotation | None:
    """Return the rotation that the keys declare, if it matches the tensors."""
    from i2s_spec.schema.rotation import RotationError, declared

    try:
        rotation = declared(file.metadata)
        for name in () if rotation is None else (*rotation.weights, *rotation.tables):
            if (tensor := file.tensors.get(name)) is not None and rotation is not None:
                rotation.require_width(tensor.ne[0])
                rotation.signs_of(tensor.ne[0])
    except RotationError as error:
        raise SettingError(str(error)) from None
    return rotation


def _require_sections(architecture: Architecture, metadata: Mapping[str, Any], h: Hyperparameters) -> None:
    """Check that all rotated pairs turn with the position of a text's token: llama.cpp gives each pair to one of four
    positions in turn, and the fourth is 0 in text."""
    key = f"{architecture.prefix}.rope.dimension_sections"
    value = metadata.get(key, ())
    sections = [int(each) for each in value] if hasattr(value, "__len__") and not isinstance(value, str) else []
    total = sum(sections)
    if len(sections) != 4 or min(sections) < 0 or not total:
        raise SettingError(f"{key} is not four numbers of pairs")
    for pair in range(h.rope_pairs):
        if pair % total >= 3 * sections[pair % total % 3]:
            raise SettingError(
                f"{key} is {sections}, which leaves pair {pair} of {h.rope_pairs} to a position that text does not have"
            )


def _require_rotated(rotation: Rotation, graph: Graph, architecture: Architecture, h: Hyperparameters) -> None:
    """Check that every weight that is declared as rotated is used as such, but for layers that the graph leaves out: a
    partly rotated model computes noise."""
    products = {node.weight for node in graph if node.op in ("linear", "head")}
    lookups = {node.weight for node in graph if node.op == "embed"}
    for key, names, used in (
        ("weight_names", rotation.weights, products),
        ("inverse_weight_names", rotation.tables, lookups),
    ):
        for name in names:
            _, layer = architecture.match(name) or (None, None)
            if name not in used and (layer is None or not h.computed <= layer < h.layers):
                raise SettingError(
                    f"prism.hadamard.{key} lists {quote(name)}, which the graph does not use in that way"
                )
    if both := (set(rotation.tables) & products) | (set(rotation.weights) & lookups):
        raise SettingError(
            f"{quote(min(both))} is rotated, and both embedding and head: version 1 of the keys does not say what that means"
        )


def _pooling(architecture: Architecture, metadata: Mapping[str, Any], override: str | None) -> tuple[str, str]:
    """Return the pooling of an embedding model, and the rule that decided."""
    if override is not None:
        if override not in POOLINGS.values():
            raise SettingError(f"unknown pooling {quote(override)}; there are: {', '.join(POOLINGS.values())}")
        return override, "the caller asked for it"
    key = f"{architecture.prefix}.pooling_type"
    if not architecture.embedding_model:
        return "last", ""
    value = metadata.get(key)
    if isinstance(value, int) and value in POOLINGS:
        return POOLINGS[value], f"{key} says {value}"
    return "last", f"{key} is missing; the published models use the last token"


def _rope_scale(architecture: Architecture, metadata: Mapping[str, Any]) -> float:
    """Return the factor of positions."""
    kind = metadata.get(f"{architecture.prefix}.rope.scaling.type", "linear")
    factor = metadata.get(f"{architecture.prefix}.rope.scaling.factor")
    if factor is None:
        factor = metadata.get(f"{architecture.prefix}.rope.scale_linear", 1.0)
    if not isinstance(kind, str) or not isinstance(factor, int | float):
        raise SettingError("a key about the scaling of positions is neither a name nor a number")
    if kind == "none" or factor == 1:
        return 1.0
    if kind != "linear" or not factor:
        raise SettingError(f"positions are scaled by {quote(kind)}; only linear scaling can be run here")
    return 1.0 / float(factor)


def _require(file: File, architecture: Architecture, h: Hyperparameters, graph: Graph, *, scales: bool) -> None:
    """Check that every tensor of the graph exists, with the shape that the sizes give and a supported type.

    If the linter has a rule for a mistake, its message is used, even if its errors are otherwise ignored.

    :param scales: whether a scale that is NaN or infinite is refused
    """
    from i2s_spec.linter.rules.inventory import embedding_rows, tensor_missing, tensor_shape
    from i2s_spec.model.weights import TYPES
    from i2s_spec.schema.architectures import placed

    for node in graph:
        for name in node.weights:
            tensor = file.tensors.get(name)
            found = architecture.match(name)
            if tensor is None or found is None:
                refuse_broken(file, select=(tensor_missing.code,))
                raise SettingError(f"the file has no tensor {quote(name)}, which {architecture.name} needs")
            spec, layer = found
            want = placed(spec, h if layer is None else h.at(layer), layer).ne
            if prod(tensor.ne) != prod(want) or (len(want) > 1 and tuple(tensor.ne) != want):
                refuse_broken(file, select=(tensor_shape.code, embedding_rows.code))
                shapes = f"{list(tensor.shape)}; the sizes in the header give {list(want[::-1])}"
                raise SettingError(f"tensor {quote(name)} has the shape {shapes}")
            kind = tensor.type.name if tensor.type is not None else f"type {tensor.number}"
            if kind not in (known := TYPES[node.op if node.op in TYPES else "norm_weight"]):
                raise SettingError(
                    f"tensor {quote(name)} is {kind}; in this place, only {', '.join(known)} can be run here"
                )
            tensor.require(tensor.span)
            if scales and kind == "I2_S" and not isfinite(_scale(file, tensor)):
                refuse_broken(file, payload="sample")
                raise SettingError(
                    f"tensor {quote(name)} has the scale {_scale(file, tensor)}; every output would be NaN"
                )


def _scale(file: File, tensor: Tensor) -> float:
    """Return the scale in the tail of an I2_S tensor, unchanged."""
    prefix = order_prefix(file.byte_order)
    return float(struct.unpack_from(prefix + "f", tensor.tail)[0])
