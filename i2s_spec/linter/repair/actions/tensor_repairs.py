"""This module repairs tensors that do not fit their architecture: unknown tensors, and floats of unexpected types."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, Final

from i2s_spec.convert.container.edits import Edit
from i2s_spec.convert.container.key_renames import check_architecture, renamed_keys
from i2s_spec.errors import counted, quote
from i2s_spec.linter.analysis.architecture_view import ArchitectureView, architecture_view
from i2s_spec.linter.repair.actions.tensor_layout import Unclear, relaid_with
from i2s_spec.linter.repair.registry import Action, Declined, Outcome, repair
from i2s_spec.linter.repair.workspace import Workspace, number_of
from i2s_spec.linter.rule import Finding, Fix
from i2s_spec.schema.types import ValueType

#: Most bytes of floats that one repair converts: norms and biases of the largest models have a few MB.
MOST_FLOATS: Final = 256 << 20


def _without(workspace: Workspace, finding: Finding, why: str) -> Action:
    tensor = workspace.file.tensors.by_index(number_of(finding.span))
    does = f"tensor {quote(tensor.raw_name)} is removed from the table: {why}"
    return Action(finding.code, finding.span, does, (workspace.without_tensor(tensor.info),), safe=False)


@repair("M102", Fix.UNSAFE, "tensors that the architecture does not have are removed", weights=True)
def drop_unknown(workspace: Workspace) -> Iterator[Outcome]:
    """Loaders count tensors and refuse a file with more than they use (clause 4.1)."""
    findings = list(workspace.findings("M102"))
    missing = next(iter(workspace.findings("M101")), None) if findings else None
    for finding in findings:
        if missing is not None:
            why = f"{missing.details['name']} is missing, too: this may be that tensor under another name"
            yield Declined("M102", finding.span, why)
            continue
        yield _without(workspace, finding, "the architecture has no tensor of that name")


@repair("M113", Fix.UNSAFE, "an output matrix that no graph uses is removed", weights=True)
def drop_head(workspace: Workspace) -> Iterator[Outcome]:
    """One runtime does use it, so this is done only on request (clause 4.1)."""
    for finding in workspace.findings("M113"):
        yield _without(workspace, finding, "the graph multiplies by token_embd.weight")


@repair("M114", Fix.UNSAFE, "scales beside those in tails are removed", weights=True)
def drop_second_scale(workspace: Workspace) -> Iterator[Outcome]:
    """Only if the tail has the right scale (clause 4.5)."""
    for finding in workspace.findings("M114"):
        yield _without(workspace, finding, "the scale in the tail stays")


@repair("M105", Fix.UNSAFE, "vocab_size becomes the number of rows of the embedding, if as many tokens are listed")
def embedding_rows(workspace: Workspace) -> Iterator[Outcome]:
    """Tokens are not invented, and rows are not cut off (clause 4.1)."""
    known = architecture_view(workspace.subject)
    key = f"{known.name}.vocab_size"
    for finding in workspace.findings("M105"):
        if known.tokens not in (None, finding.got) or key not in workspace.file.metadata:
            yield Declined(
                "M105",
                finding.span,
                f"{counted(known.tokens or 0, 'token is', 'tokens are')} listed: which rows are theirs?",
            )
            continue
        edit = workspace.with_value(workspace.file.metadata.entry(key), finding.got, ValueType.UINT32)
        yield Action("M105", finding.span, f"key {quote(key)} becomes {finding.got:,}", (edit,), safe=False)


@repair("M106", Fix.UNSAFE, "F16 tensors become F32 if loaders read only F32", weights=True)
def widened_floats(workspace: Workspace) -> Iterator[Outcome]:
    """F32 represents every F16 value exactly; the tensors that follow move (clause 4.4)."""
    import numpy as np

    from i2s_spec.codec.form import widened

    findings = list(workspace.findings("M106"))
    tensors = [workspace.file.tensors.by_index(number_of(finding.span)) for finding in findings]
    new: dict[int, bytes] = {}
    remaining = [t for t in tensors if t.type is not None and t.type.name in ("F16", "BF16")]
    if sum(2 * tensor.nbytes for tensor in remaining) > MOST_FLOATS:
        remaining = []
    try:
        for tensor in remaining:
            assert tensor.type is not None
            halves = np.frombuffer(tensor.read(), dtype=workspace.prefix + "u2").astype("u2")
            floats = widened(halves, tensor.type.name).astype(np.float32)
            new[tensor.index] = floats.astype(workspace.prefix + "f4").tobytes()
        edits = relaid_with(workspace, new) if new else ()
        why = ""
    except Unclear as error:
        edits, why = (), str(error)
    types = tuple(Edit(workspace.subject.info_span(row, "type"), workspace.u32(0)) for row in new)
    for finding, tensor in zip(findings, tensors, strict=True):
        if edits and tensor.index in new:
            does = f"tensor {quote(tensor.raw_name)} becomes F32, which represents all its values exactly"
            yield Action("M106", finding.span, does, (*types, *edits), safe=False)
        else:
            yield Declined("M106", finding.span, why or "F32 cannot represent its values exactly, or it is too large")


#: Gemma's norms before ternary projections are stored unchanged; all its other norms as w + 1.
_AS_THEY_ARE: Final = "_norm_in.weight"


@repair("M116", Fix.UNSAFE, "1 is added to the native norms", weights=True)
def gemma_norms(workspace: Workspace) -> Iterator[Outcome]:
    """Graphs multiply by the stored value; Gemma's own code multiplies by w + 1 (clause 4.6)."""
    import numpy as np

    known = architecture_view(workspace.subject)
    for finding in workspace.findings("M116"):
        edits = []
        for row in known.rows:
            kind = {"F16": "f2", "F32": "f4"}.get(row.type)
            if kind is None or row.spec is None or row.spec.role != "norm" or row.name.endswith(_AS_THEY_ARE):
                continue
            tensor = workspace.file.tensors.by_index(row.i)
            if tensor.span.stop > workspace.source.size or tensor.nbytes > MOST_FLOATS // 64:
                continue
            values = np.frombuffer(tensor.read(), dtype=workspace.prefix + kind)
            edits.append(Edit(tensor.span, (values + values.dtype.type(1)).astype(workspace.prefix + kind).tobytes()))
        yield Action("M116", finding.span, f"1 is added to {counted(len(edits), 'norm')}", tuple(edits), safe=False)


@repair("M117", Fix.UNSAFE, "the architecture becomes the one with the other activation", by_name=True)
def other_graph(workspace: Workspace) -> Iterator[Outcome]:
    """Only the model's config.json shows which is right, so the repair must be selected by its code (clause 4.3)."""
    known = architecture_view(workspace.subject)
    for finding in workspace.findings("M117"):
        if known.is_declared and known.model.other_activation is not None:
            yield _as_architecture(workspace, finding, known, known.model.other_activation)


@repair("M118", Fix.UNSAFE, "hidden_activation becomes what the architecture's graph has", by_name=True)
def own_activation(workspace: Workspace) -> Iterator[Outcome]:
    """Only the model's config.json shows which is right, so the repair must be selected by its code (clause 4.3)."""
    known = architecture_view(workspace.subject)
    for finding in workspace.findings("M118"):
        key = f"{known.name}.hidden_activation"
        edit = workspace.with_value(workspace.file.metadata.entry(key), str(finding.want), ValueType.STRING)
        yield Action("M118", finding.span, f"key {quote(key)} becomes {finding.want}", (edit,), safe=False)


def _as_architecture(workspace: Workspace, finding: Finding, known: ArchitectureView, arch: str) -> Outcome:
    file: Any = workspace.file
    try:
        check_architecture(file, known.name, arch)
    except ValueError as error:
        return Declined(finding.code, finding.span, str(error))
    keys = renamed_keys(file, known.name, arch)
    edits = [workspace.with_key(file.metadata.entry(key), new) for key, new in keys.items() if new not in file.metadata]
    value = workspace.with_value(file.metadata.entry("general.architecture"), arch, ValueType.STRING)
    does = f"the architecture becomes {arch}, and {counted(len(edits), 'key is', 'keys are')} renamed with it"
    return Action(finding.code, finding.span, does, (value, *edits), safe=False)
