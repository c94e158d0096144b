"""The reading of payloads for a survey: they are cut into parts, read by threads, and put together.

Bytes are read into a buffer that stays in the cache of the processor and are examined there; nothing is mapped, since
a map of a file that shrinks kills the process. Parts of sparse files that were never written are not read: they take no
room on the disk, and would take any time. Threads share one list in C and need the interpreter for nothing, so that a
survey can be begun long before its result is wanted.

    >>> from i2s_spec.gguf.reader import open
    >>> from i2s_spec.testing.sample import Draft
    >>> seen = survey(open(Draft().data))
    >>> seen[0].name, seen[0].counts, seen[0].scale, seen[0].tail_class
    (b'first.weight', (171, 177, 164, 0), 0.75, 'zero')
"""

from __future__ import annotations

import os
import threading
from array import array
from collections.abc import Iterable, Iterator
from functools import cache
from math import lcm, prod
from typing import TYPE_CHECKING, Final, NamedTuple

from i2s_spec.codec import _survey
from i2s_spec.codec._survey import BLOCK, Parts
from i2s_spec.codec.observation import GROUPS_FROM, KINDS, TILE, ScalePlaces
from i2s_spec.errors import FormatError, Span, TrustedText, counted
from i2s_spec.gguf.source import FetchingSource, FileSource
from i2s_spec.inspect.survey import WINDOWS, Reading, Survey, Surveyed
from i2s_spec.schema import faults, limits, types
from i2s_spec.schema.types import I2_S, TAIL_BYTES, TensorType

if TYPE_CHECKING:
    from i2s_spec.codec.isa import KernelSet
    from i2s_spec.gguf.reader import File
    from i2s_spec.schema.blocks import BlockLayout

#: How much a thread reads at once, so that it is examined in the second-level cache; on some processors more (`Buffer`).
BUFFER: Final = 1 << 18
#: What a thread takes from the list; of huge files more, so that the list stays short.
PART: Final = 1 << 22
PARTS: Final = 1 << 16
#: Bytes that are read between two calls of `progress`, or checks for a signal.
BUDGET: Final = 1 << 25
#: No thread is started for less than this.
THREAD_BYTES: Final = 1 << 22
#: Shapes whose size is cached.
ALIKE: Final = 1024
#: Bytes of a sample that are asked of a server together.
AHEAD: Final = 1 << 24
#: Seconds between two looks at threads that are still busy.
PATIENCE: Final = 0.05

#: What a sample takes of a tensor: windows of so many bytes; smaller tensors are read whole. How many windows is said by
#: `Reading`: of a server fewer, since each is fetched.
REMOTE_WINDOWS: Final = 3
WINDOW: Final = 1 << 14

#: Float types whose values are examined.
FLOATS: Final = ("F16", "BF16", "F32", "F64")

_ALL: Final = 1 << 62


@cache
def kernel_sets() -> tuple[KernelSet, ...]:
    """Every set of the survey that was compiled, the slowest first."""
    from i2s_spec.codec.isa import table

    return table(_survey.kernel_sets())


def _kernels() -> str:
    """Return the name of the set in use, as `isa.chosen` says, which is asked only where a set was named."""
    if os.environ.get("I2S_ISA"):
        from i2s_spec.codec.isa import chosen

        return chosen(kernel_sets()).name
    return next(name for name, available in reversed(_survey.kernel_sets()) if available)


def survey(file: File, reading: Reading | None = None) -> Survey | None:
    """Read every tensor of a file once, and say what is there.

    Memory is a megabyte or two for each thread and some hundred bytes for each tensor, whatever their size.

    :param reading: how; in full by one thread by default
    :returns: None where `reading.mode` is `none`, or where the header does not say where the data section is
    :raises ValueError: for an unknown mode, or fewer than one thread
    :raises FormatError: S903 where the file shrinks meanwhile, S901 where it cannot be read
    """
    with SurveyReader(file, reading or Reading()) as reader:
        return reader.result()


class SurveyReader:
    """Reads payloads for a survey; as a context it leaves no thread and no descriptor behind.

    :raises ValueError: for an unknown mode, or fewer than one thread
    """

    def __init__(self, file: File, reading: Reading) -> None:
        if reading.mode not in ("full", "sample", "none"):
            raise ValueError(f"unknown mode {reading.mode!r}; there are: full, sample, none")
        if reading.threads < 1:
            raise ValueError(f"{counted(reading.threads, 'thread')} cannot read; at least one is needed")
        self._file = file
        self._reading = reading
        self._parts = Parts(_kernels())
        self._surveyed = Surveyed(file, self._parts)
        self._counts = array("q")  # of the parts of each tensor
        self._total = 0
        self._threads: list[threading.Thread] = []
        self._errors: list[BaseException] = []
        self._descriptor = -1
        self._planned = False
        #: Fetches ranges together, where the file is on a server.
        self._server = file.source if isinstance(file.source, FetchingSource) else None
        self._windows = reading.windows if self._server is None else min(REMOTE_WINDOWS, reading.windows)

    def __enter__(self) -> SurveyReader:
        return self

    def __exit__(self, *exc: object) -> None:
        self.stop()

    def begin(self) -> None:
        """Let all threads but one start to read; the last one is the caller who asks for the result."""
        if self._planned:
            return
        self._plan()
        if self._file.source.view is None and not isinstance(self._file.source, FileSource):
            return  # read by hand, by one thread
        others = min(self._reading.threads - 1, self._total // THREAD_BYTES)
        for _ in range(others):
            thread = threading.Thread(target=self._work, name="i2s survey", daemon=True)
            thread.start()
            self._threads.append(thread)

    def parts(self) -> Parts:
        """Return the list of what is read, for who wants to measure reading alone."""
        if not self._planned:
            self._plan()
        return self._parts

    @property
    def i2s_bytes_in_work(self) -> int:
        """Bytes of the I2_S payloads while threads read them, else 0."""
        return sum(self._surveyed.i2s[2]) if self._threads else 0

    def result(self) -> Survey | None:
        """Return the survey, once everything is read; see `survey.survey`."""
        if self._reading.mode == "none" or self._file.data_start is None:
            return None
        self.begin()
        try:
            if self._file.source.view is None and not isinstance(self._file.source, FileSource):
                self._by_hand()
            buffer = _survey.Buffer(BUFFER)
            while self._parts.work(buffer, BUDGET):
                self._tell()
            for thread in self._threads:
                while thread.is_alive():
                    thread.join(PATIENCE)
                    self._tell()
        finally:
            self.stop()
        if self._errors:
            raise self._errors[0]
        if self._parts.failed >= 0:
            self._explain(self._parts.failed)
        self._tell()
        first = 0
        for count in self._counts:
            self._parts.join(first, count)
            first += count
        return Survey(self._reading.mode, self._parts.done, self._surveyed)

    def stop(self) -> None:
        """End every thread, and let go of the file."""
        self._parts.stop()
        for thread in self._threads:
            thread.join()
        self._threads = []
        self._parts.release()
        if self._descriptor >= 0:
            os.close(self._descriptor)
            self._descriptor = -1

    def _work(self) -> None:
        try:
            self._parts.work(BUFFER, _ALL)
        except BaseException as error:
            self._errors.append(error)
            self._parts.stop()

    def _tell(self) -> None:
        if self._reading.progress is not None:
            self._reading.progress(self._parts.done, self._total)

    def _explain(self, at: int) -> None:
        """Raise what a read gives where one has failed."""
        source = self._file.source
        source.read(at, min(BLOCK, source.size - at))
        reason = TrustedText("a part of it could not be read for a moment")
        raise FormatError(faults.CHANGED, Span(at, source.size), reason=reason)

    def _by_hand(self) -> None:
        """Read a source that is neither a file nor in memory."""
        source, parts, fetched = self._file.source, self._parts, 0
        for number in range(len(parts)):
            if self._server is not None and self._reading.mode == "sample" and number == fetched:
                fetched = self._fetch_from(number)
            start, _, size = parts.where(number)
            tail = parts.tail_bytes(number)
            for at in range(0, size, BUFFER):
                parts.feed(number, source.read(start + at, min(BUFFER, size - at)), b"")
                self._tell()
            parts.feed(number, b"", source.read(start + size, tail))

    def _fetch_from(self, number: int) -> int:
        """Ask a server for the parts of a sample from one on, together; the first one that was not asked for."""
        ranges, left = [], AHEAD
        while number < len(self._parts) and left > 0:
            start, _, size = self._parts.where(number)
            ranges.append((start, start + size + self._parts.tail_bytes(number)))
            left -= size
            number += 1
        assert self._server is not None
        self._server.prefetch(ranges)
        return number

    # --- what to read ---

    def _plan(self) -> None:
        self._planned = True
        if self._reading.mode == "none" or self._file.data_start is None:
            return
        base = self._file.data_start
        step = max(PART, -(-max(0, self._file.size - base) // PARTS // BLOCK) * BLOCK)
        big, sample = self._file.byte_order == "big", self._reading.mode == "sample"
        add, surveyed, number = self._parts.add, self._surveyed, len(self._parts)
        looks: dict[str, Look] = {}
        for row, offset, size, tail, name in self._chosen(base) if sample else self._tensors():
            if name not in looks:
                looks[name] = look_at(name, big)
            width, mask, scales, layout = looks[name]
            cut, groups = (BLOCK, None) if layout is None else self._cut(layout, row, size)
            rows, numbers, sizes = surveyed.i2s if tail else surveyed.others
            rows.append(row)
            numbers.append(number)
            sizes.append(size)
            if size and not sample and groups is None:  # nearly all tensors of most files
                count = self._parts.add_pieces(base + offset, size, -(-step // cut) * cut, tail, width, mask, scales)
                self._total += size + tail
                self._counts.append(count)
                number += count
                continue
            count = 0
            for start, stop in _windows(size, cut, self._windows) if sample else _pieces(size, -(-step // cut) * cut):
                behind = tail if stop == size else 0
                add(base + offset + start, start, stop - start, behind, width, mask, scales)
                if groups is not None:
                    self._parts.of_groups(*groups)
                self._total += stop - start + behind
                count += 1
            self._counts.append(count)
            number += count
        source = self._file.source
        if isinstance(source, FileSource):
            self._descriptor = os.dup(source.fileno())  # threads may outlive the source by a moment
            self._parts.of_file(self._descriptor, _is_sparse(self._descriptor))
        elif source.view is not None:
            self._parts.of_memory(source.view)

    def _cut(self, layout: BlockLayout, row: int, size: int) -> tuple[int, tuple[int, int, bool, bool]]:
        """Return the unit of parts of a ternary tensor, and the description of its groups."""
        group = layout.group_bytes(self._file.index.tensor(row).ne[0])
        groups = (KINDS[layout.name], group, self._file.byte_order == "big", size >= GROUPS_FROM * group)
        return lcm(BLOCK, TILE * group) if layout.scale.per == "block" else BLOCK, groups

    def _chosen(self, base: int) -> Iterable[tuple[int, int, int, int, str]]:
        """Return the tensors of a sample: all, but of a server that gives one range at a time the ends of some,
        evenly spread.

        Those are I2_S tensors, where there are any: the end of one is the scale and the last codes before it.
        """
        tensors = self._tensors()
        if self._server is None:
            return tensors
        found = list(tensors)
        candidates = [each for each in found if each[3]] or found
        ends = [
            (base + offset + next(iter(_windows(size, BLOCK, 1)))[0], base + offset + size + tail)
            for _, offset, size, tail, _ in candidates
        ]
        more = self._server.far_ranges(ends)
        if more is None:
            return found
        count = min(len(candidates), 2 + more)
        candidates = [candidates[number * (len(candidates) - 1) // (count - 1)] for number in range(count)]
        ternary = sum(bool(each[3]) for each in found)
        chosen = sum(bool(each[3]) for each in candidates)
        self._surveyed.left_out = ternary - chosen, len(found) - len(candidates) - (ternary - chosen)
        self._windows = 1
        return candidates

    def _tensors(self) -> Iterator[tuple[int, int, int, int, str]]:
        """Row, offset, bytes, bytes of tail and type of the tensors that lie in the file and in nothing else.

        No byte is in two of them, whatever the header says: that bounds the time.
        """
        file, tensor = self._file, self._file.index.tensor
        taken = bytearray(file.index.tensors + 2)
        end = file.size - (file.data_start or 0)  # where a truncated file ends, whatever lies after
        sizes: dict[tuple[tuple[int, ...], int, int], tuple[int, TensorType] | None] = {}  # many are alike
        for row, (place, room) in enumerate(file.index.extents()):
            info = tensor(row)
            ne, number, offset = info.ne, info.type, info.offset
            if room is None or taken[place]:
                continue
            like = ne, number, room
            if like not in sizes:
                if len(sizes) == ALIKE:
                    sizes.clear()
                sizes[like] = _size(file, ne, number, room)
            found = sizes[like]
            if found is None or found[0] > end - offset:
                continue
            taken[place] = 1
            size, kind = found
            tail = TAIL_BYTES if kind is I2_S else 0
            yield row, offset, size - tail, tail, kind.name


class Look(NamedTuple):
    """How the bytes of a type are examined: `width`, `mask` and `scales` as of `Parts.add`, and the layout of a ternary
    type with a scale for each group."""

    width: int
    mask: int = 0
    scales: ScalePlaces | None = None
    layout: BlockLayout | None = None


def look_at(name: str, big: bool) -> Look:
    """How the bytes of a type are examined in a file of one byte order."""
    if name == I2_S.name:
        return Look(0)
    if name in FLOATS:
        form = types.NUMBER_FORMS[name]
        return Look(form.bytes, form.mask_in(big))
    from i2s_spec.schema.blocks import BLOCK_LAYOUTS, SCALES  # few files with I2_S need these

    layout, scales = BLOCK_LAYOUTS.get(name), SCALES.get(name, ())
    if layout is not None or not scales or scales[0].apart or not scales[0].form.mask:
        return Look(1, layout=layout)
    form, (first, second) = scales[0].form, (*(scale.offset for scale in scales), -1)[:2]
    return Look(1, form.mask_in(big), ScalePlaces(types.BY_NAME[name].bytes, form.bytes, first, second))


def _size(file: File, ne: tuple[int, ...], number: int, room: int) -> tuple[int, TensorType] | None:
    """Bytes and type of a tensor that fits into its room, or None."""
    if (
        not 0 < len(ne) <= limits.MAX_DIMENSIONS
        or min(ne) < 1
        or prod(ne) >= limits.INT64_END
        or number in types.RETIRED
    ):
        return None
    kind = file.tensors.type_of(number, ne, room)
    if kind is None or ne[0] % kind.block:
        return None
    size = kind.nbytes(ne)
    return (size, kind) if 0 < size <= room else None


def _is_sparse(descriptor: int) -> bool:
    """Whether less was written of a file than its size."""
    status = os.fstat(descriptor)
    return 512 * getattr(status, "st_blocks", status.st_size) < status.st_size


def _pieces(size: int, step: int) -> Iterable[tuple[int, int]]:
    if size <= step:
        return ((0, size),)
    return ((start, min(start + step, size)) for start in range(0, size, step))


def _windows(size: int, cut: int, windows: int = WINDOWS) -> Iterator[tuple[int, int]]:
    """Yield the beginning, the end, and windows between them at even distances, at multiples of `cut`; all of what
    is small.
    """
    if size <= windows * WINDOW:
        yield 0, size
        return
    last = (size - WINDOW) // BLOCK * BLOCK
    before = -1
    for number in range(windows - 1):
        start = last * number // (windows - 1) // cut * cut
        if start > before:
            yield start, min(start + WINDOW, last)
        before = start
    yield last, size
