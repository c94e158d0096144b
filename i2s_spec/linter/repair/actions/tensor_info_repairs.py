"""This module repairs tensor infos: names that loaders cannot use, duplicate names, empty shapes, old type numbers."""

from __future__ import annotations

import struct
from collections.abc import Iterator

from i2s_spec.convert.container.edits import Edit
from i2s_spec.errors import counted, quote
from i2s_spec.gguf.header_index import TensorInfo
from i2s_spec.gguf.reader import Tensor
from i2s_spec.linter.repair.registry import Action, Declined, Outcome, repair
from i2s_spec.linter.repair.workspace import Workspace, number_of
from i2s_spec.linter.rule import Finding, Fix
from i2s_spec.schema import limits
from i2s_spec.schema.checks import TENSOR_COUNT_SPAN
from i2s_spec.schema.types import I2_S

#: How most tensors of the old type numbers are packed.
_OLD_DIALECT = "sequential-msb/twos-complement"


def _without(workspace: Workspace, finding: Finding, info: TensorInfo, why: str) -> Action:
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
def keep_first_tensor(workspace: Workspace) -> Iterator[Outcome]:
    """A name can be looked up once (clause 2.6)."""
    twice = {workspace.tensor(finding).raw_name: finding for finding in workspace.findings("G303")}
    met: set[bytes] = set()
    for i, name in workspace.subject.tensor_names() if twice else ():
        if name in twice and name in met:
            info = workspace.file.index.tensor(i)
            yield _without(workspace, twice[name], info, "the first one of that name is kept")
        met.add(name)


@repair("G304", Fix.UNSAFE, "tensors without a name are removed", weights=True)
def drop_nameless(workspace: Workspace) -> Iterator[Outcome]:
    """No loader can look them up (clause 2.6)."""
    for finding in workspace.findings("G304"):
        yield _without(workspace, finding, workspace.info(finding), "nothing can look it up")


@repair("G310", Fix.UNSAFE, "tensors without elements are removed", weights=True)
def drop_empty(workspace: Workspace) -> Iterator[Outcome]:
    """They hold nothing, and loaders abort on them (clause 2.6)."""
    for finding in workspace.findings("G310"):
        yield _without(workspace, finding, workspace.info(finding), "it has no elements")


@repair("G320", Fix.UNSAFE, "tensor infos that follow the last one are counted", weights=True)
def count_all(workspace: Workspace) -> Iterator[Outcome]:
    """The bytes after the last info that the header counts are more tensor infos (clause 2.6)."""
    for finding in workspace.findings("G320"):
        edit = Edit(TENSOR_COUNT_SPAN, finding.want.to_bytes(8, workspace.file.byte_order))
        yield Action("G320", finding.span, f"the header counts {counted(finding.want, 'tensor')}", (edit,), safe=False)


@repair("G302", Fix.UNSAFE, "names are cut to 63 bytes", weights=True)
def cut_name(workspace: Workspace) -> Iterator[Outcome]:
    """As the loaders of the BitNet lineage do in memory (clause 2.6)."""
    for finding in workspace.findings("G302") if workspace.whole else ():
        tensor = workspace.tensor(finding)
        remaining = tensor.raw_name[: limits.TENSOR_NAME_BYTES]
        if _is_text(tensor.raw_name):
            remaining = remaining.decode("utf-8", "ignore").encode()
        yield _renamed(workspace, finding, tensor, remaining)


@repair("G305", Fix.UNSAFE, "unprintable characters are removed from names", weights=True)
def printable_name(workspace: Workspace) -> Iterator[Outcome]:
    """What is left is what a person sees (clause 2.6)."""
    for finding in workspace.findings("G305"):
        tensor = workspace.tensor(finding)
        remaining = "".join(char for char in tensor.raw_name.decode("utf-8") if char.isprintable())
        yield _renamed(workspace, finding, tensor, remaining.encode())


@repair("G306", Fix.UNSAFE, "bytes that are not UTF-8 are removed from names", weights=True)
def text_name(workspace: Workspace) -> Iterator[Outcome]:
    """What is left is text (clause 2.6)."""
    for finding in workspace.findings("G306"):
        tensor = workspace.tensor(finding)
        yield _renamed(workspace, finding, tensor, tensor.raw_name.decode("utf-8", "ignore").encode())


@repair("G309", Fix.UNSAFE, "tensors without dimensions get one dimension of 1", weights=True)
def one_dimension(workspace: Workspace) -> Iterator[Outcome]:
    """A tensor without dimensions is a single number, and so is one of shape 1 (clause 2.6)."""
    for finding in workspace.findings("G309"):
        edit = Edit(finding.span, struct.pack(workspace.prefix + "IQ", 1, 1))
        does = f"tensor {quote(workspace.tensor(finding).raw_name)} gets one dimension of 1"
        yield Action("G309", finding.span, does, (edit,), safe=False)


@repair("G319", Fix.UNSAFE, "a listed scale goes into the tail of its I2_S tensor", weights=True)
def scale_into_tail(workspace: Workspace) -> Iterator[Outcome]:
    """The tail is where readers of I2_S look for it (clause 6.1)."""
    for finding in workspace.findings("G319"):
        companion = workspace.tensor(finding)
        name = companion.name.removesuffix("_scale")
        parent = workspace.file.tensors.get(name)
        if parent is None or parent.type is not I2_S:
            yield Declined(
                "G319", finding.span, f"there is no I2_S tensor {quote(name)} that the scale could belong to"
            )
        elif companion.number != 0 or companion.elements != 1:
            yield Declined("G319", finding.span, "it is not one float32")
        elif max(parent.span.stop, companion.span.stop) > workspace.source.size:
            yield Declined("G319", finding.span, "the file ends before the data of both")
        else:
            edits = [workspace.without_tensor(companion.info)]
            stated = "the tail has a scale already"
            scale, tail = companion.read(), parent.tail_span
            if scale != parent.tail[:4]:
                path = f"{tail.path}.scale"
                edits.append(Edit(tail._replace(stop=tail.start + 4, path=path), scale))
                stated = f"its value becomes the scale of {quote(name)}"
            does = f"tensor {quote(companion.raw_name)} is removed from the table: {stated}"
            yield Action("G319", finding.span, does, tuple(edits), safe=False)


@repair("I111", Fix.UNSAFE, "I2_S tensors of old type numbers get number 36, with --dialect", weights=True,
        option=f"--dialect {_OLD_DIALECT}")  # fmt: skip
def present_number(workspace: Workspace) -> Iterator[Outcome]:
    """The codes were different at that time, so number and codes are changed together (clause 2.6)."""
    for finding in workspace.findings("I111"):
        if workspace.extra.dialect is None:
            why = f"its codes are different, too: say with --dialect how they are packed (mostly {_OLD_DIALECT})"
            yield Declined("I111", finding.span, why)
            continue
        name = workspace.subject.name(number_of(finding.span))
        edit = Edit(finding.span, struct.pack(workspace.prefix + "I", I2_S.number))
        yield Action("I111", finding.span, f"tensor {quote(name)} gets type {I2_S.number}", (edit,), safe=False)


def _is_text(name: bytes) -> bool:
    try:
        name.decode("utf-8")
    except UnicodeDecodeError:
        return False
    return True
