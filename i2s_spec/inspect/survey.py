"""This module says what is in the payloads of a file: codes, runs, scales, tails, and what floats are none.

`survey` reads every tensor once, in full or in part, and `Survey` holds what was seen, which `tensor_survey` says of each
of them; `surveying` does the reading.

    >>> from i2s_spec.gguf.reader import open
    >>> from i2s_spec.testing.sample import Draft
    >>> seen = survey(open(Draft().data))
    >>> seen[0].name, seen[0].counts, seen[0].scale, seen[0].tail_class
    (b'first.weight', (175, 221, 116, 0), 0.75, 'zero')
"""

from __future__ import annotations

import struct
from array import array
from collections.abc import Callable, Iterator, Sequence
from heapq import merge
from operator import itemgetter
from typing import TYPE_CHECKING, Any, overload

from i2s_spec.codec.tail import classify
from i2s_spec.inspect.reading import Mode, Reading
from i2s_spec.inspect.tensor_survey import OtherSurvey, Run, TensorSurvey

__all__ = ["Mode", "OtherSurvey", "Reading", "Run", "Survey", "TensorSurvey", "survey"]

if TYPE_CHECKING:
    from i2s_spec.codec._survey import Parts
    from i2s_spec.gguf.reader import File


class Surveyed:
    """The numbers behind a `Survey`, kept small: what each tensor's parts were put together to."""

    def __init__(self, file: File, parts: Parts) -> None:
        self.file = file
        self.parts = parts
        #: For each tensor its row, the first of its parts, and how many bytes it has without a tail.
        self.i2s = array("q"), array("q"), array("q")
        self.others = array("q"), array("q"), array("q")


class Survey(Sequence[TensorSurvey]):
    """The I2_S tensors of a file whose bytes all lie in it, in the order of the tensor table.

    What each holds is made when it is asked for: a file may have a hundred thousand of them. A tensor that is not here
    reaches beyond the end of the file, into the next tensor, or has a shape that no tensor can have.
    """

    def __init__(self, mode: Mode, read: int, surveyed: Surveyed) -> None:
        #: How it was read: in full, or as a sample.
        self.mode = mode
        #: Bytes of payloads and tails that were read.
        self.read = read
        #: The tensors of other types, likewise.
        self.others: Sequence[OtherSurvey] = _Others(surveyed)
        self._of = surveyed
        self._mark = "<f" if surveyed.file.byte_order == "little" else ">f"

    @property
    def complete(self) -> bool:
        """Whether every tensor was read whole."""
        return all(tensor.complete for tensor in self) and all(other.complete for other in self.others)

    def digest(self, place: int) -> tuple[int | None, int]:
        """The fingerprint of one payload, None where it was not read whole, and its size: with less ado than the rest."""
        size = self._of.i2s[2][place]
        found = self._of.parts.found(self._of.i2s[1][place])
        return found[8] if found[0] == size else None, size

    def counts(self, place: int) -> tuple[int, int, int, int]:
        """How often each code was seen in the tensor at a place."""
        counts: tuple[int, int, int, int] = self._of.parts.found(self._of.i2s[1][place])[1]
        return counts

    def size(self, place: int) -> int:
        """Bytes of the payload of the tensor at a place."""
        return self._of.i2s[2][place]

    def row(self, place: int) -> int:
        """The row in the tensor table of the tensor at a place."""
        return self._of.i2s[0][place]

    def tail(self, place: int) -> bytes:
        """The tail of the tensor at a place."""
        return self._of.parts.tail(self._of.i2s[1][place])

    def scale(self, place: int) -> float:
        """The scale of the tensor at a place."""
        scale: float = struct.unpack_from(self._mark, self.tail(place))[0]
        return scale

    def extents(self) -> Iterator[tuple[int, int, int, int | None]]:
        """Row, first byte in the file and size with the tail of every tensor, in the order of the table; and its place
        here, which tensors of other types do not have."""
        where, tails = self._of.parts.where, self._of.parts.tail_bytes
        ours: Iterator[tuple[int, int, int, int | None]] = (
            (row, where(number)[0], size + tails(number), place)
            for place, (row, number, size) in enumerate(zip(*self._of.i2s, strict=True))
        )
        theirs: Iterator[tuple[int, int, int, int | None]] = (
            (row, where(number)[0], size, None) for row, number, size in zip(*self._of.others, strict=True)
        )
        return merge(ours, theirs, key=itemgetter(0))

    def telling(self, plain: Callable[[Sequence[int]], bool], run: int) -> Iterator[int]:
        """Places of the tensors whose counts are not plain, which hold a code 3, or a run of so many bytes or of all theirs.

        Of the others, which are as they should be, there is nothing to tell.
        """
        found = self._of.parts.found
        for place, number in enumerate(self._of.i2s[1]):
            _, counts, unused, _, longest, _, last, last_value, _, _, _ = found(number)
            ends = last_value >= 0 and (last == 0 or self._of.i2s[2][place] - last >= run)
            if unused >= 0 or longest >= run or ends or not plain(counts):
                yield place

    def odd_others(self, run: int) -> Iterator[int]:
        """Places of the others that have a value that is not finite, or a run of so many bytes."""
        for place, number in enumerate(self._of.others[1]):
            found = self._of.parts.found(number)
            if found[9] or found[4] >= run:
                yield place

    def __len__(self) -> int:
        return len(self._of.i2s[0])

    @overload
    def __getitem__(self, place: int) -> TensorSurvey: ...
    @overload
    def __getitem__(self, place: slice) -> list[TensorSurvey]: ...
    def __getitem__(self, place: int | slice) -> TensorSurvey | list[TensorSurvey]:
        if isinstance(place, slice):
            return [self[i] for i in range(*place.indices(len(self)))]
        of = self._of
        row, number, size = (column[place] for column in of.i2s)
        read, counts, unused, run_at, run, value, last, last_value, digest, _, _ = of.parts.found(number)
        _, name, ne, _, _, _ = of.file.index.tensor(row)
        tail = of.parts.tail(number)
        return TensorSurvey(
            row, name, ne, of.parts.where(number)[0], size, read, read == size, counts,
            None if unused < 0 else unused, _run(run_at, run, value), _last(last, size, last_value),
            digest if read == size else None, struct.unpack_from(self._mark, tail)[0], tail, classify(tail),
        )  # fmt: skip

    def __iter__(self) -> Iterator[TensorSurvey]:
        return map(self.__getitem__, range(len(self)))


class _Others(Sequence[OtherSurvey]):
    def __init__(self, surveyed: Surveyed) -> None:
        self._of = surveyed

    def __len__(self) -> int:
        return len(self._of.others[0])

    @overload
    def __getitem__(self, place: int) -> OtherSurvey: ...
    @overload
    def __getitem__(self, place: slice) -> list[OtherSurvey]: ...
    def __getitem__(self, place: Any) -> Any:
        if isinstance(place, slice):
            return [self[i] for i in range(*place.indices(len(self)))]
        of = self._of
        row, number, size = (column[place] for column in of.others)
        read, _, _, run_at, run, value, last, last_value, digest, odd, first_odd = of.parts.found(number)
        tensor = of.file.tensors.row(row)
        kind = tensor.type
        assert kind is not None
        return OtherSurvey(
            row, tensor.raw_name, tensor.ne, kind.name, of.parts.where(number)[0], size, read, read == size,
            _run(run_at, run, value), _last(last, size, last_value),
            digest if read == size else None, odd, None if first_odd < 0 else first_odd, of.parts.width(number),
        )  # fmt: skip

    def __iter__(self) -> Iterator[OtherSurvey]:
        return map(self.__getitem__, range(len(self)))


def _last(start: int, size: int, value: int) -> Run | None:
    return Run(start, size - start, value) if value >= 0 else None


def _run(start: int, length: int, value: int) -> Run | None:
    return Run(start, length, value) if length > 0 else None


def survey(file: File, reading: Reading | None = None) -> Survey | None:
    """Read every tensor of a file once, and say what is there.

    Memory is a few hundred kilobytes for each thread and some hundred bytes for each tensor, whatever their size.

    :param reading: how; in full by one thread where nothing is said
    :returns: None where `reading.mode` is `none`, or where the header does not say where the data section is
    :raises ValueError: for an unknown mode, or fewer than one thread
    :raises FormatError: S903 where the file shrinks meanwhile, S901 where it cannot be read
    """
    from i2s_spec.inspect.surveying import Surveying

    with Surveying(file, reading or Reading()) as surveying:
        return surveying.result()
