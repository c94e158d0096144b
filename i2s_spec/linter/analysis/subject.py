"""This module defines a file as the rules see it, with the analyses that several rules share, each computed once.

Time and memory stay linear in the size of the header: keys and tensors are walked a few times, never held as objects.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from functools import cached_property, wraps
from math import prod
from typing import TYPE_CHECKING, Any, cast

from i2s_spec.errors import Span
from i2s_spec.gguf.reader import File, Tensor
from i2s_spec.gguf.source import FetchingSource
from i2s_spec.inspect.placement import LEGACY_I2_S, Extent, Placement, Placements, placements_of, sound_shape
from i2s_spec.inspect.survey.reading import Reading
from i2s_spec.schema import limits, types
from i2s_spec.schema.architectures.architecture import Architecture, declared_architecture
from i2s_spec.schema.types import padded

if TYPE_CHECKING:
    from typing import TypeVar

    from i2s_spec.inspect.survey.reader import SurveyReader
    from i2s_spec.inspect.survey.result import Survey
    from i2s_spec.linter.analysis.shifted_data import Shift
    from i2s_spec.linter.analysis.uncounted_infos import Uncounted
    from i2s_spec.linter.reference.weights import ReferenceWeights

    T = TypeVar("T")

#: The payloads are not read.
HEADER_ONLY = Reading("none")

_SMALL = b"abcdefghijklmnopqrstuvwxyz0123456789_"
_PLAIN = _SMALL + _SMALL.upper() + b".-"

#: Block size of the type numbers that have only one meaning.
_UNAMBIGUOUS = {
    number: readings[0].block
    for number, readings in types.READINGS.items()
    if len(readings) == 1 and number not in types.RETIRED and number not in LEGACY_I2_S
}

#: Keys that rules look up by name.
_LOOKED_UP = frozenset(
    {b"general.alignment", b"general.architecture", b"split.no", b"split.count", b"split.tensors.count"}
)


def snake_case(name: bytes) -> bool:
    """Whether a key has the form that the GGUF document requires, or begins with one of the known architecture names.

    Their first segment may hold hyphens, and a dot between digits.

    >>> snake_case(b"bitnet-b1.58.block_count"), snake_case(b"general.a-b"), snake_case(b"general..name")
    (True, False, False)
    """
    first, dot, rest = name.partition(b".")
    if name.translate(None, _SMALL + b".-") or b"-" in rest:
        return False
    return all(first.split(b"-")) and (not dot or all(rest.split(b".")))


def plain_name(name: bytes) -> bool:
    """Whether a tensor has a usual name: at most 63 letters, digits, `_`, `.` and `-`, and not the name of a scale."""
    return 0 < len(name) <= 63 and not name.translate(None, _PLAIN) and not name.endswith(b"_scale")


class Subject:
    """One file under the linter.

    `path` is the file's path if there is one; it is used only to find the other parts of a split file. `reading` says
    how much of the payloads the rules may read; `weights` are known from another file.
    """

    def __init__(
        self,
        file: File,
        path: str | None = None,
        reading: Reading = HEADER_ONLY,
        weights: ReferenceWeights | None = None,
    ) -> None:
        self.file = file
        self.path = path
        self.reading = reading
        self.weights = weights
        #: Whether to ignore what the GGUF document allows, even if no loader accepts it (profile `spec`).
        self.by_document = False
        #: Whether to report what runtimes do with the file.
        self.runtimes_requested = False
        #: How many rules are checked for the file, and how many rules of the profile are not.
        self.asked = self.ignored = 0
        self.results: dict[Callable[[Subject], Any], Any] = {}  # of each `analysis`
        self.surveying: SurveyReader | None = None  # set once payloads are read
        #: Tensor infos that the header does not count; the data section begins after them.
        self.uncounted = self._uncounted()
        if self.uncounted is not None:
            file.index.data_start = padded(self.uncounted.end, file.alignment or limits.DEFAULT_ALIGNMENT)
        #: Whether the data section does not begin where `general.alignment` puts it; `file.data_start` is where it does.
        self.data_start_overridden = self._override_data_start()
        #: How far all tensors are shifted from where the header puts them; offsets then count from `file.data_start`.
        self.shift: Shift | None = None
        counted = not self.data_start_overridden and self.uncounted is None
        if counted and not self.placements.end_at(self.data_size, self.effective_alignment):
            from i2s_spec.linter.analysis.shifted_data import shifted

            self.shift = shifted(file, self.placements, self.effective_alignment)
        if self.shift is not None:
            self._take_data_to_begin(self.shift.base)
        elif self.data_size_unexplained:
            from i2s_spec.gguf.text_decoded import text_decoded

            if (error := text_decoded(file.source)) is not None:
                raise error

    @cached_property
    def on_server(self) -> bool:
        """Whether every byte is fetched from a server."""
        return isinstance(self.file.source, FetchingSource)

    def prefetch(self, ranges: Iterable[tuple[int, int]]) -> None:
        """Fetch ranges of a file on a server together; does nothing for a local file."""
        if self.on_server:
            cast(FetchingSource, self.file.source).prefetch(ranges)

    @property
    def ranges_are_few(self) -> bool:
        """Whether a sample came from a server that gives one range per request: only some tensors were read then."""
        return self.reading.mode == "sample" and self.survey is not None and self.survey.is_selection

    def _override_data_start(self) -> bool:
        """Align the data section to 32 if offsets and file size contradict `general.alignment` (clause 2.7)."""
        file, wanted = self.file, limits.DEFAULT_ALIGNMENT
        if file.alignment in (None, wanted) or file.data_start is None or file.infos_end is None:
            return False
        stated, start = (file.data_start, file.alignment or wanted), padded(file.infos_end, wanted)
        if start == file.data_start or not self.placements or not self._is_contiguous(wanted):
            return False
        end = self.placements.end
        ends = [{base + end, base + padded(end, step)} for base, step in (stated, (start, wanted))]
        if file.size in ends[0] or file.size not in ends[1]:
            return False
        self._take_data_to_begin(start)
        return True

    def _take_data_to_begin(self, start: int) -> None:
        """Count offsets from another position, and drop cached results for the previous one."""
        self.file.index.data_start = start
        for name in ("placements", "in_table_order", "data_size"):
            vars(self).pop(name, None)

    @property
    def data_size_unexplained(self) -> bool:
        """Whether the header was read and the file holds much more than its tensors."""
        return bool(self.placements) and self.data_size > padded(self.placements.end, limits.DEFAULT_ALIGNMENT)

    def _uncounted(self) -> Uncounted | None:
        """Tensor infos after the last counted one; their reader is imported only if the bytes could be a name's length."""
        file = self.file
        if file.infos_end is None or file.fault is not None or file.size - file.infos_end < 8:
            return None
        length = int.from_bytes(file.source.read(file.infos_end, 8), "big" if file.byte_order == "big" else "little")
        if not 0 < length <= 64:
            return None
        from i2s_spec.linter.analysis.uncounted_infos import uncounted

        return uncounted(file)

    def begin(self) -> None:
        """Start to read the payloads in other threads now, not when a rule asks for the survey; `end` must follow."""
        if self.reading.mode != "none" and self.surveying is None:
            from i2s_spec.inspect.survey.reader import SurveyReader

            self.surveying = SurveyReader(self.file, self.reading)
            self.surveying.begin()

    def end(self) -> None:
        """End these threads, whether or not a rule asked for the survey."""
        if self.surveying is not None:
            self.surveying.stop()

    @cached_property
    def survey(self) -> Survey | None:
        """The survey of the payloads; None if they are not to be read, or their positions are not known.

        :raises FormatError: S903 if the file shrinks meanwhile, S901 if it cannot be read
        """
        if self.reading.mode == "none":
            return None
        try:
            self.begin()
            assert self.surveying is not None
            return self.surveying.result()
        finally:
            self.end()

    @property
    def payloads(self) -> Survey:
        """The survey of a file whose payloads are read, as the condition of a rule on them says."""
        assert self.survey is not None
        return self.survey

    def key_names(self) -> Iterator[tuple[int, bytes]]:
        """Index and name of every key-value that could be read."""
        key = self.file.index.key
        return ((i, key(i).name) for i in range(self.file.index.keys))

    def tensor_names(self) -> Iterator[tuple[int, bytes]]:
        """Index and name of every tensor info that could be read."""
        tensor = self.file.index.tensor
        return ((i, tensor(i).name) for i in range(self.file.index.tensors))

    @cached_property
    def odd_keys(self) -> list[tuple[int, bytes]]:
        """Key-values whose key is not made of lower_snake_case segments: rules on names check only these."""
        index = self.file.index
        named = ((i, index.key(i).name) for i in index.odd_keys())
        return [(i, name) for i, name in named if not snake_case(name)]

    @cached_property
    def odd_names(self) -> list[tuple[int, bytes]]:
        """Tensors whose name is not a plain one of at most 63 bytes: rules on names check only these."""
        index = self.file.index
        named = ((i, index.tensor(i).name) for i in index.odd_tensors())
        return [(i, name) for i, name in named if not plain_name(name)]

    @cached_property
    def type_numbers(self) -> frozenset[int]:
        """The numbers of the types of all tensors."""
        tensor = self.file.index.tensor
        return frozenset(tensor(i).type for i in range(self.file.index.tensors))

    @cached_property
    def odd_tensors(self) -> list[Tensor]:
        """Tensors whose shape or type is not certainly sound: rules on shapes and types check only these."""
        tensor = self.file.index.tensor
        odd: list[int] = []
        plain: tuple[tuple[int, ...], int] = (), -1  # the last sound shape and type: many tensors share them
        for i in range(self.file.index.tensors):
            info = tensor(i)
            ne, number = info.ne, info.type
            if (ne, number) == plain:
                continue
            block = _UNAMBIGUOUS.get(number)
            if block is None or not sound_shape(ne) or ne[0] % block:
                odd.append(i)
            else:
                plain = ne, number
        return [self.file.tensors.by_index(i) for i in odd]

    def i2s(self) -> Iterator[tuple[int, tuple[int, ...]]]:
        """Row and ne of every I2_S tensor of a sound shape."""
        tensor, number = self.file.index.tensor, types.I2_S.number
        sound: tuple[int, ...] = ()
        for i in range(self.file.index.tensors):
            info = tensor(i)
            if info.type == number and ((ne := info.ne) == sound or sound_shape(ne)):
                sound = ne
                yield i, sound

    @cached_property
    def odd_i2s(self) -> list[tuple[int, tuple[int, ...]]]:
        """Those that are not a matrix with whole blocks in every row: rules on I2_S shapes check only these."""
        return [(i, ne) for i, ne in self.i2s() if len(ne) != 2 or ne[0] % 128]

    @cached_property
    def has_i2s(self) -> bool:
        """Whether there is an I2_S tensor of a sound shape."""
        return any(True for _ in self.i2s())

    @cached_property
    def places(self) -> dict[bytes, int]:
        """The rows of the keys that rules look up; the first of each."""
        places: dict[bytes, int] = {}
        for i in self.file.index.keys_named(_LOOKED_UP):
            places.setdefault(self.file.index.key(i).name, i)
        return places

    @cached_property
    def architecture(self) -> str:
        """The value of `general.architecture`; empty if it is missing or unusable."""
        i = self.places.get(b"general.architecture")
        if i is None:
            return ""
        entry = self.file.index.key(i)
        if entry.type != types.ValueType.STRING or entry.count > 64:
            return ""
        return str(self.file.metadata.decode(entry))

    @cached_property
    def declared(self) -> Architecture | None:
        """The architecture of the file, if it is declared."""
        name, index = self.architecture, self.file.index
        pooling = f"{name}.pooling_type"
        keys = {pooling} if any(True for _ in index.keys_named({pooling.encode("utf-8", "surrogateescape")})) else ()
        tensors = range(0 if index.tensors > limits.MANY_TENSORS else index.tensors)
        return declared_architecture(name, keys, (index.tensor(i).name.decode("utf-8", "replace") for i in tensors))

    def key_span(self, i: int) -> Span:
        """The bytes of a key's name."""
        return self.file.index.key(i).key_span

    def name_span(self, i: int) -> Span:
        """The bytes of a tensor's name."""
        return self.file.index.tensor(i).name_span

    def info_span(self, i: int, field: str) -> Span:
        """The bytes of `n_dims`, `ne`, `type` or `offset` of a tensor info."""
        info = self.file.index.tensor(i)
        spans = {"n_dims": info.n_dims_span, "ne": info.ne_span, "type": info.type_span, "offset": info.offset_span}
        return spans[field]

    def dimension_span(self, i: int, which: int) -> Span:
        """The bytes of one dimension of a tensor info."""
        return self.file.index.tensor(i).dimension_span(which)

    @cached_property
    def data_size(self) -> int:
        """Bytes between the start of the data section and the end of the file."""
        return max(0, self.file.size - (self.file.data_start or 0))

    def absolute(self, start: int, stop: int, path: str) -> Span:
        """A span inside the data section as a span of the file, cut at the file's end."""
        base = self.file.data_start or 0
        size = self.file.size
        return Span(min(base + start, size), min(base + stop, size), path)

    @cached_property
    def placements(self) -> Placements:
        """Every tensor in the order of the offsets; empty if the position of the data section is not known."""
        return placements_of(self.file, self.data_size)

    @cached_property
    def in_table_order(self) -> Placements:
        """The placements in the order of the tensor table."""
        return self.placements.by_row()

    @cached_property
    def total(self) -> int:
        """The sum of all padded sizes, in exact arithmetic."""
        alignment = self.effective_alignment
        return sum(padded(size or 0, alignment) for _, size in self.placements.sizes())

    @cached_property
    def ignores_alignment(self) -> bool:
        """Whether the offsets use an alignment of 32 although `general.alignment` states another one (clause 2.7)."""
        if self.data_start_overridden:
            return True
        alignment = self.file.alignment or limits.DEFAULT_ALIGNMENT
        if alignment <= limits.DEFAULT_ALIGNMENT or all(p.offset % alignment == 0 for p in self.placements):
            return False
        return self._is_contiguous(limits.DEFAULT_ALIGNMENT)

    @cached_property
    def effective_alignment(self) -> int:
        """The alignment that the offsets really use."""
        return limits.DEFAULT_ALIGNMENT if self.ignores_alignment else self.file.alignment or limits.DEFAULT_ALIGNMENT

    @cached_property
    def contiguous(self) -> bool:
        """Whether every tensor begins where the padded one before it ends, in the order of the table."""
        return self._is_contiguous(self.effective_alignment)

    def _is_contiguous(self, alignment: int) -> bool:
        expected = 0
        for offset, size in self.in_table_order.sizes():
            if offset != expected or size is None:
                return False
            expected += padded(size, alignment)
        return True

    @property
    def extents(self) -> Iterator[Extent]:
        """The extent of every tensor, in the order of the offsets; computed anew each time."""
        return self.placements.extents(self.data_size)

    def extents_of(self, places: Iterable[int]) -> Iterator[Extent]:
        """The extents of the tensors at some positions in the order of the offsets."""
        placements, last = self.placements, len(self.placements) - 1
        for place in places:
            placement, after = placements[place], placements[place + 1] if place < last else None
            end = self.data_size if after is None else after.offset
            yield Extent(placement, end - placement.offset, after)

    def is_legacy(self, placement: Placement) -> bool:
        """Whether a tensor of type 30 or 31 has exactly the extent of an I2_S tensor, as in files older than type 36."""
        if placement.number not in LEGACY_I2_S or placement.size is None:
            return False
        ne = self.file.index.tensor(placement.row).ne
        return prod(ne) >= 128 and placement.size == types.I2_S.nbytes(ne)

    def name(self, i: int) -> bytes:
        """The name of a tensor."""
        return self.file.index.tensor(i).name


def analysis(make: Callable[[Subject], T]) -> Callable[[Subject], T]:
    """Declare a function as an analysis: it is called once for each subject, and all rules share the result."""

    @wraps(make)
    def result(subject: Subject) -> T:
        if make not in subject.results:
            subject.results[make] = make(subject)
        found: T = subject.results[make]
        return found

    return result
