"""This module defines what a survey says of one tensor. Few are asked for: of most, counts and a scale are enough."""

from __future__ import annotations

from typing import NamedTuple

from i2s_spec.codec.payload_facts import Groups, PayloadObservation
from i2s_spec.codec.tail import TailKind
from i2s_spec.errors import Span
from i2s_spec.schema.types import TAIL_BYTES


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
    #: A fingerprint of the payload: equal payloads have equal ones, and different ones hardly ever do unless somebody means
    #: them to. None where it was not read whole.
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

    @property
    def first_unused_element(self) -> int | None:
        """The flat element whose code is the first code 3 in the order of the bytes, in the canonical layout."""
        if self.first_unused is None:
            return None
        from i2s_spec.schema.i2s import elements_of

        return elements_of(self.first_unused)[0]

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
    #: For F16, BF16, F32 and F64: how many values are infinite or NaN, and where the first of them is.
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
    """The run that ends a payload of `size` bytes."""
    return ByteRun(seen.last, size - seen.last, seen.last_value) if seen.last_value >= 0 else None


def longest_run(seen: PayloadObservation) -> ByteRun | None:
    """The longest run of a payload."""
    return ByteRun(seen.run_at, seen.run, seen.run_value) if seen.run > 0 else None
