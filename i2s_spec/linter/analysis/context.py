"""A file as the rules see it (`LintContext`), and the analyses that several rules share, each computed once.

Time and memory stay linear in the size of the header: keys and tensors are walked a few times, never held as objects.
`analysis` makes a function an analysis. Here are those that `LintContext` itself needs: tensor infos that the header does
not count (`uncounted`), and the lenient reading of records behind them.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Iterator
from functools import cached_property, wraps
from math import prod
from typing import TYPE_CHECKING, Any, Final, Literal, NamedTuple, NoReturn, Protocol, cast

from i2s_spec.errors import Span, counted
from i2s_spec.gguf.placement import Extent, Placement, Placements, sound_shape
from i2s_spec.gguf.reader import File, Tensor
from i2s_spec.gguf.source import FetchingSource
from i2s_spec.gguf.split_set import SplitSet
from i2s_spec.gguf.split_set import split_set as set_of
from i2s_spec.gguf.strings import utf8_damage
from i2s_spec.inspect.kind import RecognisedKind, kind_of
from i2s_spec.inspect.survey import Reading
from i2s_spec.schema import limits, types
from i2s_spec.schema.architectures import Architecture, declared_architecture
from i2s_spec.schema.types import LEGACY_I2_S, padded

if TYPE_CHECKING:
    from typing import TypeVar

    from i2s_spec.compare.header_record import HeaderRecord
    from i2s_spec.compare.known_weights import ReferenceWeights
    from i2s_spec.gguf.data_shift import Shift
    from i2s_spec.gguf.type_numbers import NumberReading
    from i2s_spec.gguf.writer_forms import WriterForm
    from i2s_spec.inspect.survey import Survey
    from i2s_spec.inspect.survey_reader import SurveyReader
    from i2s_spec.linter.rule import Finding

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


class LintContext:
    """One file under the linter.

    `path` is the file's path if there is one; it is used only to find the other parts of a split model. `reading` says
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
        #: The header that the file should have.
        self.record: HeaderRecord | None = None
        #: The errors of a run over this file, once it has ended.
        self.errors: tuple[Finding, ...] = ()
        #: How many rules are checked for the file, and how many rules of the profile are not.
        self.rules_checked = self.rules_skipped = 0
        self.analyses: dict[Callable[[LintContext], Any], Any] = {}  # of each `analysis`
        self.surveying: SurveyReader | None = None  # set once payloads are read
        #: Tensor infos that the header does not count; the data section begins after them.
        self.uncounted = self._uncounted()
        if self.uncounted is not None:
            file.data_section.begin_at(padded(self.uncounted.end, file.alignment or limits.DEFAULT_ALIGNMENT))
        else:
            file.data_section.locate()
        if self.shift is None and self.data_size_unexplained and (error := utf8_damage(file.source)) is not None:
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

    @property
    def data_size_unexplained(self) -> bool:
        """Whether the header was read and the file holds much more than its tensors."""
        return bool(self.placements) and self.data_size > padded(self.placements.end, limits.DEFAULT_ALIGNMENT)

    def _uncounted(self) -> Uncounted | None:
        """Return the tensor infos after the last counted one; they are read only if the bytes could be a name's length."""
        file = self.file
        if file.infos_end is None or file.fault is not None or file.size - file.infos_end < 8:
            return None
        length = int.from_bytes(file.source.read(file.infos_end, 8), "big" if file.byte_order == "big" else "little")
        if not 0 < length <= 64:
            return None

        return uncounted(file)

    def begin(self) -> None:
        """Start to read the payloads in other threads now, not when a rule asks for the survey; `end` must follow."""
        if self.reading.mode != "none" and self.surveying is None:
            from i2s_spec.inspect.survey_reader import SurveyReader

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
        """Yield index and name of every key-value that could be read."""
        key = self.file.index.key
        return ((i, key(i).name) for i in range(self.file.index.keys))

    def tensor_names(self) -> Iterator[tuple[int, bytes]]:
        """Yield index and name of every tensor info that could be read."""
        tensor = self.file.index.tensor
        return ((i, tensor(i).name) for i in range(self.file.index.tensors))

    def repeated(self, *, tensors: bool) -> Iterator[tuple[int, bytes, int]]:
        """Yield the keys, or names of tensors, that occur more than once: the second row, the name, how often."""
        if self.file.index.all_differ(tensors=tensors):
            return
        named = self.tensor_names if tensors else self.key_names
        counts = Counter(name for _, name in named())
        met: set[bytes] = set()
        for i, name in named():
            if name in met:
                yield i, name, counts.pop(name)
                met.discard(name)
            elif counts[name] > 1:
                met.add(name)

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

    def first_of_type(self, number: int) -> int:
        """Return the row of the first tensor with a type number that occurs."""
        tensor = self.file.index.tensor
        return next(i for i in range(self.file.index.tensors) if tensor(i).type == number)

    @cached_property
    def second_readings(self) -> dict[int, NumberReading]:
        """Type numbers of tensors that have a meaning which a single program gave them, or may have it."""
        tensors, found = self.file.tensors, {}
        for number in sorted(self.type_numbers & types.SECOND_NUMBERS):
            each = tensors.number_reading(number)
            if each is None:
                continue
            if each.is_undecided or not set(types.READINGS.get(number, ())).issuperset(each.kinds):
                found[number] = each
        return found

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
        """Yield row and ne of every I2_S tensor of a sound shape."""
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
    def writer_form(self) -> WriterForm | None:
        """The form of a single writer that the file has; None for the usual one."""
        index, key = self.file.index, self.file.index.alignment_key
        for i, _ in self.i2s():  # both forms have marks that are quickly looked for: few files need their module
            scale = (index.tensor(i).name + b"_scale").decode("utf-8", "surrogateescape")
            if scale in index.tensor_places or (key is not None and index.key(key).type == types.ValueType.INT32):
                break
            return None
        else:
            return None
        from i2s_spec.gguf.writer_forms import writer_form

        return writer_form(self.file)

    @property
    def lacks_tails(self) -> bool:
        """Whether the form of the file is one without tails: what follows from that is said once, by I317."""
        return self.writer_form is not None and not self.writer_form.tail

    def is_stray_scale(self, name: bytes) -> bool:
        """Whether a name is that of a scale which belongs into a tail: NAME.weight_scale and its like in a file with
        I2_S. NAME.input_scale is what llama.cpp's converter writes."""
        return name.endswith(b"_scale") and not name.endswith(b".input_scale") and self.has_i2s

    @cached_property
    def key_index(self) -> dict[bytes, int]:
        """The rows of the keys that rules look up; the first of each."""
        rows = self.file.index.keys_named(_LOOKED_UP)
        return {self.file.index.key(i).name: i for i in reversed(rows)}

    @cached_property
    def kind(self) -> RecognisedKind | None:
        """What the file is: a model, or a file of another kind; None if its header cannot be read to its end."""
        return kind_of(self.file)

    @cached_property
    def architecture(self) -> str:
        """The value of `general.architecture`; empty if it is missing or unusable."""
        i = self.key_index.get(b"general.architecture")
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
        names: Iterable[str] = (index.tensor(i).name.decode("utf-8", "replace") for i in tensors)
        if (whole := split_set(self)) is not None and whole.complete:
            names = (tensor.name for tensor in whole.tensors)
        return declared_architecture(name, keys, names)

    def key_span(self, i: int) -> Span:
        """Return the bytes of a key's name."""
        return self.file.index.key(i).key_span

    def name_span(self, i: int) -> Span:
        """Return the bytes of a tensor's name; those of `split.count` for a tensor of another part (`Row.i` below
        0).
        """
        return self.file.index.tensor(i).name_span if i >= 0 else self.split_count_span

    def info_span(self, i: int, field: str) -> Span:
        """Return the bytes of `n_dims`, `ne`, `type` or `offset` of a tensor info; of `split.count` as for
        `name_span`.
        """
        if i < 0:
            return self.split_count_span
        info = self.file.index.tensor(i)
        spans = {"n_dims": info.n_dims_span, "ne": info.ne_span, "type": info.type_span, "offset": info.offset_span}
        return spans[field]

    @property
    def split_count_span(self) -> Span:
        """Where findings about other parts of a split model point to: the value of `split.count`."""
        return self.file.index.key(self.key_index[b"split.count"]).value_span

    def dimension_span(self, i: int, which: int) -> Span:
        """Return the bytes of one dimension of a tensor info."""
        return self.file.index.tensor(i).dimension_span(which)

    @property
    def data_size(self) -> int:
        """Bytes between the start of the data section and the end of the file."""
        return self.file.data_section.size

    def absolute(self, start: int, stop: int, path: str) -> Span:
        """Return a span inside the data section as a span of the file, cut at the file's end."""
        base = self.file.data_start or 0
        size = self.file.size
        return Span(min(base + start, size), min(base + stop, size), path)

    @property
    def shift(self) -> Shift | None:
        """How far all tensors are from where the header puts them; offsets then count from `file.data_start`."""
        return self.file.data_section.shift

    @property
    def possible_shift(self) -> Shift | None:
        """A shift that the size of the file shows, and neither the weights nor the padding decide."""
        return self.file.data_section.possible_shift

    @property
    def placements(self) -> Placements:
        """Every tensor in the order of the offsets; empty if the position of the data section is not known."""
        return self.file.data_section.placements

    @property
    def in_table_order(self) -> Placements:
        """The placements in the order of the tensor table."""
        return self.file.data_section.in_table_order

    @cached_property
    def total(self) -> int:
        """The sum of all padded sizes, in exact arithmetic."""
        alignment = self.effective_alignment
        return sum(padded(size or 0, alignment) for _, size in self.placements.sizes())

    @property
    def ignores_alignment(self) -> bool:
        """Whether the offsets use another alignment than the header states (clause 2.7)."""
        return self.effective_alignment != (self.file.alignment or limits.DEFAULT_ALIGNMENT)

    @property
    def effective_alignment(self) -> int:
        """The alignment that the offsets really use: that of the header, if none explains all of them."""
        return self.file.data_section.effective_alignment

    @property
    def contiguous(self) -> bool:
        """Whether every tensor begins where the padded one before it ends, in the order of the table."""
        return self.file.data_section.contiguous

    @property
    def extents(self) -> Iterator[Extent]:
        """The extent of every tensor, in the order of the offsets; computed anew each time."""
        return self.placements.extents(self.data_size)

    def extents_of(self, places: Iterable[int]) -> Iterator[Extent]:
        """Yield the extents of the tensors at some positions in the order of the offsets."""
        placements, last = self.placements, len(self.placements) - 1
        for place in places:
            placement, after = placements[place], placements[place + 1] if place < last else None
            end = self.data_size if after is None else after.offset
            yield Extent(placement, end - placement.offset, after)

    def is_legacy(self, placement: Placement) -> bool:
        """Whether a tensor of type 30 or 31 has exactly the extent of an I2_S tensor, as in files older than type 36."""
        if placement.number not in LEGACY_I2_S or placement.size is None or placement.number in self.second_readings:
            return False
        ne = self.file.index.tensor(placement.row).ne
        return prod(ne) >= 128 and placement.size == types.I2_S.nbytes(ne)

    def name(self, i: int) -> bytes:
        """Return the name of a tensor."""
        return self.file.index.tensor(i).name


def analysis(make: Callable[[LintContext], T]) -> Callable[[LintContext], T]:
    """Declare a function as an analysis: it is called once for each subject, and all rules share the result."""

    @wraps(make)
    def result(subject: LintContext) -> T:
        if make not in subject.analyses:
            subject.analyses[make] = make(subject)
        found: T = subject.analyses[make]
        return found

    return result


@analysis
def split_set(subject: LintContext) -> SplitSet | None:
    """Return the model that a file is a part of, by the file's own keys and path; None for a file that is no part.

    If it is `complete`, the file is the first part: `tensors` gives those of all parts in order, and the keys of the
    model are the file's own (`subject.file.metadata`). A later part has no keys to judge tensors by.
    """
    if b"split.count" not in subject.key_index:
        return None
    return set_of(subject.file, subject.path)


# --- tensor infos that the header does not count ---------------------------------------------------------------------
# They follow the last counted one.

#: A usual tensor name, which padding or weights cannot form by chance.
_LETTERS: Final = b"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz_"
_IN_NAME: Final = _LETTERS + b"0123456789.-"
#: Largest size of a tensor info: the longest such name and four dimensions.
_MOST = 8 + 64 + 4 + 4 * 8 + 4 + 8
#: Most of them that are counted.
_COUNTED = 65_536


class _Policy:
    """How such a tensor info is read: it must be whole, and within the limits of our own reader."""

    end: Final[Literal["no"]] = "no"
    string_bytes: Final = 64
    dimensions: Final = limits.MAX_DIMENSIONS
    too_many_dimensions: Final = "no"
    allocates: Final[int | None] = None


_POLICY: Final = _Policy()


class Uncounted:
    """How many tensor infos follow the counted ones, the name of the first, and where the last one ends."""

    def __init__(self, tensors: int, first: bytes, end: int) -> None:
        self.tensors = tensors
        self.first = first
        self.end = end


def uncounted(file: File) -> Uncounted | None:
    """Return the tensor infos after the last one that the header counts; None if there are none.

    Padding does not match: its zeros would be an empty name. Payloads do not match by chance, either: it takes eight
    bytes with a length below 65, a plain name of that length, a sound shape, a defined type and an aligned offset
    inside the file.
    """
    if file.infos_end is None or file.fault is not None:
        return None
    at, count, first = file.infos_end, 0, b""
    while count < _COUNTED and (found := _info(file, at)) is not None:
        name, at = found
        first, count = first or name, count + 1
    return Uncounted(count, first, at) if count else None


def _is_name(name: bytes) -> bool:
    """Whether it is a plain name of 3 to 64 bytes that begins with a letter."""
    return 3 <= len(name) <= 64 and name[0] in _LETTERS and not name.translate(None, _IN_NAME)


def _info(file: File, at: int) -> tuple[bytes, int] | None:
    """Return name and end of the tensor info at a position, if there is one."""
    data = file.source.read(at, min(_MOST, max(0, file.size - at)))
    records = LenientRecords(data, _POLICY, file.size, at, big=file.byte_order == "big")
    try:
        info = records.tensor("")
    except StopWalkError:
        return None
    alignment = file.alignment or limits.DEFAULT_ALIGNMENT
    if not _is_name(info.name) or not sound_shape(info.ne) or info.number not in types.READINGS:
        return None
    if info.offset % alignment or info.offset > file.size:
        return None
    return info.name, records.at


# --- records as a lenient reader reads them --------------------------------------------------------------------------
# Numbers, strings and tensor infos of a GGUF header, within a budget. The walk continues where our own reader refuses, as
# a policy says. `runtimes.header_checks` uses it to read whole headers as each program does; `uncounted` uses it to read
# the tensor infos that the header does not count.

#: Most bytes and most records that are walked; records are keys, tensor infos, their dimensions, arrays.
MOST_BYTES: Final = 16 << 20
MOST_RECORDS: Final = 1 << 14

_SIZE_MAX: Final = (1 << 64) - 1


class RecordPolicy(Protocol):
    """What a reader does with strings and tensor infos; `schema.runtimes.Container` explains the fields."""

    @property
    def end(self) -> Literal["no", "zeros", "short"]: ...
    @property
    def string_bytes(self) -> int | None: ...
    @property
    def dimensions(self) -> int | None: ...
    @property
    def too_many_dimensions(self) -> str: ...
    @property
    def allocates(self) -> int | None: ...


class SeenTensor(NamedTuple):
    """A tensor info, and its bytes."""

    name: bytes
    span: Span
    ne: tuple[int, ...]
    number: int
    offset: int


class Stop(NamedTuple):
    """Why a walk ended early: what the reader does (`no`, `crash`, `unknown`), the reason in words, and the place."""

    outcome: str
    text: str
    span: Span


class StopWalkError(Exception):
    """A reader that follows the policy stops here."""

    def __init__(self, outcome: str, text: str, span: Span) -> None:
        super().__init__(text)
        self.stop = Stop(outcome, text, span)


class LenientRecords:
    """A position in a window of a file, from which records are read.

    :param data: the bytes of the file from `start` on; bytes after them count as missing
    :param size: the size of the file in bytes
    :param version: the version of GGUF; in version 1 lengths and counts have 32 bits
    :param big: whether numbers are big-endian
    """

    def __init__(
        self, data: bytes, policy: RecordPolicy, size: int, start: int = 0, version: int = 0, big: bool = False
    ) -> None:
        self.at = start
        self.version = version
        self.big = big
        self._data = data
        self._policy = policy
        self._size = size
        self._start = start
        self._left = MOST_RECORDS

    @property
    def word(self) -> int:
        """The number of bytes of a length or a count."""
        return 4 if self.version == 1 else 8

    @property
    def remaining(self) -> int:
        """Bytes of the window from here on; negative if the reader is past its end."""
        return self._start + len(self._data) - self.at

    def span(self, start: int, path: str) -> Span:
        """Return the span from a place to here, cut at the end of the file."""
        return Span(min(start, self._size), min(self.at, self._size), path)

    def stop(self, outcome: str, text: str, path: str = "") -> NoReturn:
        """End the walk at this place.

        :raises StopWalkError: always
        """
        raise StopWalkError(outcome, text, Span(min(self.at, self._size), self._size, path))

    def spend(self, count: int = 1) -> None:
        """Count records.

        :raises StopWalkError: if the budget of records or bytes is used up
        """
        self._left -= count
        if self._left < 0 or self.at - self._start >= MOST_BYTES:
            self.stop("unknown", "after its fault, the header is too long to be read further")

    def number(self, width: int, path: str) -> int:
        """Return an unsigned number of some bytes."""
        piece = self._piece(width)
        if len(piece) < width:
            if self._policy.end != "zeros":
                self.stop("no", "the file ends inside the header", path)
            piece = piece.ljust(width, b"\0")
        self.at += width
        return int.from_bytes(piece, "big" if self.big else "little")

    def string(self, path: str) -> bytes:
        """Return a length and that many bytes, or as many of them as the file has."""
        length = self.number(self.word, path)
        most = self._policy.string_bytes
        if most is not None and length > most:
            self.stop("no", f"it accepts strings of at most {counted(most, 'byte')}; this one has {length:,}", path)
        self.allocated(length, 1, "bytes of text", path)
        piece = self._piece(length)
        if len(piece) < length:
            if self._policy.end == "no":
                self.stop("no", "a string reaches beyond the end of the file", path)
            if self._policy.end == "short":
                self.at += max(0, self.remaining)
                return piece
            if length > 1_500_000:
                self.stop("unknown", "a string reaches far beyond the end of the file", path)
        self.at += length
        return piece

    def allocated(self, count: int, width: int, what: str, path: str) -> None:
        """Check an announced count that the reader allocates memory for before it reads the records.

        :raises StopWalkError: if the reader refuses the count or crashes
        """
        most = self._policy.allocates
        if most is None or count * width <= most:
            return
        if count >= _SIZE_MAX // width:
            self.stop("no", f"it refuses {count:,} {what}: their size overflows 64 bits", path)
        self.stop(
            "crash", f"it allocates memory for {count:,} {what} before it reads them, and aborts if that fails", path
        )

    def tensor(self, path: str) -> SeenTensor:
        """Return a tensor info; its type number is signed, as readers take it."""
        start = self.at
        name = self.string(path)
        dimensions = self.number(4, path)
        most = self._policy.dimensions
        if most is not None and dimensions > most:
            text = f"it accepts tensors of at most {counted(most, 'dimension')}; {dimensions:,} are declared"
            self.stop(self._policy.too_many_dimensions, text, f"{path}.n_dims")
        if self._policy.end != "zeros" and dimensions * self.word > self.remaining:
            self.stop(
                "no", f"{counted(dimensions, 'dimension is', 'dimensions are')} declared, and the file ends", path
            )
        self.spend(dimensions)
        ne = tuple(self.number(self.word, path) for _ in range(dimensions))
        number, offset = self.number(4, path), self.number(8, path)
        number -= (number >> 31) << 32
        return SeenTensor(name, self.span(start, path), ne, number, offset)

    def _piece(self, length: int) -> bytes:
        """Return the next bytes, or as many of them as the window has."""
        start = self.at - self._start
        return self._data[start : start + length]
