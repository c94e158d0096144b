"""This module notes tensors that cannot be compared with a reference, and why."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING, Final

from i2s_spec.errors import FormatError
from i2s_spec.schema import faults

if TYPE_CHECKING:
    from i2s_spec.gguf.reader import Tensor
    from i2s_spec.linter.analysis.subject import Subject

#: The error codes for a file that changes while it is read.
_GONE: Final = faults.GONE


class Readable:
    """How many bytes may still be compared: at most the file's size in all. Tensors that share bytes could ask for any
    number."""

    def __init__(self, subject: Subject) -> None:
        self._size = self._left = subject.file.size

    def take(self, tensor: Tensor) -> None:
        """Count the bytes of another tensor. A tensor that the file does not hold whole is found later, by reading.

        :raises ValueError: if the tensors together have more bytes than the file
        """
        if tensor.span.stop <= self._size:
            self._left -= tensor.span.stop - tensor.span.start
        if self._left < 0:
            raise ValueError("tensors of this file share bytes, and as many bytes as it has were compared already")


@contextmanager
def noted(subject: Subject, row: int, left: list[tuple[int, str]]) -> Iterator[None]:
    """Compare one tensor; if that is impossible, add its row and the reason to `left`.

    :raises FormatError: if the file changes meanwhile
    """
    try:
        yield
    except FormatError as error:
        if error.code in _GONE and subject.file.source.changed() is not None:
            raise
        left.append((row, f"one of the two files does not hold it ({error.code})"))
    except ValueError as error:
        left.append((row, str(error)))
