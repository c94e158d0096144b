"""What a survey says of the payloads of a file: codes, runs, scales, tails, and what is infinite or NaN.

`Survey` is the result for a file, `TensorSurvey` for one tensor, `Reading` how much is read, and `leftovers` what tails
tell. The bytes are read in `survey_reader`.
"""

from __future__ import annotations

from array import array
from collections.abc import Callable, Iterable, Iterator, MutableSequence, Sequence
from heapq import merge
from itertools import chain, islice
from operator import itemgetter
from typing import TYPE_CHECKING, Any, Final, Literal, NamedTuple, overload

from i2s_spec.codec.buffers import numbers
from i2s_spec.codec.observation import Groups, PayloadObservation, TailKind
from i2s_spec.errors import Span
from i2s_spec.schema.types import SCALE_BYTES, TAIL_BYTES

if TYPE_CHECKING:
    from i2s_spec.codec._survey import Parts
    from i2s_spec.gguf.reader import File

_Columns = tuple[MutableSequence[int], MutableSequence[int], MutableSequence[int]]


class Surveyed:
    """The numbers behind a `Survey`, in little memory: the merged parts of each tensor."""

    def __init__(self, file: File, parts: Parts) -> None:
        self.file = file
        self.parts = parts
        #: Tensors that were left out of a sample, which a server would give one by one: with I2_S, and others.
        self.left_out = 0, 0
        #: For each tensor its row, the first of its parts, and how many bytes it has without a tail.
        self.i2s: _Columns = array("q"), array("q"), array("q")
        self.others: _Columns = array("q"), array("q"), array("q")

    def observed(self, number: int) -> PayloadObservation:
        """Return the observation of a tensor, by the number of its first part."""
        return tuple.__new__(PayloadObservation, self.parts.found(number))

    def start(self, number: int) -> int:
        """Where a tensor begins in the file, by the number of its first part, which need not be its beginning."""
        at, position, _ = self.parts.where(number)
        begin: int = at - position
        return begin

    def scale(self, tail: bytes) -> float:
        """Return the scale that a tail begins with."""
        scale: float = numbers("f", tail[:SCALE_BYTES], self.file.byte_order)[0]
        return scale

    def groups(self, number: int) -> Groups | None:
        """Return the observation of the groups of a tensor, by the number of its first part."""
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
        """Return the fingerprint of one payload, None where it was not read whole, and its size; nothing else is
        worked out.
        """
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
        """Return the row in the tensor table of the tensor at a place."""
        return self._of.i2s[0][place]

    def tail(self, place: int) -> bytes:
        """Return the tail of the tensor at a place."""
        return self._of.parts.tail(self._of.i2s[1][place])

    def scale(self, place: int) -> float:
        """Return the scale of the tensor at a place."""
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
        """Yield the places of tensors whose counts are not plain, which hold a code 3, or have a run of `run` bytes or one
        that reaches from the first byte to the last."""
        for place, number in enumerate(self._of.i2s[1]):
            found = self._of.observed(number)
            last = found.last
            ends = found.last_value >= 0 and (last == 0 or self._of.i2s[2][place] - last >= run)
            if found.first_unused >= 0 or found.run >= run or ends or not plain(found.counts):
                yield place

    def anomalous_others(self, run: int) -> Iterator[int]:
        """Yield the places of the others that have a value or a scale that is not finite, or a run of `run` bytes."""
        for place, number in enumerate(self._of.others[1]):
            found = self._of.observed(number)
            if found.non_finite or found.run >= run:
                yield place

    def others_of(self, number: int) -> Iterator[int]:
        """Yield the places of the others whose type has a number, whatever it means there."""
        tensor = self._of.file.index.tensor
        return (place for place, row in enumerate(self._of.others[0]) if tensor(row).type == number)

    def anomalous_groups(self, plain: Callable[[Groups], bool]) -> Iterator[int]:
        """Yield the places of the others with a scale for each group whose observation is not plain."""
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
        from i2s_spec.codec.observation import classify

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


# --- tensor survey ---------------------------------------------------------------------------------------------------
# Few of these are asked for: of most tensors, counts and a scale are enough.


class ByteRun(NamedTuple):
    """Bytes of one value in a row: where in the payload they begin, how many they are, and which value."""

    start: int
    length: int
    value: int

    @property
    def stop(self) -> int:
        """The first byte after."""
        return self.start + self.length


class TensorSurvey(NamedTuple):
    """What was seen in one I2_S tensor.

    Offsets count from the first byte of the payload. Not read are the bytes that a sample leaves out and the holes of a
    sparse file. `counts`, `first_unused` and the runs are about the `read` bytes only; where those are not the whole
    payload, `complete` is False.
    """

    #: Place in the tensor table, name, and ggml's shape.
    row: int
    name: bytes
    ne: tuple[int, ...]
    #: First byte of the payload in the file, and how many bytes it has: a quarter of the elements.
    start: int
    payload_bytes: int
    #: How many bytes of payload were read, and whether that is all of them.
    read: int
    complete: bool
    #: How often each of the codes 0 to 3 occurs.
    counts: tuple[int, int, int, int]
    #: The first byte that holds a code 3, or None.
    first_unused: int | None
    #: The longest run of one byte, the first of equals; None where none has `codec.observation.LEAST_RUN` bytes.
    longest_run: ByteRun | None
    #: The run that ends the payload; None where its last byte was not read, or there is none.
    last_run: ByteRun | None
    #: A fingerprint of the payload: equal payloads have equal ones, and different ones hardly ever do unless made so.
    #: None if it was not read whole.
    digest: int | None
    #: The float32 at the start of the tail, in the byte order of the file.
    scale: float
    #: All 32 bytes, and what the 28 after the scale hold.
    tail: bytes
    tail_class: TailKind

    @property
    def shares(self) -> tuple[float, float, float, float]:
        """The counts as parts of one; zeros where nothing was seen."""
        seen = max(1, sum(self.counts))
        zero, one, two, three = (count / seen for count in self.counts)
        return zero, one, two, three

    @property
    def constant(self) -> int | None:
        """The value of every byte of the payload, where all are the same and were read; else None."""
        run = self.last_run
        return run.value if self.complete and run is not None and run.start == 0 else None

    def span(self, start: int, stop: int) -> Span:
        """Bytes of the payload as a span of the file."""
        return Span(self.start + start, self.start + stop, f"data[{self.row}]")

    @property
    def scale_span(self) -> Span:
        """The four bytes of the scale."""
        at = self.start + self.payload_bytes
        return Span(at, at + 4, f"data[{self.row}].tail.scale")

    @property
    def unused_span(self) -> Span:
        """The 28 bytes after the scale."""
        at = self.start + self.payload_bytes
        return Span(at + 4, at + TAIL_BYTES, f"data[{self.row}].tail.unused")


class OtherSurvey(NamedTuple):
    """What was seen in one tensor of another type; offsets count from its first byte."""

    row: int
    name: bytes
    ne: tuple[int, ...]
    #: Name of the type.
    type: str
    start: int
    nbytes: int
    read: int
    complete: bool
    longest_run: ByteRun | None
    last_run: ByteRun | None
    digest: int | None
    #: How many values of F16, BF16, F32 and F64, or scales of a quantized type that is not ternary, are infinite or NaN, and
    #: where the first of them is.
    non_finite: int
    first_non_finite: int | None
    #: Bytes of one value of these types, else 1.
    width: int
    #: What is in its groups, where each has a scale.
    groups: Groups | None = None

    def span(self, start: int, stop: int) -> Span:
        """Bytes of the tensor as a span of the file."""
        return Span(self.start + start, self.start + stop, f"data[{self.row}]")


def last_run(seen: PayloadObservation, size: int) -> ByteRun | None:
    """Return the run that ends a payload of `size` bytes."""
    return ByteRun(seen.last, size - seen.last, seen.last_value) if seen.last_value >= 0 else None


def longest_run(seen: PayloadObservation) -> ByteRun | None:
    """Return the longest run of a payload."""
    return ByteRun(seen.run_at, seen.run, seen.run_value) if seen.run > 0 else None


# --- reading ---------------------------------------------------------------------------------------------------------
# How much of the payloads of a file is read.

Mode = Literal["full", "sample", "none"]

#: Windows that a sample takes of a tensor.
WINDOWS: Final = 16


class Reading(NamedTuple):
    """How much of the payloads is read, and by how many threads; `progress` is called with (bytes read, bytes in all).

    `full` reads everything, `sample` a bounded part of each tensor: its beginning, its end, and windows spread evenly
    between, so many in all; `none` nothing at all.
    """

    mode: Mode = "full"
    threads: int = 1
    progress: Callable[[int, int], None] | None = None
    windows: int = WINDOWS


# --- leftovers -------------------------------------------------------------------------------------------------------
# The origin of the 28 bytes after a scale: zeros, copies of the scale, bytes of an earlier tensor, or unknown.
#
# llama-quantize makes its tensors in one buffer, in the order of the table, and writes n/4 + 4 bytes of it. What it
# copies out after those is what the last larger tensor left at the same place of the buffer (clause 6.1). Where the
# tails of a file are such bytes, a C quantizer with a reused buffer has written it: nothing else explains 224 equal
# bits. Where they are zeros although an earlier, larger tensor must have left something, it has not.

#: Tensors of a survey that `stale_tails` traces, the first ones; no real file has as many.
TRACED: Final = 4096
#: F32 tensors are copied from file to file, past the buffer.
_F32: Final = 0


class Leftovers(NamedTuple):
    """Places in a survey by what is after the scale; what is in none of the first three has zeros there."""

    #: Seven more copies of the scale.
    replicated: MutableSequence[int]
    #: 28 bytes that an earlier, larger tensor has at the same place; and the rows of those tensors.
    known: MutableSequence[int]
    known_of: MutableSequence[int]
    #: Other bytes.
    unknown: MutableSequence[int]


def leftovers(file: File, survey: Survey, places: Iterable[int] | None = None) -> Leftovers:
    """Examine the 28 bytes after the scales of the tensors of a survey, or of those at some places."""
    wanted = bytearray(b"\x01" if places is None else b"\x00") * len(survey)
    for one in places or ():
        wanted[one] = 1
    found = Leftovers(*(array("q") for _ in range(4)))
    larger: list[tuple[int, int, int]] = []  # size, row, start: each earlier tensor of which the buffer holds an end
    for row, start, size, place in survey.extents():
        while larger and larger[-1][0] <= size:
            larger.pop()
        tail = survey.tail(place) if place is not None and wanted[place] else b""
        if place is not None and tail[SCALE_BYTES:].strip(b"\0"):
            if tail == tail[:SCALE_BYTES] * (TAIL_BYTES // SCALE_BYTES):
                found.replicated.append(place)
            elif larger and _holds(file, larger[-1][2] + size - TAIL_BYTES + SCALE_BYTES, tail[SCALE_BYTES:]):
                found.known.append(place)
                found.known_of.append(larger[-1][1])
            else:
                found.unknown.append(place)
        if file.index.tensor(row).type != _F32:
            larger.append((size, row, start))
    return found


def _holds(file: File, at: int, data: bytes) -> bool:
    return file.source.read(at, len(data)) == data


class Leftover(NamedTuple):
    """A tail whose unused bytes are bytes of an earlier tensor: both names, and where those bytes lie in that tensor."""

    name: bytes
    source: bytes
    start: int
    stop: int
    span: Span


class StaleTails(NamedTuple):
    """How many tails hold leftovers, the first whose bytes an earlier tensor has and how many such there are, and how many
    tails are zero although leftovers were due."""

    traced: int
    first: Leftover | None
    found: int
    spared: int


def stale_tails(file: File, survey: Survey | None) -> StaleTails:
    """Return the leftovers of a survey, with an example; none of a file that was not surveyed."""
    if survey is None or not len(survey):
        return StaleTails(0, None, 0, 0)
    places = range(min(len(survey), TRACED))
    traced = leftovers(file, survey, places)
    first = None
    if traced.known:
        tensor = survey[traced.known[0]]
        at = tensor.payload_bytes + 4
        source = file.index.tensor(traced.known_of[0]).name
        first = Leftover(tensor.name, source, at, at + TAIL_BYTES - 4, tensor.unused_span)
    stale = {*traced.known, *traced.unknown, *traced.replicated}
    return StaleTails(
        len(traced.known) + len(traced.unknown), first, len(traced.known), _spared(file, survey, stale)
    )  # fmt: skip


def _spared(file: File, survey: Survey, stale: set[int]) -> int:
    """How many tails are zero although a larger tensor went through the buffer before."""
    spared = largest = 0
    for row, _, size, place in islice(survey.extents(), 2 * TRACED):
        if place is not None and place not in stale and size < largest:
            spared += 1
        if file.index.tensor(row).type != _F32:
            largest = max(largest, size)
    return spared
