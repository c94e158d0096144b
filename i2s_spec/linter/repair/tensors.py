"""Repairs of tensors: those that do not fit their architecture, and tensor infos that loaders cannot use.

The first part is about unknown tensors, floats of unexpected types, and the graph that the tensors show; the second
about names that loaders cannot use, duplicate names, empty shapes, old type numbers.
"""

from __future__ import annotations

import struct
from collections.abc import Iterator
from typing import Final

from i2s_spec.convert.rewrite import Edit
from i2s_spec.errors import counted, quote
from i2s_spec.gguf.header import TensorInfo
from i2s_spec.gguf.reader import Tensor
from i2s_spec.gguf.strings import is_utf8
from i2s_spec.linter.analysis.architecture_view import architecture_view
from i2s_spec.linter.repair.keys import renamed_architecture
from i2s_spec.linter.repair.layout import Unclear, relaid_with
from i2s_spec.linter.repair.plan import Action, Declined, Outcome, repair
from i2s_spec.linter.repair.workspace import Workspace, number_of
from i2s_spec.linter.rule import Finding, Fix
from i2s_spec.schema import limits
from i2s_spec.schema.faults import TENSOR_COUNT_SPAN
from i2s_spec.schema.types import I2_S, ValueType

#: Most bytes of floats that one repair converts: norms and biases of the largest models have a few MB.
MOST_FLOATS: Final = 256 << 20


def _without(workspace: Workspace, finding: Finding, why: str) -> Action:
    tensor = workspace.file.tensors.by_index(number_of(finding.span))
    does = f"tensor {quote(tensor.raw_name)} is removed from the table: {why}"
    return Action(finding.code, finding.span, does, (workspace.without_tensor(tensor.info),), safe=False)


@repair("M102", Fix.UNSAFE, "tensors that the architecture does not have are removed", weights=True)
def drop_unknown(workspace: Workspace, code: str) -> Iterator[Outcome]:
    """Loaders count tensors and refuse a file with more than they use (clause 4.1)."""
    findings = list(workspace.findings(code))
    missing = next(iter(workspace.findings("M101")), None) if findings else None
    for finding in findings:
        if missing is not None:
            why = f"{missing.details['name']} is missing, too: this may be that tensor under another name"
            yield Declined(code, finding.span, why)
            continue
        if workspace.tensor(finding).name.endswith(("scale", "scales")):
            yield Declined(
                code, finding.span, "it multiplies a result: without it, a program that reads it computes less"
            )
            continue
        yield _without(workspace, finding, "the architecture has no tensor of that name")


@repair("M113", Fix.UNSAFE, "an output matrix that the graph does not use is removed", by_name=True, weights=True)
def drop_head(workspace: Workspace, code: str) -> Iterator[Outcome]:
    """One runtime does use it, so the repair must be selected by its code (clause 4.1)."""
    for finding in workspace.findings(code):
        yield _without(workspace, finding, "the graph multiplies by token_embd.weight")


@repair("M114", Fix.UNSAFE, "scales beside those in tails are removed", by_name=True, weights=True)
def drop_second_scale(workspace: Workspace, code: str) -> Iterator[Outcome]:
    """The graph applies them, and the file does not show which are right, so the repair must be selected by its code
    (clause 4.5)."""
    for finding in workspace.findings(code):
        yield _without(workspace, finding, "the scale in the tail stays")


@repair("M105", Fix.UNSAFE, "vocab_size becomes the number of rows of the embedding, if as many tokens are listed")
def embedding_rows(workspace: Workspace, code: str) -> Iterator[Outcome]:
    """Tokens are not invented, and rows are not cut off (clause 4.1)."""
    known = architecture_view(workspace.subject)
    key = f"{known.name}.vocab_size"
    for finding in workspace.findings(code):
        if known.tokens not in (None, finding.got) or key not in workspace.file.metadata:
            yield Declined(
                code,
                finding.span,
                f"{counted(known.tokens or 0, 'token is', 'tokens are')} listed: which rows are theirs?",
            )
            continue
        edit = workspace.with_value(workspace.file.metadata.entry(key), finding.got, ValueType.UINT32)
        yield Action(code, finding.span, f"key {quote(key)} becomes {finding.got:,}", (edit,), safe=False)


@repair("M106", Fix.UNSAFE, "F16 tensors become F32 if loaders read only F32", weights=True)
def widened_floats(workspace: Workspace, code: str) -> Iterator[Outcome]:
    """F32 represents every F16 value exactly; the tensors that follow move (clause 4.4)."""
    import numpy as np

    from i2s_spec.codec.shape import widened

    findings = list(workspace.findings(code))
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
            yield Action(code, finding.span, does, (*types, *edits), safe=False)
        else:
            yield Declined(code, finding.span, why or "F32 cannot represent its values exactly, or it is too large")


#: Gemma's norms before ternary projections are stored unchanged; all its other norms as w + 1.
_AS_THEY_ARE: Final = "_norm_in.weight"


@repair("M116", Fix.UNSAFE, "1 is added to the native norms", weights=True)
def gemma_norms(workspace: Workspace, code: str) -> Iterator[Outcome]:
    """Graphs multiply by the stored value; Gemma's own code multiplies by w + 1 (clause 4.6)."""
    import numpy as np

    known = architecture_view(workspace.subject)
    for finding in workspace.findings(code):
        edits = []
        for row in known.rows:
            kind = {"F16": "f2", "F32": "f4"}.get(row.type)
            if (
                kind is None
                or row.i < 0
                or row.spec is None
                or row.spec.role != "norm"
                or row.name.endswith(_AS_THEY_ARE)
            ):
                continue
            tensor = workspace.file.tensors.by_index(row.i)
            if tensor.span.stop > workspace.source.size or tensor.nbytes > MOST_FLOATS // 64:
                continue
            values = np.frombuffer(tensor.read(), dtype=workspace.prefix + kind)
            edits.append(Edit(tensor.span, (values + values.dtype.type(1)).astype(workspace.prefix + kind).tobytes()))
        yield Action(code, finding.span, f"1 is added to {counted(len(edits), 'norm')}", tuple(edits), safe=False)


@repair("M117", Fix.UNSAFE, "the architecture becomes the one with the other activation", by_name=True)
def other_graph(workspace: Workspace, code: str) -> Iterator[Outcome]:
    """Only the model's config.json shows which is right, so the repair must be selected by its code (clause 4.3)."""
    known = architecture_view(workspace.subject)
    for finding in workspace.findings(code):
        if known.is_declared and known.model.other_activation is not None:
            yield renamed_architecture(workspace, finding, known.name, known.model.other_activation)


@repair("M118", Fix.UNSAFE, "hidden_activation becomes what the architecture's graph has", by_name=True)
def own_activation(workspace: Workspace, code: str) -> Iterator[Outcome]:
    """Only the model's config.json shows which is right, so the repair must be selected by its code (clause 4.3)."""
    known = architecture_view(workspace.subject)
    for finding in workspace.findings(code):
        key = f"{known.name}.hidden_activation"
        edit = workspace.with_value(workspace.file.metadata.entry(key), str(finding.want), ValueType.STRING)
        yield Action(code, finding.span, f"key {quote(key)} becomes {finding.want}", (edit,), safe=False)


# --- tensor infos ----------------------------------------------------------------------------------------------------

#: How most tensors of the old type numbers are packed.
_OLD_DIALECT = "sequential-msb/twos-complement"


def _without_info(workspace: Workspace, finding: Finding, info: TensorInfo, why: str) -> Action:
    does = f"tensor {quote(info.name)} is removed from the table: {why}"
    return Action(finding.code, finding.span, does, (workspace.without_tensor(info),), safe=False)


def _renamed(workspace: Workspace, finding: Finding, tensor: Tensor, name: bytes) -> Outcome:
    if not name:
        return Declined(finding.code, finding.span, "nothing would be left of the name")
    if name in workspace.tensor_names:
        return Declined(finding.code, finding.span, f"there is a tensor {quote(name)} already")
    does = f"tensor {quote(tensor.raw_name)} becomes {quote(name)}"
    return Action(finding.code, finding.span, does, (workspace.with_name(tensor, name),), safe=False)


@repair("G303", Fix.UNSAFE, "the first tensor of a name is kept", weights=True)
def keep_first_tensor(workspace: Workspace, code: str) -> Iterator[Outcome]:
    """A name can be looked up once (clause 2.6)."""
    twice = {workspace.tensor(finding).raw_name: finding for finding in workspace.findings(code)}
    met: set[bytes] = set()
    for i, name in workspace.subject.tensor_names() if twice else ():
        if name in twice and name in met:
            info = workspace.file.index.tensor(i)
            yield _without_info(workspace, twice[name], info, "the first one of that name is kept")
        met.add(name)


@repair("G304", Fix.UNSAFE, "tensors without a name are removed", weights=True)
def drop_nameless(workspace: Workspace, code: str) -> Iterator[Outcome]:
    """No loader can look them up (clause 2.6)."""
    for finding in workspace.findings(code):
        yield _without_info(workspace, finding, workspace.info(finding), "nothing can look it up")


@repair("G310", Fix.UNSAFE, "tensors without elements are removed", weights=True)
def drop_empty(workspace: Workspace, code: str) -> Iterator[Outcome]:
    """They hold nothing, and loaders abort on them (clause 2.6)."""
    for finding in workspace.findings(code):
        yield _without_info(workspace, finding, workspace.info(finding), "it has no elements")


@repair("G320", Fix.UNSAFE, "tensor infos that follow the last one are counted", weights=True)
def count_all(workspace: Workspace, code: str) -> Iterator[Outcome]:
    """The bytes after the last info that the header counts are more tensor infos (clause 2.6)."""
    for finding in workspace.findings(code):
        edit = Edit(TENSOR_COUNT_SPAN, finding.want.to_bytes(8, workspace.file.byte_order))
        yield Action(code, finding.span, f"the header counts {counted(finding.want, 'tensor')}", (edit,), safe=False)


@repair("G302", Fix.UNSAFE, "names are cut to 63 bytes", weights=True)
def cut_name(workspace: Workspace, code: str) -> Iterator[Outcome]:
    """As the loaders of the BitNet lineage do in memory (clause 2.6)."""
    for finding in workspace.findings(code) if workspace.whole else ():
        tensor = workspace.tensor(finding)
        remaining = tensor.raw_name[: limits.TENSOR_NAME_BYTES]
        if is_utf8(tensor.raw_name):
            remaining = remaining.decode("utf-8", "ignore").encode()
        yield _renamed(workspace, finding, tensor, remaining)


@repair("G305", Fix.UNSAFE, "unprintable characters are removed from names", weights=True)
def printable_name(workspace: Workspace, code: str) -> Iterator[Outcome]:
    """What is left is what a person sees (clause 2.6)."""
    for finding in workspace.findings(code):
        tensor = workspace.tensor(finding)
        remaining = "".join(char for char in tensor.raw_name.decode("utf-8") if char.isprintable())
        yield _renamed(workspace, finding, tensor, remaining.encode())


@repair("G306", Fix.UNSAFE, "bytes that are not UTF-8 are removed from names", weights=True)
def text_name(workspace: Workspace, code: str) -> Iterator[Outcome]:
    """What is left is text (clause 2.6)."""
    for finding in workspace.findings(code):
        tensor = workspace.tensor(finding)
        yield _renamed(workspace, finding, tensor, tensor.raw_name.decode("utf-8", "ignore").encode())


@repair("G309", Fix.UNSAFE, "tensors without dimensions get one dimension of 1", weights=True)
def one_dimension(workspace: Workspace, code: str) -> Iterator[Outcome]:
    """A tensor without dimensions is a single number, and so is one of shape 1 (clause 2.6)."""
    for finding in workspace.findings(code):
        edit = Edit(finding.span, struct.pack(workspace.prefix + "IQ", 1, 1))
        does = f"tensor {quote(workspace.tensor(finding).raw_name)} gets one dimension of 1"
        yield Action(code, finding.span, does, (edit,), safe=False)


@repair("G319", Fix.UNSAFE, "a listed scale goes into the tail of its I2_S tensor", weights=True)
def scale_into_tail(workspace: Workspace, code: str) -> Iterator[Outcome]:
    """The tail is where readers of I2_S look for it (clause 6.1)."""
    for finding in workspace.findings(code):
        companion = workspace.tensor(finding)
        name = companion.name.removesuffix("_scale")
        parent = workspace.file.tensors.get(name)
        if parent is None or parent.type is not I2_S:
            yield Declined(code, finding.span, f"there is no I2_S tensor {quote(name)} that the scale could belong to")
        elif companion.number != 0 or companion.elements != 1:
            yield Declined(code, finding.span, "it is not one float32")
        elif max(parent.span.stop, companion.span.stop) > workspace.source.size:
            yield Declined(code, finding.span, "the file ends before the data of both")
        else:
            edits = [workspace.without_tensor(companion.info)]
            stated = "the tail has a scale already"
            scale, tail = companion.read(), parent.tail_span
            if scale != parent.tail[:4]:
                path = f"{tail.path}.scale"
                edits.append(Edit(tail._replace(stop=tail.start + 4, path=path), scale))
                stated = f"its value becomes the scale of {quote(name)}"
            does = f"tensor {quote(companion.raw_name)} is removed from the table: {stated}"
            yield Action(code, finding.span, does, tuple(edits), safe=False)


@repair("I111", Fix.UNSAFE, "I2_S tensors of old type numbers get number 36, with --dialect", weights=True,
        option=f"--dialect {_OLD_DIALECT}")  # fmt: skip
def present_number(workspace: Workspace, code: str) -> Iterator[Outcome]:
    """The codes were different at that time, so number and codes are changed together (clause 2.6)."""
    for finding in workspace.findings(code):
        if workspace.extra.dialect is None:
            why = f"its codes are different, too: say with --dialect how they are packed (mostly {_OLD_DIALECT})"
            yield Declined(code, finding.span, why)
            continue
        name = workspace.subject.name(number_of(finding.span))
        edit = Edit(finding.span, struct.pack(workspace.prefix + "I", I2_S.number))
        yield Action(code, finding.span, f"tensor {quote(name)} gets type {I2_S.number}", (edit,), safe=False)
