"""This module defines what a survey says of the payloads of a file: codes, runs, scales, tails, and which floats are
infinite or NaN. The bytes are read in `reader`, as `reading` says how much of them.
"""

from __future__ import annotations

from array import array
from collections.abc import Callable, Iterable, Iterator, MutableSequence, Sequence
from heapq import merge
from itertools import chain
from operator import itemgetter
from typing import TYPE_CHECKING, Any, overload

from i2s_spec.codec.buffers import numbers
from i2s_spec.codec.payload_facts import Groups, PayloadObservation
from i2s_spec.schema.types import SCALE_BYTES

if TYPE_CHECKING:
    from i2s_spec.codec._survey import Parts
    from i2s_spec.gguf.reader import File
    from i2s_spec.inspect.survey.reading import Mode
    from i2s_spec.inspect.survey.tensor_survey import OtherSurvey, TensorSurvey


_Columns = tuple[MutableSequence[int], MutableSequence[int], MutableSequence[int]]


class Surveyed:
    """The numbers after a `Survey`, kept small: what each tensor's parts were put together to."""

    def __init__(self, file: File, parts: Parts) -> None:
        self.file = file
        self.parts = parts
        #: Tensors that were left out of a sample, which a server would give one by one: with I2_S, and others.
        self.left_out = 0, 0
        #: For each tensor its row, the first of its parts, and how many bytes it has without a tail.
        self.i2s: _Columns = array("q"), array("q"), array("q")
        self.others: _Columns = array("q"), array("q"), array("q")

    def observed(self, number: int) -> PayloadObservation:
        """What was seen in a tensor, by the number of its first part."""
        return tuple.__new__(PayloadObservation, self.parts.found(number))

    def start(self, number: int) -> int:
        """Where a tensor begins in the file, by the number of its first part, which need not be its beginning."""
        at, position, _ = self.parts.where(number)
        begin: int = at - position
        return begin

    def scale(self, tail: bytes) -> float:
        """The scale that a tail begins with."""
        scale: float = numbers("f", tail[:SCALE_BYTES], self.file.byte_order)[0]
        return scale

    def groups(self, number: int) -> Groups | None:
        """What was seen in the groups of a tensor, by the number of its first part."""
        found = self.parts.groups(number)
        return None if found is None else tuple.__new__(Groups, found)


class Survey(Sequence["TensorSurvey"]):
    """The I2_S tensors of a file whose bytes all lie in it, in the order of the tensor table.

    What each holds is made when it is asked for: a file may have a hundred thousand of them. A tensor that is not here
    reaches beyond the end of the file, into the next tensor, or has a shape that no tensor can have; or it was left out of
    a sample (`is_selection`).
    """

    def __init__(self, mode: Mode, read: int, surveyed: Surveyed) -> None:
        #: How it was read: in full, or as a sample.
        self.mode = mode
        #: Bytes of payloads and tails that were read.
        self.read = read
        #: The tensors of other types, likewise.
        self.others: Sequence[OtherSurvey] = _Others(surveyed)
        self._of = surveyed

    @property
    def is_selection(self) -> bool:
        """Whether some tensors were left out of a sample, since a server would have given them one by one."""
        return any(self._of.left_out)

    @property
    def i2s_tensors(self) -> int:
        """How many I2_S tensors there are, those that were left out of a sample included."""
        return len(self) + self._of.left_out[0]

    @property
    def complete(self) -> bool:
        """Whether every tensor was read whole."""
        return (
            not self.is_selection
            and all(tensor.complete for tensor in self)
            and all(other.complete for other in self.others)
        )

    def digest(self, place: int) -> tuple[int | None, int]:
        """The fingerprint of one payload, None where it was not read whole, and its size; nothing else is worked out."""
        size = self._of.i2s[2][place]
        seen, digest = self._of.parts.fingerprint(self._of.i2s[1][place])
        return digest if seen == size else None, size

    def counts(self, place: int) -> tuple[int, int, int, int]:
        """How often each code was seen in the tensor at a place."""
        return self._of.parts.counts(self._of.i2s[1][place])

    def size(self, place: int) -> int:
        """Bytes of the payload of the tensor at a place."""
        return self._of.i2s[2][place]

    @property
    def rows(self) -> Iterable[int]:
        """The rows in the tensor table, by place."""
        return self._of.i2s[0]

    def row(self, place: int) -> int:
        """The row in the tensor table of the tensor at a place."""
        return self._of.i2s[0][place]

    def tail(self, place: int) -> bytes:
        """The tail of the tensor at a place."""
        return self._of.parts.tail(self._of.i2s[1][place])

    def scale(self, place: int) -> float:
        """The scale of the tensor at a place."""
        return self._of.scale(self.tail(place))

    def extents(self) -> Iterator[tuple[int, int, int, int | None]]:
        """Row, first byte in the file and size with the tail of every tensor, in the order of the table; and its place
        here, which tensors of other types do not have."""
        start, tails = self._of.start, self._of.parts.tail_bytes
        ours: Iterator[tuple[int, int, int, int | None]] = (
            (row, start(number), size + tails(number), place)
            for place, (row, number, size) in enumerate(zip(*self._of.i2s, strict=True))
        )
        theirs: Iterator[tuple[int, int, int, int | None]] = (
            (row, start(number), size, None) for row, number, size in zip(*self._of.others, strict=True)
        )
        if not self._of.i2s[0] or not self._of.others[0]:
            return chain(ours, theirs)
        return merge(ours, theirs, key=itemgetter(0))  # both are in the order of the table

    def anomalous(self, plain: Callable[[Sequence[int]], bool], run: int) -> Iterator[int]:
        """Places of the tensors whose counts are not plain, which hold a code 3, or which have a run of `run` bytes or
        one that reaches from the first byte to the last."""
        for place, number in enumerate(self._of.i2s[1]):
            found = self._of.observed(number)
            last = found.last
            ends = found.last_value >= 0 and (last == 0 or self._of.i2s[2][place] - last >= run)
            if found.first_unused >= 0 or found.run >= run or ends or not plain(found.counts):
                yield place

    def anomalous_others(self, run: int) -> Iterator[int]:
        """Places of the others that have a value that is not finite, or a run of `run` bytes."""
        for place, number in enumerate(self._of.others[1]):
            found = self._of.observed(number)
            if found.non_finite or found.run >= run:
                yield place

    def others_of(self, number: int) -> Iterator[int]:
        """Places of the others whose type has a number, whatever that means there."""
        tensor = self._of.file.index.tensor
        return (place for place, row in enumerate(self._of.others[0]) if tensor(row).type == number)

    def anomalous_groups(self, plain: Callable[[Groups], bool]) -> Iterator[int]:
        """Places of the others with a scale for each group, of which what was seen is not plain."""
        for place, number in enumerate(self._of.others[1]):
            found = self._of.groups(number)
            if found is not None and not plain(found):
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
        from i2s_spec.codec.tail import classify
        from i2s_spec.inspect.survey.tensor_survey import TensorSurvey, last_run, longest_run

        of = self._of
        row, number, size = (column[place] for column in of.i2s)
        seen, info, tail = of.observed(number), of.file.index.tensor(row), of.parts.tail(number)
        complete = seen.seen == size
        return TensorSurvey(
            row, info.name, info.ne, of.start(number), size, seen.seen, complete, seen.counts,
            None if seen.first_unused < 0 else seen.first_unused, longest_run(seen), last_run(seen, size),
            seen.digest if complete else None, of.scale(tail), tail, classify(tail),
        )  # fmt: skip

    def __iter__(self) -> Iterator[TensorSurvey]:
        return map(self.__getitem__, range(len(self)))


class _Others(Sequence["OtherSurvey"]):
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
        from i2s_spec.inspect.survey.tensor_survey import OtherSurvey, last_run, longest_run

        of = self._of
        row, number, size = (column[place] for column in of.others)
        seen, tensor = of.observed(number), of.file.tensors.by_index(row)
        complete, first = seen.seen == size, seen.first_non_finite
        assert tensor.type is not None
        return OtherSurvey(
            row, tensor.raw_name, tensor.ne, tensor.type.name, of.start(number), size, seen.seen, complete,
            longest_run(seen), last_run(seen, size), seen.digest if complete else None,
            seen.non_finite, None if first < 0 else first, of.parts.width(number), of.groups(number),
        )  # fmt: skip

    def __iter__(self) -> Iterator[OtherSurvey]:
        return map(self.__getitem__, range(len(self)))
