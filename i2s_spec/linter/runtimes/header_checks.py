"""Predictions of what a runtime's GGUF reader does with a header: every reason to refuse it, crash, or go on.

The checks are those that `schema.runtimes.Container` declares, in the order of the file: counts, keys, alignment, the
names and shapes of tensors (`reasons`), then their types, sizes and positions by the runtime's own tables (`placed`).
The first one that stops the reader is what a user sees.
"""

from __future__ import annotations

from collections.abc import Iterator
from functools import lru_cache
from math import prod
from typing import TYPE_CHECKING, Any, Final, NamedTuple

from i2s_spec.errors import Span, counted, quote
from i2s_spec.gguf.strings import is_utf8
from i2s_spec.linter.analysis.context import MOST_BYTES, LenientRecords, SeenTensor, Stop, StopWalkError
from i2s_spec.linter.runtimes.records import Reason, not_tried, refused_type, says_something
from i2s_spec.schema import faults
from i2s_spec.schema.limits import INT64_END
from i2s_spec.schema.runtimes import RETIRED_SLOTS, Container, Runtime
from i2s_spec.schema.types import READINGS, SMALLEST_VALUE, VALUE_FORMATS, TensorType, ValueType, padded

if TYPE_CHECKING:
    from i2s_spec.gguf.reader import File
    from i2s_spec.linter.analysis.context import LintContext
    from i2s_spec.schema.runtimes import Container

#: Every reader accepts arrays, texts and dimensions up to this length.
_LONG: Final = 1_000_000


class Headers:
    """The header of one file as each reader sees it; readers with the same policy share one walk."""

    def __init__(self, subject: LintContext) -> None:
        self._subject = subject
        self._walks: dict[Container, Header] = {}
        self._indexed: Header | None = None

        self._odd: dict[int, tuple[list[tuple[SeenKey, bool]], list[tuple[SeenTensor, bool]]]] = {}

    def odd(self, header: Header) -> tuple[list[tuple[SeenKey, bool]], list[tuple[SeenTensor, bool]]]:
        """Return the keys and the tensors that a reader might object to, and whether their name occurred before."""
        if id(header) not in self._odd:
            self._odd[id(header)] = _odd_keys(header.keys), _odd_tensors(header.tensors)
        return self._odd[id(header)]

    def of(self, policy: Container) -> Header:
        """Return the header as the reader of a policy sees it."""
        file = self._subject.file
        if file.fault is None:
            if self._indexed is None:
                self._indexed = indexed(file)
            return self._indexed
        if policy not in self._walks:
            self._walks[policy] = lenient_header(file, policy)
        return self._walks[policy]


def reasons(subject: LintContext, runtime: Runtime, headers: Headers) -> Iterator[Reason]:
    """Yield the objections of the runtime's reader, in the order in which it meets them; ends where the reader
    stops.
    """
    policy = runtime.container
    fault = subject.file.fault
    if fault is not None and (fault.code in faults.NO_INPUT or not policy.known):
        known = fault.code in faults.NO_INPUT
        yield Reason(_fault_text(subject), runtime.source, "no" if known else "unknown", fault.span)
        return
    header = headers.of(policy)
    if fault is None and header.big and policy.big_endian != "yes":
        text = "it reads little-endian files only, and this one is big-endian"
        yield Reason(text, runtime.source, policy.big_endian, Span(4, 8, "header.version"))
        return
    for reason in _all(subject, runtime, header, headers):
        yield reason
        if reason.effect in ("no", "crash", "unknown"):
            return


def _fault_text(subject: LintContext) -> str:
    fault = subject.file.fault
    assert fault is not None
    return f"{fault.code} {fault.fault.slug}: {fault.message}"


def _odd_keys(keys: list[SeenKey]) -> list[tuple[SeenKey, bool]]:
    odd, seen = [], set()
    for key in keys:
        again = key.name in seen
        seen.add(key.name)
        if again or not key.name or key.depth > 1 or key.length > _LONG or not key.name.isascii():
            odd.append((key, again))
    return odd


def _odd_tensors(tensors: list[SeenTensor]) -> list[tuple[SeenTensor, bool]]:
    odd, seen = [], set()
    for tensor in tensors:
        name, ne = tensor.name, tensor.ne
        again = name in seen
        seen.add(name)
        plain = not again and len(name) < 64 and name.isascii() and 0 < len(ne) <= 4
        if not plain or min(ne) < 1 or max(ne) > _LONG or (len(ne) > 2 and prod(ne) >= INT64_END):
            odd.append((tensor, again))
    return odd


def _all(subject: LintContext, runtime: Runtime, header: Header, headers: Headers) -> Iterator[Reason]:
    odd_keys, odd_tensors = headers.odd(header)
    policy, source = runtime.container, runtime.source
    for count, most, what, start in (
        (len(header.tensors), policy.tensors, "tensors", 8), (len(header.keys), policy.keys, "keys", 16)
    ):  # fmt: skip
        if most is not None and count > most:
            yield Reason(f"it stops at {most:,} {what}", source, "no", Span(start, start + 8, "header"))
    yield from _keys(odd_keys, policy, source)
    if header.stop is not None and len(header.tensors) == 0:
        yield Reason(header.stop.text, source, header.stop.outcome, header.stop.span)
    yield from _table(odd_tensors, policy, source)
    if header.stop is not None:
        yield Reason(header.stop.text, source, header.stop.outcome, header.stop.span)
    alignment, objection = _alignment(header, policy, source)
    if objection is not None:
        yield objection
    yield from placed(subject, runtime, header, alignment)


def _keys(keys: list[tuple[SeenKey, bool]], policy: Container, source: str) -> Iterator[Reason]:
    for key, again in keys:
        if not key.name and policy.empty_key != "yes":
            yield Reason("a key is empty", source, policy.empty_key, key.span)
        if again and policy.duplicate_key != "yes":
            yield Reason(f"the key {quote(key.name, 64)} occurs twice", source, policy.duplicate_key, key.span)
        if policy.bad_utf8 != "yes" and not is_utf8(key.name):
            yield Reason(f"the key {quote(key.name, 64)} is not UTF-8", source, policy.bad_utf8, key.span)
        if key.depth > 1 and policy.nested_array != "yes":
            yield Reason(f"the key {quote(key.name, 64)} holds arrays of arrays", source, policy.nested_array, key.span)
        if policy.array_items is not None and key.element >= 0 and key.length > policy.array_items:
            text = (
                f"the array of {quote(key.name, 64)} has {counted(key.length, 'element')}; it "
                f"accepts {policy.array_items:,}"
            )
            yield Reason(text, source, "no", key.span)
        if policy.string_bytes is not None and key.type == 8 and key.length > policy.string_bytes:
            text = f"the text of {quote(key.name, 64)} has {counted(key.length, 'byte')}; it accepts {policy.string_bytes:,}"
            yield Reason(text, source, "no", key.span)


def _alignment(header: Header, policy: Container, source: str) -> tuple[int, Reason | None]:
    """Return the alignment that a reader uses, and its objection, if any."""
    found = [key for key in header.keys if key.name == b"general.alignment"]
    if not found:
        return 32, None
    key = found[0]
    if key.type != 4:
        number = _as_number(key)
        outcome = policy.alignment_type if number is not None and number > 0 else "no"
        text = f"general.alignment has value type {key.type}, not u32"
        if policy.alignment_type != "yes":
            outcome = policy.alignment_type
        return number or 32, None if outcome == "yes" else Reason(text, source, outcome, key.span)
    value = int(key.value)
    if value == 0:
        outcome = policy.alignment_zero
        return 32, None if outcome == "yes" else Reason("general.alignment is 0", source, outcome, key.span)
    if value & (value - 1) and policy.alignment_odd != "yes":
        text = f"general.alignment is {value:,}, which is not a power of two"
        return value, Reason(text, source, policy.alignment_odd, key.span)
    return value, None


def _as_number(key: SeenKey) -> int | None:
    """Return the result of JavaScript's Number() for a value, if it is a whole number."""
    if isinstance(key.value, int):
        return key.value
    try:
        return int(key.value) if isinstance(key.value, str | bytes) else None
    except ValueError:
        return None


def _table(tensors: list[tuple[SeenTensor, bool]], policy: Container, source: str) -> Iterator[Reason]:
    """Yield the objections of a reader to names and shapes."""
    for tensor, again in tensors:
        span = tensor.span
        if policy.name_bytes is not None and len(tensor.name) > policy.name_bytes:
            text = (
                f"the name of {shown(tensor)} has {counted(len(tensor.name), 'byte')}; it accepts {policy.name_bytes}"
            )
            yield Reason(text, source, "no", span)
        if policy.bad_utf8 != "yes" and not is_utf8(tensor.name):
            yield Reason(f"the name {shown(tensor)} is not UTF-8", source, policy.bad_utf8, span)
        if again and policy.duplicate_name != "yes":
            yield Reason(f"the name {shown(tensor)} occurs twice", source, policy.duplicate_name, span)
        if policy.dimensions is not None and len(tensor.ne) > policy.dimensions:
            yield Reason(
                f"{shown(tensor)} has {counted(len(tensor.ne), 'dimension')}", source, policy.too_many_dimensions, span
            )
        if 0 in tensor.ne and policy.zero_length != "yes":
            yield Reason(f"{shown(tensor)} has a dimension of 0", source, policy.zero_length, span)
        if policy.length is not None and any(length > policy.length for length in tensor.ne):
            yield Reason(f"{shown(tensor)} has a dimension above {policy.length:,}", source, "no", span)
        if policy.overflow != "yes" and (prod(tensor.ne) >= INT64_END or max(tensor.ne, default=0) >= INT64_END):
            yield Reason(
                f"{shown(tensor)} has more elements than a signed 64-bit number can count",
                source,
                policy.overflow,
                span,
            )
    for tensor, _ in tensors:  # all infos are read before any is used
        if not tensor.ne and policy.no_dimensions != "yes":
            yield Reason(f"{shown(tensor)} has no dimensions", source, policy.no_dimensions, tensor.span)


# --- types, sizes and positions of tensors ---------------------------------------------------------------------------

_UINT64_END: Final = 1 << 64


def placed(subject: LintContext, runtime: Runtime, header: Header, alignment: int) -> Iterator[Reason]:
    """Yield the objections of the reader to types, sizes and positions."""
    policy, source = runtime.container, runtime.source
    data_start = padded(header.end, alignment) if alignment > 0 else header.end
    expected, size = 0, subject.file.size
    if policy.in_order and header.tensors and data_start > size:
        yield Reason("the data section begins beyond the end of the file", source, "no", Span(size, size, "data"))
    for tensor in header.tensors:
        if tensor.number not in runtime.types:
            outcome = policy.retired_type if tensor.number in RETIRED_SLOTS else policy.unknown_type
            if outcome != "yes":
                at = _field(tensor, 12, "type")
                refusal = runtime.refusal if tensor.number == 36 and runtime.refusal is not None else None
                stated = refusal.text if refusal is not None else f"it does not know tensor type {tensor.number}"
                run = refused_type(runtime, subject, _name(subject, tensor.number))
                if refusal is not None and not says_something(refusal.source, subject):
                    if run is None:
                        yield not_tried(subject, runtime.kind == "engine")
                        continue
                    refusal = None
                by = refusal.source if refusal is not None else run.citation if run is not None else source
                yield Reason(f"{shown(tensor)} has type {tensor.number}: {stated}", by, outcome, at)
            continue
        kind = _kind(tensor, runtime)
        if kind is None:
            continue
        block, nbytes = kind
        row = tensor.ne[0] if tensor.ne else 1
        checked = policy.in_order or policy.in_file or policy.mapped
        if row % block and checked and policy.split_block != "yes":
            at = _field(tensor, 12, "type")
            yield Reason(
                f"{shown(tensor)} has rows of {counted(row, 'element')}, and its type has blocks of {block}",
                source,
                policy.split_block,
                at,
            )
        if policy.in_order:
            if tensor.offset != expected:
                text = f"{shown(tensor)} begins at {tensor.offset:,} of the data section; it must begin at {expected:,}"
                yield Reason(text, source, "no", _field(tensor, 8, "offset"))
            expected += padded(nbytes, alignment)
            if expected >= INT64_END:
                yield Reason("the sizes of the tensors overflow", source, "no", _field(tensor, 8, "offset"))
        yield from _inside(runtime, tensor, data_start, nbytes, size)
    if (shift := subject.shift) is not None and data_start != subject.file.data_start:
        text = f"it reads the tensors where the header puts them, and all lie {shift.words}"
        yield Reason(text, source, "wrong")


def _inside(runtime: Runtime, tensor: SeenTensor, data_start: int, nbytes: int, size: int) -> Iterator[Reason]:
    """Yield the objections to a tensor that is not whole in the file, of a reader or of the loader after it."""
    policy, start = runtime.container, data_start + tensor.offset
    if start + nbytes <= size and start < _UINT64_END:
        return
    at, beyond = _field(tensor, 8, "offset"), f"{shown(tensor)} reaches beyond the end of the file"
    if policy.in_file and start + nbytes > size:
        yield Reason(beyond, dict(runtime.loader).get("count", runtime.source), "no", at)
    if policy.mapped and nbytes and start % _UINT64_END + nbytes > size:
        yield Reason(beyond, runtime.source, "no", at)
    if runtime.kind == "engine" and not policy.in_file and start + nbytes > size:
        yield Reason(f"not tried: {beyond}", "", "unknown", at)


def _name(subject: LintContext, number: int) -> str:
    kind = subject.file.tensors.common_type(number)
    return kind.name if kind is not None else str(number)


def _field(tensor: SeenTensor, before_end: int, name: str) -> Span:
    """Return the type (12 bytes before the end of a tensor info) or the offset (8)."""
    start = max(tensor.span.start, tensor.span.stop - before_end)
    return Span(start, min(start + (4 if name == "type" else 8), tensor.span.stop), f"{tensor.span.path}.{name}")


def shown(tensor: SeenTensor) -> str:
    """Return the name of a tensor, as messages show it."""
    return quote(tensor.name, 64)


@lru_cache(maxsize=256)
def _meant(number: int, bitnet: bool) -> TensorType | None:
    """Return the meaning of a type number in the BitNet forks, or in all other programs."""
    readings = READINGS.get(number)
    if not readings:
        return None
    chosen = next((kind for kind in readings if (kind.family == "BitNet") == bitnet), readings[0])
    return chosen if bitnet or chosen.family == "ggml" else None


def _kind(tensor: SeenTensor, runtime: Runtime) -> tuple[int, int] | None:
    """Return the elements of a block and the bytes of a tensor, by the runtime's own table; None if not known."""
    chosen = _meant(tensor.number, 36 in runtime.types)
    if chosen is None:
        return None
    for number, elements, nbytes in runtime.block_bytes:
        if tensor.number == number:
            return elements, prod(tensor.ne) // elements * nbytes
    return chosen.block, chosen.nbytes(tensor.ne)


# --- lenient header --------------------------------------------------------------------------------------------------
# A header as another reader sees it: keys and tensor infos with their bytes, and why it stopped.
#
# If our own reader found no fault, its index has everything (`indexed`). If it did, `lenient_header` continues as lenient
# readers do: they accept version 1, zeros for bytes that the file lacks, nested arrays, invalid alignments. How a reader
# continues is declared (`schema.runtimes.Container`); the walk is bounded in bytes, records and strings.

#: Most strings in arrays of a damaged header that are walked.
MOST_STRINGS: Final = 1 << 20

_WIDTHS: Final = {kind: SMALLEST_VALUE[kind] for kind in VALUE_FORMATS}


#: Bytes of memory that ggml's reader needs for a key, a tensor info, a tensor and a string.
_KEY_BYTES: Final = 48
_TENSOR_BYTES: Final = 88
_TENSOR_OVERHEAD: Final = 368
_STRING_BYTES: Final = 16


class SeenKey(NamedTuple):
    """A key-value: its name, its bytes, type, element type (-1 for none), length, its value if it is a number, depth."""

    name: bytes
    span: Span
    type: int
    element: int
    length: int
    value: Any
    depth: int


class Header(NamedTuple):
    """A header as one reader sees it; `end` is where its tensor infos end."""

    version: int
    big: bool
    keys: list[SeenKey]
    tensors: list[SeenTensor]
    end: int
    stop: Stop | None


def indexed(file: File) -> Header:
    """Return the header of a file in which our reader found no fault."""
    return Header(file.version or 0, file.byte_order == "big", list(_keys_of(file)), list(_tensors_of(file)),
                  file.infos_end or 24, None)  # fmt: skip


def _keys_of(file: File) -> Iterator[SeenKey]:
    for i in range(file.index.keys):
        entry = file.index.key(i)
        name, kind, element = entry.name, entry.type, entry.element
        value = file.metadata.decode(entry) if name == b"general.alignment" else None
        depth = 2 if element == ValueType.ARRAY else 1 if kind == ValueType.ARRAY else 0
        yield SeenKey(name, entry.span, kind, element, entry.count, value, depth)


def _tensors_of(file: File) -> Iterator[SeenTensor]:
    for i in range(file.index.tensors):
        info = file.index.tensor(i)
        yield SeenTensor(info.name, info.span, info.ne, info.type, info.offset)


def lenient_header(file: File, policy: Container) -> Header:
    """Return the header as seen by a reader that stops only where its policy says.

    :param file: a file with a fault; its magic must be right
    """
    walk = _Walk(file, policy)
    try:
        walk.run()
        stop = None
    except StopWalkError as stopped:
        stop = stopped.stop
    at = walk.records
    return Header(at.version, at.big, walk.keys, walk.tensors, at.at, stop)


class _Walk:
    """One pass over the bytes of a header, with a budget."""

    def __init__(self, file: File, policy: Container) -> None:
        self.size = file.size
        self.magic = file.source.read(0, min(file.size, 4))
        self.policy = policy
        self.records = LenientRecords(file.source.read(0, min(file.size, MOST_BYTES)), policy, file.size)
        self.strings_left = MOST_STRINGS
        self.keys: list[SeenKey] = []
        self.tensors: list[SeenTensor] = []

    def run(self) -> None:
        if self.magic != b"GGUF":
            raise StopWalkError("no", "it does not begin with GGUF", Span(0, min(4, self.size), "header.magic"))
        self.records.at = 4
        self._version()
        wide = self.records.word
        tensors, keys = self.records.number(wide, "header.tensor_count"), self.records.number(wide, "header.key_count")
        for what, count, most, start in (
            ("tensors", tensors, self.policy.tensors, 8),
            ("keys", keys, self.policy.keys, 8 + wide),
        ):
            if most is not None and count > most:
                span = Span(min(start, self.size), min(start + wide, self.size), "header")
                raise StopWalkError("no", f"it stops at {most:,} {what}; the header promises {count:,}", span)
        self._announced(tensors, keys)
        for i in range(keys):
            self.records.spend()
            self.keys.append(self._key(f"key_values[{i}]"))
        self.records.allocated(tensors, _TENSOR_BYTES, "tensor infos", "header.tensor_count")
        for i in range(tensors):
            self.records.spend()
            self.tensors.append(self.records.tensor(f"tensor_infos[{i}]"))

    def _announced(self, tensors: int, keys: int) -> None:
        """Check an announced count as a reader that allocates memory first does: whether so many records could exist."""
        if self.policy.allocates is not None:
            for count, width, path in (
                (tensors, _TENSOR_OVERHEAD, "header.tensor_count"),
                (keys, _KEY_BYTES, "header.key_count"),
            ):
                if count >= ((1 << 63) - 1) // width:
                    self.records.stop("no", f"it refuses a count of {count:,}", path)
        self.records.allocated(keys, _KEY_BYTES, "keys", "header.key_count")

    def _version(self) -> None:
        span = Span(4, min(8, self.size), "header.version")
        version = self.records.number(4, "header.version")
        if version & 0xFFFF == 0 and version:
            if self.policy.big_endian != "yes":
                text = "it reads little-endian files only, and this one is big-endian, or its version is damaged"
                raise StopWalkError(self.policy.big_endian, text, span)
            self.records.big = True
            version = int.from_bytes(version.to_bytes(4, "little"), "big")
        self.records.version = version
        if version == 1 and not self.policy.version_1:
            raise StopWalkError("no", "it no longer reads GGUF version 1", span)
        if self.policy.versions and version not in self.policy.versions:
            raise StopWalkError("no", f"it does not know GGUF version {version:,}", span)

    def _key(self, path: str) -> SeenKey:
        start = self.records.at
        name = self.records.string(path)
        kind = self.records.number(4, path)
        if kind > 12:
            text = f"it does not know the value type {kind:,}"
            self.records.stop(self.policy.value_type, text, f"{path}.type")
        element, count, depth = -1, 1, 0
        value: Any = None
        if kind == ValueType.STRING:
            text_value = self.records.string(path)
            count = len(text_value)
            value = text_value if len(text_value) < 32 else None
        elif kind == ValueType.ARRAY:
            element, count, depth = self._array(path)
        else:
            raw = self.records.number(_WIDTHS[kind], path)
            value = raw if kind not in (6, 12) else None
            if kind in (1, 3, 5, 11) and value is not None and value >> (8 * _WIDTHS[kind] - 1):
                value -= 1 << 8 * _WIDTHS[kind]
        return SeenKey(name, self.records.span(start, path), kind, element, count, value, depth)

    def _array(self, path: str) -> tuple[int, int, int]:
        """Return an array and its nested arrays, without recursion: element type, count and depth."""
        first: tuple[int, int] | None = None
        deepest, pending = 1, [(1, 1)]  # (depth, number of arrays that still follow at this depth)
        while pending:
            depth, arrays = pending.pop()
            if arrays > 1:
                pending.append((depth, arrays - 1))
            self.records.spend()
            deepest = max(deepest, depth)
            most = self.policy.array_depth
            if most is not None and depth > most:
                self.records.stop("no", f"it reads nested arrays only up to a depth of {most}", path)
            element, count = self.records.number(4, path), self.records.number(self.records.word, path)
            first = first or (element, count)
            if self.policy.array_items is not None and count > self.policy.array_items:
                text = f"it accepts arrays of at most {counted(self.policy.array_items, 'element')}; this one has {count:,}"
                self.records.stop("no", text, path)
            if element > 12 and (count or self.policy.end != "short"):
                text = f"it does not know the element type {element:,}"
                self.records.stop(self.policy.value_type, text, path)
            if element != ValueType.ARRAY:
                width = _STRING_BYTES if element == ValueType.STRING else _WIDTHS.get(element, 1)
                self.records.allocated(count, width, "elements of an array", path)
            if element == ValueType.ARRAY:
                if self.policy.nested_array != "yes":
                    self.records.stop(self.policy.nested_array, "it does not accept arrays of arrays", path)
                if count:
                    pending.append((depth + 1, count))
            elif element == ValueType.STRING:
                self._strings(count, path)
            elif count:
                self._skip(element, count, path)
        assert first is not None
        return *first, deepest

    def _strings(self, count: int, path: str) -> None:
        """Read an array of strings."""
        self.strings_left -= min(count, max(0, self.records.remaining) // 8 + 1)
        if self.strings_left < 0:
            self.records.stop("unknown", "after its fault, the header is too long to be read further", path)
        for _ in range(count):
            if self.records.remaining <= 0 and self.policy.end == "zeros":
                return self._skip(ValueType.UINT64, count, path)  # endless empty strings follow
            self.records.string(path)
        return None

    def _skip(self, element: int, count: int, path: str) -> None:
        """Pass over an array of numbers; readers differ if the file ends inside it."""
        width = _WIDTHS[element]
        room = max(0, self.records.remaining)
        if count * width > room:
            if self.policy.end == "no":
                self.records.stop("no", "an array reaches beyond the end of the file", path)
            if self.policy.end == "short":
                if room % width:
                    self.records.stop("no", "the file ends inside an array", path)
                if count > 100_000_000:
                    text = (
                        f"it reads {counted(count, 'element that is', 'elements that are')} not "
                        f"there, one by one: it never returns"
                    )
                    self.records.stop("crash", text, path)
                self.records.at += room
                return
        self.records.at += count * width
