"""This module finds the tensors of a file that have the same shape as another one: two of them may have been swapped."""

from __future__ import annotations

from typing import TYPE_CHECKING

from i2s_spec.linter.analysis.subject import Subject, analysis

if TYPE_CHECKING:
    from collections.abc import Iterator

    from i2s_spec.gguf.reader import Tensor


@analysis
def rows_by_shape(subject: Subject) -> dict[tuple[int, tuple[int, ...]], list[int]]:
    """The row numbers of tensors, by type number and dimensions; a file may hold very many of each."""
    found: dict[tuple[int, tuple[int, ...]], list[int]] = {}
    for row, tensor in enumerate(subject.file.tensors.rows):
        found.setdefault((tensor.number, tensor.ne), []).append(row)
    return found


def alike(subject: Subject, tensor: Tensor) -> Iterator[Tensor]:
    """The other tensors that have the same type and shape."""
    for row in rows_by_shape(subject).get((tensor.number, tensor.ne), ()):
        other = subject.file.tensors.by_index(row)
        if other.name != tensor.name and other.type == tensor.type:
            yield other
