"""The survey of payloads in NumPy, where `pyx/_survey.pyx` is not compiled (`_cpu`).

A list of parts of payloads, which threads take from it. What is found in a part is what `reference.observe` and
`blocks.observe_groups` find in its bytes; `Parts.join` adds up what was found in neighbors.
"""

from __future__ import annotations

import os
from functools import cache
from threading import Lock
from typing import TYPE_CHECKING, Any, Final

from i2s_spec.codec._cpu import read_at
from i2s_spec.codec.observation import BLOCK, KINDS, LEAST_RUN, OCTAVES, TILE, Groups, PayloadObservation, ScalePlaces
from i2s_spec.codec.portable import portable_needs, portable_sets

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

    from i2s_spec.schema.blocks import BlockLayout

__all__ = ["BLOCK", "LEAST_RUN", "TILE", "Buffer", "Parts", "kernel_needs", "kernel_sets"]

_TAIL: Final = 32
_FAR: Final = 1 << 61
_END: Final = 1 << 64
#: The types with a scale for each group, in the order of their numbers.
_TYPES: Final = {number: name for name, number in reversed(KINDS.items())}
_NOTHING: Final = Groups(0, -1, 0, 0, -1, 0, -1, 0, -1, 0, -1, ())

kernel_sets, kernel_needs = portable_sets, portable_needs


class Buffer:
    """A read buffer for one thread at a time, of `room` bytes."""

    def __init__(self, room: int, turns: int = 0) -> None:
        if not (0 < room <= 1 << 26 and 0 <= turns <= 16):
            raise ValueError("no such buffer")
        if room % BLOCK:
            raise ValueError("the buffer must be whole blocks")
        self.room = room


class _Group:
    """A group that is cut: the bytes of its scale that were seen, and whether a code was that is not the one of 0."""

    def __init__(self, width: int) -> None:
        self.scale, self.some = bytearray(width), False

    def add(self, other: _Group) -> None:
        """Add what was seen of other bytes of the group."""
        self.scale = bytearray(a | b for a, b in zip(self.scale, other.scale, strict=True))
        self.some = self.some or other.some


class _GroupSurvey:
    """What is seen in the groups of a part: `head` is a group that began before it, `tail` one that goes on behind it."""

    def __init__(self, kind: int, unit: int, swap: bool, octaves: bool) -> None:
        from i2s_spec.schema.blocks import block_layout

        self.kind, self.unit, self.swap, self.octaves = kind, unit, swap, octaves
        self.layout = block_layout(_TYPES[kind])
        self.begin()

    def begin(self) -> None:
        """Forget what was seen."""
        self.found = _NOTHING._replace(octaves=(0,) * OCTAVES)
        self.head, self.tail = _Group(self.layout.scale.nbytes), _Group(self.layout.scale.nbytes)

    def feed(self, raw: NDArray[np.uint8], pos: int, start: int) -> None:
        """Look at bytes from `pos` on, of a part that begins at `start`."""
        import numpy as np

        front, odd_by, some_by = self.layout.type.row_bytes, *_tables(self.layout)
        column = np.arange(pos, pos + raw.size) % self.unit
        byte = np.where(column < front, self.layout.nbytes, (column - front) % self.layout.nbytes)
        odd, some = odd_by[byte, raw], some_by[byte, raw]
        if odd.any():
            first = self.found.first_odd if self.found.odd else pos + int((odd > 0).argmax())
            self.found = self.found._replace(odd=self.found.odd + int(odd.sum()), first_odd=first)
        number, at = divmod(pos, self.unit)
        if at:
            ours, here = number * self.unit >= start, min(self.unit - at, raw.size)
            self._look(self.tail if ours else self.head, raw[:here], bool(some[:here].any()), at)
            if ours and at + here == self.unit:
                self._close(number)
            raw, some, number = raw[here:], some[here:], number + 1
        whole, offset = raw.size // self.unit, self.layout.scale.offset
        size = whole * self.unit
        if whole:
            groups = raw[:size].reshape(whole, self.unit)[:, offset : offset + self.layout.scale.nbytes]
            seen: NDArray[np.bool_] = np.asarray(some[:size].reshape(whole, self.unit).any(axis=1))
            self._scales(np.ascontiguousarray(groups), seen, number)
        if raw.size > size:
            self._look(self.tail, raw[size:], bool(some[size:].any()), 0)

    def _look(self, group: _Group, raw: NDArray[np.uint8], some: bool, at: int) -> None:
        """Look at some bytes of a group, from its byte `at` on."""
        group.some = group.some or some
        for k in range(len(group.scale)):
            if 0 <= (place := self.layout.scale.offset + k - at) < raw.size:
                group.scale[k] = raw[place]

    def _close(self, number: int) -> None:
        """Look at the scale of the group `tail`, all of which was seen."""
        import numpy as np

        self._scales(np.frombuffer(self.tail.scale, np.uint8)[None], np.array([self.tail.some]), number)
        self.tail = _Group(len(self.tail.scale))

    def _scales(self, scales: NDArray[np.uint8], some: NDArray[np.bool_], number: int) -> None:
        from i2s_spec.codec.blocks import observe_scales

        self._add(observe_scales(0, -1, scales, some, number, "big" if self.swap else "little"))

    def _add(self, new: Groups) -> None:
        """Add what is in other groups, which follow."""
        mine = self.found
        larger = new if new.largest > mine.largest else mine
        self.found = Groups(
            mine.odd + new.odd, mine.first_odd if mine.odd else new.first_odd, mine.scales + new.scales,
            mine.infinite + new.infinite, mine.first_infinite if mine.infinite else new.first_infinite,
            mine.negative + new.negative, mine.first_negative if mine.negative else new.first_negative,
            mine.lost + new.lost, mine.first_lost if mine.lost else new.first_lost,
            larger.largest, larger.first_largest,
            tuple(a + b for a, b in zip(mine.octaves, new.octaves, strict=True)),
        )  # fmt: skip

    def join(self, other: _GroupSurvey, start: int, pos: int, stop: int, meet: bool) -> None:
        """Add what was seen in the next part, from `pos` to `stop`; groups that are cut are joined where both `meet`."""
        number, cut = pos // self.unit, bool(pos % self.unit)
        ours = number * self.unit >= start
        if cut and not meet:
            self.tail = _Group(len(self.tail.scale))
        elif cut:
            (self.tail if ours else self.head).add(other.head)
            if ours and (number + 1) * self.unit <= stop:
                self._close(number)
        if stop > (number + cut) * self.unit:
            self.tail = other.tail
        self._add(other.found)


@cache
def _tables(layout: BlockLayout) -> tuple[NDArray[np.uint8], NDArray[np.bool_]]:
    """For each byte of a block, and one in front of blocks, and every value: how many odd codes it has, and whether it has
    one that is not that of 0."""
    import numpy as np

    from i2s_spec.codec.blocks import tables_of_bytes

    odd, some = tables_of_bytes(layout, layout.block)
    front, none = layout.type.row_bytes, np.zeros((1, 256))
    return np.concatenate([odd[front:], none]).astype(np.uint8), np.concatenate([some[front:], none]).astype(bool)


class _Part:
    """What to read, and what was found: an observation, the length and the value of the first run, groups, the tail."""

    def __init__(
        self, at: int, pos: int, size: int, tail_bytes: int, width: int, mask: int, scales: ScalePlaces | None
    ) -> None:
        self.at, self.pos, self.size, self.tail_bytes = at, pos, size, tail_bytes
        self.width, self.mask, self.scales = width, mask, scales
        self.groups: _GroupSurvey | None = None
        self.begin()

    def begin(self) -> None:
        """Forget what was found."""
        self.found = PayloadObservation(0, (0, 0, 0, 0), -1, -1, 0, 0, self.pos, -1, 0, 0, -1)
        self.head = self.head_value = 0
        self.tail = bytearray(_TAIL)
        if self.groups is not None:
            self.groups.begin()

    def feed(self, data: memoryview) -> None:
        """Look at the next bytes: whole blocks, except at the end."""
        import numpy as np

        from i2s_spec.codec.reference import observe

        pos, raw = self.pos + self.found.seen, np.frombuffer(data, dtype=np.uint8)
        if self.groups is not None:
            self.groups.feed(raw, pos, self.pos)
        new, other = observe(raw, pos, self.width, self.mask, self.scales), raw != raw[0]
        head, value = int(other.argmax()) if other.any() else raw.size, int(raw[0])
        if not self.found.seen:
            self.head, self.head_value, self.found = head, value, new
            return
        if self.head == self.found.seen and value == self.head_value:
            self.head += head
        self._add(new, pos, head, value, head == new.seen)

    def _add(self, new: PayloadObservation, pos: int, head: int, value: int, same: bool) -> None:
        """Add what was found in the bytes at `pos`, which begin with a run of `head` bytes, or are that (`same`)."""
        mine, last = self.found, new.last
        runs = [(mine.run, mine.run_at, mine.run_value)]
        if mine.last_value == value:
            runs.append((pos + head - mine.last, mine.last, value))
            last = mine.last if same else last
        runs.append((new.run, new.run_at, new.run_value))
        run, run_at, run_value = max(runs, key=lambda each: each[0] if each[0] >= LEAST_RUN else 0)
        counts = [a + b for a, b in zip(mine.counts, new.counts, strict=True)]
        self.found = PayloadObservation(
            mine.seen + new.seen, (counts[0], counts[1], counts[2], counts[3]),
            mine.first_unused if mine.first_unused >= 0 else new.first_unused, run_at, run, run_value, last,
            new.last_value, (mine.digest + new.digest) % _END, mine.non_finite + new.non_finite,
            mine.first_non_finite if mine.first_non_finite >= 0 else new.first_non_finite,
        )  # fmt: skip

    def join(self, other: _Part) -> None:
        """Add what was found in the part that follows."""
        meets, pos = self.found.last_value >= 0 and self.pos + self.size == other.pos, other.pos
        self.tail, self.tail_bytes = other.tail, other.tail_bytes
        if not other.size:
            return
        self.size = pos + other.size - self.pos
        if not other.found.seen:
            self.found = self.found._replace(last_value=-1)
            return
        if self.groups is not None and other.groups is not None:
            self.groups.join(other.groups, self.pos, pos, pos + other.found.seen, meets)
        value = other.head_value if meets else -2
        self._add(other.found, pos, other.head, value, other.head == other.size)


class Parts:
    """A list of parts; `of_file` or `of_memory` sets their source once, or `feed` passes the bytes of each.

    Threads may share a list: any number of them may be in `work` at a time.
    """

    def __init__(self, set: str) -> None:
        self._parts: list[_Part] = []
        self._fd, self._sparse, self._memory = -1, False, None  # type: int, bool, memoryview | None
        self._lock = Lock()
        self._stopped, self._next, self._workers = False, 0, 0
        #: Bytes that were read so far.
        self.done = 0
        #: The offset in the file at which a read returned nothing or failed, or -1.
        self.failed = -1

    def __len__(self) -> int:
        return len(self._parts)

    def _require_idle(self) -> None:
        if self._workers:
            raise RuntimeError("the parts are being read by another thread")

    def _part(self, number: int) -> _Part:
        if not 0 <= number < len(self._parts):
            raise IndexError(number)
        return self._parts[number]

    def add(
        self, at: int, pos: int, size: int, tail_bytes: int = 0, width: int = 0, mask: int = 0,
        scales: ScalePlaces | None = None,
    ) -> None:  # fmt: skip
        """Append a part: its offset in the file, its offset in the payload (a multiple of `BLOCK`), its size, and the
        bytes of the tail that follow it.

        :param width: 0 for codes, the bytes of a float whose exponent has the bits `mask`, or 1 for other types; those may
            have `scales`, with that `mask`
        """
        if not (0 <= at < _FAR and 0 <= pos < _FAR and 0 <= size < _FAR):
            raise ValueError("no such part")
        if pos % BLOCK or not 0 <= tail_bytes <= _TAIL or width not in (0, 1, 2, 4, 8):
            raise ValueError("no such part")
        self._require_idle()
        if self._memory is not None and at + size + tail_bytes > len(self._memory):
            raise ValueError("a part lies outside the buffer")
        if scales is not None and not _is_sound(ScalePlaces(*scales), width, tail_bytes):
            raise ValueError("no such scales")
        self._parts.append(_Part(at, pos, size, tail_bytes, width, mask, scales and ScalePlaces(*scales)))

    def add_pieces(
        self, at: int, size: int, step: int, tail_bytes: int = 0, width: int = 0, mask: int = 0,
        scales: ScalePlaces | None = None,
    ) -> int:  # fmt: skip
        """Append the parts of a payload, of `step` bytes each, with the tail after the last; return their number."""
        if not (0 < size < _FAR and 0 < step < _FAR):
            raise ValueError("no such part")
        for pos in range(0, size, step):
            behind = tail_bytes if size - pos <= step else 0
            self.add(at + pos, pos, min(step, size - pos), behind, width, mask, scales)
        return -(-size // step)

    def of_groups(self, kind: int, unit: int, swap: bool = False, octaves: bool = True) -> None:
        """Declare that the part added last has a scale for each group: its type as a number of `observation.KINDS`, the
        bytes of a group, whether scales are big-endian, and whether they are sorted by octave."""
        self._require_idle()
        if not (self._parts and kind in _TYPES and 0 < unit < _FAR):
            raise ValueError("no such groups")
        part = self._parts[-1]
        if part.groups is not None or part.width != 1 or part.tail_bytes:
            raise ValueError("not a part of groups")
        part.groups = _GroupSurvey(kind, unit, swap, octaves)

    def of_file(self, fd: int, sparse: bool = False) -> None:
        """Read parts from this descriptor; with `sparse`, parts in holes of the file are not read."""
        self._require_idle()
        self._fd, self._sparse = fd, sparse

    def of_memory(self, data: Any) -> None:
        """Read parts from this buffer."""
        self._require_idle()
        held = memoryview(data).cast("B")
        if any(part.at + part.size + part.tail_bytes > len(held) for part in self._parts):
            raise ValueError("a part lies outside the buffer")
        self._memory = held

    def release(self) -> None:
        """Release the buffer or the descriptor; the findings stay."""
        self._require_idle()
        self._memory, self._fd = None, -1

    def feed(self, number: int, data: Any, tail: Any) -> None:
        """Pass the bytes of one part: whole blocks except at the end, and the tail with the last bytes."""
        codes, behind, part = memoryview(data).cast("B"), bytes(tail), self._part(number)
        if len(behind) > part.tail_bytes:
            raise ValueError("too many bytes of a tail")
        if len(codes) and (part.found.seen % BLOCK or part.found.seen + len(codes) > part.size):
            raise ValueError("too many bytes, or some behind the last block")
        self._require_idle()
        if len(codes):
            part.feed(codes)
        part.tail[: len(behind)] = behind
        self.done += len(codes) + len(behind)
        self._next = len(self._parts)

    def work(self, room: int | Buffer, budget: int) -> bool:
        """Take parts and read them, until about `budget` bytes were read; return False once there is nothing more to take.

        :param room: how many bytes are read at a time, a multiple of `BLOCK`, or a `Buffer` for as many
        """
        return self._work(room if isinstance(room, Buffer) else Buffer(room), budget, True)

    def probe(self, buffer: Buffer) -> bool:
        """Read all remaining parts without examining them: the probe with which benchmarks are compared."""
        self._work(buffer, _FAR, False)
        return self.failed < 0

    def _work(self, buffer: Buffer, budget: int, examine: bool) -> bool:
        if self._fd < 0 and self._memory is None and self._next < len(self._parts):
            raise ValueError("nothing to read from")
        with self._lock:
            self._workers += 1
        try:
            while budget > 0:
                with self._lock:
                    number, self._next = self._next, min(self._next + 1, len(self._parts))
                if self._stopped or number >= len(self._parts):
                    return False
                self._read(self._parts[number], buffer.room, examine)
                budget -= self._parts[number].size + BLOCK
            return True
        finally:
            with self._lock:
                self._workers -= 1

    def _read(self, part: _Part, room: int, examine: bool) -> None:
        """Read a part, and look at it."""
        part.begin()
        at, end = 0, part.size + part.tail_bytes
        if self._sparse and _is_hole(self._fd, part.at, part.size):
            at = part.size  # without the tail
            with self._lock:
                self.done += at
        while at < end and not self._stopped:
            size = min(room, part.size - at) if at < part.size else end - at
            data = self._bytes(part.at + at, size)
            if len(data) < size:
                self.failed, self._stopped = part.at + at, True
                return
            if at >= part.size:
                part.tail[:size] = data
            elif examine:
                part.feed(data)
            at += size
            with self._lock:
                self.done += size

    def _bytes(self, at: int, size: int) -> memoryview:
        """Return bytes of the source; fewer where they could not be read."""
        if self._memory is not None:
            return self._memory[at : at + size]
        return memoryview(read_at(self._fd, at, size))

    def stop(self) -> None:
        """Ask every thread to stop."""
        self._stopped = True

    def again(self) -> None:
        """Make all parts available again."""
        self._require_idle()
        self._next, self.done, self.failed, self._stopped = 0, 0, -1, False

    def join(self, first: int, count: int) -> None:
        """Merge the findings of `count` parts of one payload, in order, into the first of them."""
        if first < 0 or count < 1 or first + count > len(self._parts):
            raise IndexError(first)
        self._require_idle()
        for other in self._parts[first + 1 : first + count]:
            self._parts[first].join(other)

    def found(self, number: int) -> tuple[int, tuple[int, int, int, int], int, int, int, int, int, int, int, int, int]:
        """Return the findings in a part, with the names of `observation.PayloadObservation`."""
        return self._part(number).found

    def counts(self, number: int) -> tuple[int, int, int, int]:
        """Return how often each code was seen in a part."""
        return self._part(number).found.counts

    def fingerprint(self, number: int) -> tuple[int, int]:
        """Return the number of bytes seen of a part, and their fingerprint."""
        found = self._part(number).found
        return found.seen, found.digest

    def groups(
        self, number: int
    ) -> tuple[int, int, int, int, int, int, int, int, int, int, int, tuple[int, ...]] | None:
        """Return the findings in the groups of a part, with the names of `observation.Groups`, or None."""
        groups = self._part(number).groups
        return None if groups is None else groups.found if groups.octaves else groups.found._replace(octaves=())

    def tail(self, number: int) -> bytes:
        """Return the tail after a part."""
        part = self._part(number)
        return bytes(part.tail[: part.tail_bytes])

    def where(self, number: int) -> tuple[int, int, int]:
        """Return where a part begins in the file and in its payload, and its size."""
        part = self._part(number)
        return part.at, part.pos, part.size

    def width(self, number: int) -> int:
        """Return the bytes of one float in a part, 1 for other types, 0 for codes."""
        return self._part(number).width

    def tail_bytes(self, number: int) -> int:
        """Return the bytes of tail after a part."""
        return self._part(number).tail_bytes


def _is_sound(scales: ScalePlaces, width: int, tail_bytes: int) -> bool:
    """Return whether no scale is divided by a multiple of 8 bytes, and all lie in a block."""
    if width != 1 or tail_bytes or scales.width not in (1, 2, 4, 8) or scales.first < 0:
        return False
    if scales.block < scales.width or scales.block % scales.width:
        return False
    places = [place for place in (scales.first, scales.second) if place >= 0]
    return all(place <= scales.block - scales.width and place % scales.width == 0 for place in places)


def _is_hole(fd: int, at: int, size: int) -> bool:
    """Return whether a range of the file was never written."""
    import errno

    if not hasattr(os, "SEEK_DATA"):
        return False
    try:
        return os.lseek(fd, at, os.SEEK_DATA) >= at + size
    except OSError as error:
        return error.errno == errno.ENXIO
