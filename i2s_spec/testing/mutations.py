"""The operators that change a file at random: single fields, whole records, and the data with their positions.

Each is a function of an `Anatomy` and a random generator that gives a `Mutation`, or None where it does not apply; the
decorator `operator` adds it to the list with its weight. Fields first: numbers become edge values and lies, texts
others, bytes are stirred, and the file ends early.
"""

from __future__ import annotations

import re
from collections.abc import Iterable
from functools import cache
from random import Random
from typing import Any, Final

from construct import Container

from i2s_spec.errors import FormatError, counted
from i2s_spec.gguf.reader import File
from i2s_spec.gguf.source import BufferSource
from i2s_spec.schema import container, faults, limits
from i2s_spec.schema.architectures import ARCHITECTURES
from i2s_spec.schema.container import ALIGNMENT_KEY
from i2s_spec.schema.dialect import CODE_MAPS, LAYOUTS, TAILS, Dialect
from i2s_spec.schema.field import FieldNode
from i2s_spec.schema.types import I2_S, TENSOR_TYPES, VALUE_FORMATS, VALUE_LABELS, TensorType, ValueType, padded
from i2s_spec.testing.anatomy import Anatomy, Mutation, dissect, edges, floats, lies, operator
from i2s_spec.testing.sample import array, i2s_bytes, key_value, tensor_info

#: Texts that have caused errors in readers.
_HOSTILE: Final = (
    b"", b"\0", b"a\0b", b"\xff\xfe", b"\xc0\xaf", b"\xed\xa0\x80", b"\x1b[2J", "\u202e".encode(), b"../../x", b" ",
    b"{{ x.__class__ }}", b"A" * 63, b"A" * 64, b"A" * 65, b"%s%n", b"a" * 4096,
)  # fmt: skip


@cache
def dictionary() -> tuple[bytes, ...]:
    """Return words with a meaning in a file: names of keys, tensors and architectures, and hostile texts."""
    words = {ALIGNMENT_KEY: None, b"split.count": None, b"split.no": None}
    for architecture in ARCHITECTURES.values():
        words[architecture.prefix.encode()] = None
        words.update((key.encode(), None) for key in architecture.keys)
        words.update((spec.name.replace("{i}", "0").encode(), None) for spec in architecture.inventory)
    return (*words, *_HOSTILE)


@operator(24)
def edge(anatomy: Anatomy, chance: Random) -> Mutation | None:
    """Set a number to a value at the edge of its width."""
    if not anatomy.numbers:
        return None
    leaf = chance.choice(anatomy.numbers)
    width = leaf.stop - leaf.start
    raw = anatomy.packed(chance.choice(tuple(edges(width))), width)
    if isinstance(leaf.value, float):
        raw = chance.choice((*floats(width, anatomy.order), raw))
    return _put(anatomy, leaf, raw, "set to an edge")


@operator(16)
def lie(anatomy: Anatomy, chance: Random) -> Mutation | None:
    """Set a number to one that contradicts the bytes around it."""
    if not anatomy.numbers:
        return None
    leaf = chance.choice(anatomy.numbers)
    value, what = chance.choice(tuple(lies(anatomy, leaf)))
    return _put(anatomy, leaf, anatomy.packed(value, leaf.stop - leaf.start), what)


@operator(4)
def borrow(anatomy: Anatomy, chance: Random) -> Mutation | None:
    """Set a number to that of another field of its width."""
    if not anatomy.numbers:
        return None
    leaf = chance.choice(anatomy.numbers)
    same = [other for other in anatomy.numbers if other.stop - other.start == leaf.stop - leaf.start]
    other = chance.choice(same)
    return _put(anatomy, leaf, anatomy.data[other.start : other.stop], f"set to that of {other.path}")


@operator(10)
def rewrite(anatomy: Anatomy, chance: Random) -> Mutation | None:
    """Replace a text by another one; its length follows, or does not."""
    if not anatomy.texts:
        return None
    leaf = chance.choice(anatomy.texts)
    old = anatomy.data[leaf.start : leaf.stop]
    new = chance.choice((
        lambda: chance.choice(dictionary()),
        lambda: anatomy.data[(other := chance.choice(anatomy.texts)).start : other.stop],
        lambda: old + chance.choice(_HOSTILE),
        old.swapcase,
        lambda: old[: chance.randrange(len(old) + 1)],
        lambda: chance.randbytes(chance.choice((1, 4, 16))),
    ))()  # fmt: skip
    length = anatomy.places.get(leaf.path.removesuffix("text") + "length")
    if length is None or chance.random() < 1 / 8:
        return Mutation(anatomy.replaced(leaf.start, leaf.stop, new), "another text, the same length field", leaf.path)
    data = anatomy.packed(len(new), 8) + anatomy.data[length.stop : leaf.start] + new
    return Mutation(anatomy.replaced(length.start, leaf.stop, data), "another text", leaf.path)


@operator(6)
def cut(anatomy: Anatomy, chance: Random) -> Mutation | None:
    """End the file where a field begins or ends, or one byte away."""
    at = chance.choice(anatomy.boundaries or (0,)) + chance.choice((0, 0, 0, -1, 1))
    if not 0 <= at < len(anatomy.data):
        return None
    return Mutation(anatomy.data[:at], f"cut at byte {at}")


@operator(4)
def flip(anatomy: Anatomy, chance: Random) -> Mutation | None:
    """Flip a bit of a field; all fields are equally likely, whatever their length."""
    filled = [leaf for leaf in anatomy.leaves if leaf.start < leaf.stop]
    if not filled:
        return None
    leaf = chance.choice(filled)
    at = chance.randrange(leaf.start, leaf.stop)
    byte = anatomy.data[at] ^ (1 << chance.randrange(8))
    return Mutation(
        anatomy.data[:at] + bytes((byte,)) + anatomy.data[at + 1 :], f"a bit of byte {at} flipped", leaf.path
    )


@operator(4)
def stir(anatomy: Anatomy, chance: Random) -> Mutation | None:
    """Replace, double, remove or insert bytes anywhere; the data need not be a GGUF file."""
    data, size = anatomy.data, len(anatomy.data)
    start = chance.randrange(size + 1)
    stop = min(size, start + chance.choice((0, 1, 2, 4, 8, 32, 256)))
    new = chance.choice((
        lambda: b"",
        lambda: data[start:stop] * 2,
        lambda: bytes(stop - start or 1),
        lambda: b"\xff" * (stop - start or 1),
        lambda: chance.randbytes(stop - start or 1),
        lambda: chance.choice(dictionary()),
    ))()  # fmt: skip
    return Mutation(data[:start] + new + data[stop:], f"bytes {start} to {stop} replaced by {len(new)}")


def _put(anatomy: Anatomy, leaf: FieldNode, raw: bytes, what: str) -> Mutation | None:
    if raw == anatomy.data[leaf.start : leaf.stop]:
        return None
    return Mutation(anatomy.data[: leaf.start] + raw + anatomy.data[leaf.stop :], what, leaf.path)


# --- records ---------------------------------------------------------------------------------------------------------
# Key-values, tensor infos and array elements are doubled, removed, moved, added and mixed. Most of the time counts are
# updated; if not, the count is a lie as well.

#: How often a count is not updated.
_FORGETFUL: Final = 1 / 10

_ITEM: Final = re.compile(r"(.*)\.items\[(\d+)\](.*)")


@operator(6)
def double(anatomy: Anatomy, chance: Random) -> Mutation | None:
    """Double a record: after itself, or somewhere else in its section."""
    section, record = _record(anatomy, chance)
    if record is None:
        return None
    at = chance.choice(anatomy.records[section]).start
    data = anatomy.replaced(at, at, anatomy.data[record.start : record.stop])
    return Mutation(_following(anatomy, data, section, 1, chance), "the record doubled", record.path)


@operator(5)
def remove(anatomy: Anatomy, chance: Random) -> Mutation | None:
    """Remove a record."""
    section, record = _record(anatomy, chance)
    if record is None:
        return None
    data = anatomy.replaced(record.start, record.stop, b"")
    return Mutation(_following(anatomy, data, section, -1, chance), "the record removed", record.path)


@operator(4)
def swap(anatomy: Anatomy, chance: Random) -> Mutation | None:
    """Exchange two records of a section."""
    section, record = _record(anatomy, chance)
    if record is None or len(anatomy.records[section]) < 2:
        return None
    first, second = sorted(chance.sample(anatomy.records[section], 2), key=lambda node: node.start)
    data = anatomy.data
    parts = (
        data[: first.start], data[second.start : second.stop], data[first.stop : second.start],
        data[first.start : first.stop], data[second.stop :],
    )  # fmt: skip
    return Mutation(b"".join(parts), f"changed places with {second.path}", first.path)


@operator(5)
def element(anatomy: Anatomy, chance: Random) -> Mutation | None:
    """Double or remove an element of an array."""
    found: dict[tuple[str, str], list[Any]] = {}
    for leaf in anatomy.leaves:
        if leaf.start <= leaf.stop and (item := _ITEM.fullmatch(leaf.path)):
            found.setdefault((item[1], item[2]), []).append(leaf)
    if not found:
        return None
    array_path, number = chance.choice(tuple(found))
    leaves = found[array_path, number]
    start, stop = leaves[0].start, leaves[-1].stop
    twice = chance.random() < 0.5
    data = anatomy.replaced(start, stop, anatomy.data[start:stop] * (2 if twice else 0))
    count = anatomy.places.get(f"{array_path}.count")
    if count is not None and chance.random() > _FORGETFUL:
        value = anatomy.number(count) + (1 if twice else -1)
        data = data[: count.start] + anatomy.packed(value, 8) + data[count.stop :]
    return Mutation(data, "the element doubled" if twice else "the element removed", f"{array_path}.items[{number}]")


@operator(8)
def add_key(anatomy: Anatomy, chance: Random) -> Mutation | None:
    """Add a key-value: a known name, with a value of an allowed type, or of any type."""
    records = anatomy.records["key_values"]
    count = anatomy.places.get("header.key_count")
    if count is None or (not records and anatomy.infos_end is None):
        return None
    at = chance.choice(records).start if records else count.stop
    made = new_key(anatomy.order, chance)
    data = anatomy.replaced(at, at, made)
    return Mutation(_following(anatomy, data, "key_values", 1, chance), "a key-value put in front", f"byte {at}")


def splice(anatomy: Anatomy, donor: Anatomy, chance: Random) -> Mutation | None:
    """Put a record of another file of the same byte order into this one, or replace one by it."""
    sections = [name for name, records in donor.records.items() if records and anatomy.records[name]]
    if not sections or donor.order != anatomy.order:
        return None
    section = chance.choice(sections)
    given, here = chance.choice(donor.records[section]), chance.choice(anatomy.records[section])
    instead = chance.random() < 0.5
    data = anatomy.replaced(here.start, here.stop if instead else here.start, donor.data[given.start : given.stop])
    if not instead:
        data = _following(anatomy, data, section, 1, chance)
    return Mutation(data, f"{'replaced by' if instead else 'preceded by'} {given.path} of another file", here.path)


@cache
def _declared() -> tuple[tuple[bytes, tuple[str, ...]], ...]:
    """Return every declared key, as a file spells it, with its allowed types."""
    keys: dict[bytes, tuple[str, ...]] = {ALIGNMENT_KEY: ("u32",)}
    for architecture in ARCHITECTURES.values():
        keys.update((name.encode(), key.types) for name, key in architecture.keys.items())
    return tuple(keys.items())


def new_key(order: str, chance: Random) -> bytes:
    """Return the bytes of a random key-value record."""
    name, types = chance.choice(_declared())
    if chance.random() < 1 / 6:
        name, types = ALIGNMENT_KEY, ("u32",)
    label = chance.choice(types) if chance.random() < 0.8 else chance.choice(VALUE_LABELS)
    if label.startswith("arr"):
        inner = label[4:-1] if "[" in label else chance.choice(VALUE_LABELS)
        kind = ValueType(VALUE_LABELS.index(inner))
        items = [] if kind == ValueType.ARRAY else [_value(kind, name, chance) for _ in range(chance.choice((0, 1, 3)))]
        record = key_value(name, ValueType.ARRAY, array(kind, items))
    else:
        kind = ValueType(VALUE_LABELS.index(label))
        record = key_value(name, kind, _value(kind, name, chance))
    built: bytes = container.key_value(order).build(record)
    return built


def _value(kind: ValueType, name: bytes, chance: Random) -> Any:
    if kind == ValueType.STRING:
        return chance.choice(dictionary())
    letter = VALUE_FORMATS.get(kind, "B")
    if letter in "fd":
        return chance.choice((0.0, 1.0, 1e-5, -1.0, 1e30, float("inf"), float("nan")))
    if name == ALIGNMENT_KEY and letter == "I":
        return chance.choice((0, 1, 4, 8, 13, 16, 32, 64, 64, 128, 256, 4096, 1 << 17, 1 << 31))
    return chance.choice((0, 1, 2, 8, 40, 100))


def _record(anatomy: Anatomy, chance: Random) -> tuple[str, Any]:
    sections = [section for section, records in anatomy.records.items() if records]
    if not sections:
        return "", None
    section = chance.choice(sections)
    return section, chance.choice(anatomy.records[section])


def _following(anatomy: Anatomy, data: bytes, section: str, by: int, chance: Random) -> bytes:
    """Update the count of the records, most of the time."""
    return data if chance.random() < _FORGETFUL else anatomy.counted(data, section, by)


def without(data: bytes, section: str, index: int) -> bytes:
    """Return a file without one of its records: the count is updated, the data of a tensor stay.

    :param section: `key_values` or `tensor_infos`
    """
    anatomy = dissect(data)
    record = anatomy.records[section][index]
    return anatomy.counted(anatomy.replaced(record.start, record.stop, b""), section, -1)


# --- data ------------------------------------------------------------------------------------------------------------
# The data section is moved, and tensors are added, retyped, recoded and realigned. These operators need a file whose
# header can be read; the result is sound unless an operator breaks it on purpose.

#: Upper limit of the size of new tensors.
_MOST_BYTES = 1 << 14

_SHAPES = (
    (128, 1),
    (128, 4),
    (256, 2),
    (8,),
    (32,),
    (1,),
    (256,),
    (64, 2),
    (128, 1, 2),
    (132, 1),
    (4, 3),
    (128, 0),
    (),
)


def begun(order: str = "little") -> bytes:
    """Return a file that is only a header, as a starting point."""
    header = Container(magic=b"GGUF", version=3, tensor_count=0, key_count=0)
    built: bytes = container.header(order).build(header)
    return built


def laid_out(file: Container, contents: Iterable[bytes], alignment: int = limits.DEFAULT_ALIGNMENT) -> bytes:
    """Return a file of these records with the tensors' bytes one after the other; counts, offsets and padding are
    updated.
    """
    data = b""
    for info, content in zip(file.tensor_infos, contents, strict=True):
        info.offset = len(data)
        data += content.ljust(padded(len(content), alignment), b"\0")
    file.header.key_count, file.header.tensor_count = len(file.key_values), len(file.tensor_infos)
    file.padding, file.data = b"", b""
    end = len(container.build(file))
    file.padding, file.data = bytes(faults.data_start(end, alignment) - end), data
    return container.build(file)


def contents_of(file: File) -> list[bytes]:
    """Return the bytes of every tensor, as far as the file has them."""
    return [
        bytes(file.source.read(start, max(0, min(stop, file.size) - start)))
        for start, stop in (_extent(file, i) for i in range(file.index.tensors))
    ]


def _extent(file: File, i: int) -> tuple[int, int]:
    tensor = file.tensors.by_index(i)
    start = min(file.size, (file.data_start or 0) + tensor.offset)
    try:
        return start, max(start, start + tensor.nbytes)
    except FormatError:
        return start, start + (file.tensors.allotted_bytes(tensor.offset) or 0)


@operator(10)
def add_tensor(anatomy: Anatomy, chance: Random) -> Mutation | None:
    """Add a tensor of any type, with the bytes that it needs."""
    opened = _opened(anatomy)
    if opened is None:
        return None
    records, contents = opened
    kind, ne = _kind(chance), chance.choice(_SHAPES)
    content = _content(kind, ne, chance, anatomy.order)
    if content is None:
        return None
    at = chance.randrange(len(contents) + 1)
    name = chance.choice(dictionary())
    records.tensor_infos.insert(at, tensor_info(name, ne, kind.number, 0))
    contents.insert(at, content)
    data = laid_out(records, contents, anatomy.alignment or limits.DEFAULT_ALIGNMENT)
    return Mutation(data, f"a tensor of {kind.name} made", f"tensor_infos[{at}]")


@operator(5)
def retype(anatomy: Anatomy, chance: Random) -> Mutation | None:
    """Give a tensor another type, with the bytes that this type needs, or with its old bytes."""
    opened = _opened(anatomy)
    if opened is None or not opened[1]:
        return None
    records, contents = opened
    at = chance.randrange(len(contents))
    info, kind = records.tensor_infos[at], _kind(chance)
    info.type = kind.number
    if chance.random() < 0.8:
        content = _content(kind, info.ne, chance, anatomy.order)
        if content is None:
            return None
        contents[at] = content
    data = laid_out(records, contents, anatomy.alignment or limits.DEFAULT_ALIGNMENT)
    return Mutation(data, f"made {kind.name}", f"tensor_infos[{at}]")


@operator(6)
def realign(anatomy: Anatomy, chance: Random) -> Mutation | None:
    """Give the file another alignment, with or without laying it out for it."""
    opened = _opened(anatomy)
    if opened is None:
        return None
    records, contents = opened
    alignment = 1 << chance.randrange(13)
    held = [pair for pair in records.key_values if pair.key == ALIGNMENT_KEY]
    for pair in held[:1]:
        pair.type, pair.value = int(ValueType.UINT32), alignment
    if not held:
        place = chance.randrange(len(records.key_values) + 1)
        records.key_values.insert(place, key_value(ALIGNMENT_KEY, ValueType.UINT32, alignment))
    honored = chance.random() < 0.8
    data = laid_out(records, contents, alignment if honored else limits.DEFAULT_ALIGNMENT)
    return Mutation(data, f"aligned to {alignment}" if honored else f"said to be aligned to {alignment}", "padding")


@operator(4)
def shift(anatomy: Anatomy, chance: Random) -> Mutation | None:
    """Let the data section begin some bytes later, or earlier, than the header says."""
    if anatomy.infos_end is None or anatomy.data_start is None or anatomy.data_start > len(anatomy.data):
        return None
    start, data = anatomy.data_start, anatomy.data
    by = chance.choice((1, 4, 8, 16, 32, 64, 4096, -1, -4, -(start - anatomy.infos_end)))
    if by < 0:
        return Mutation(
            data[: start + by] + data[start:], f"the data section moved by {counted(by, 'byte')}", "padding"
        )
    return Mutation(
        data[:start] + chance.choice((b"\0", b"\xa5")) * by + data[start:], f"the data section "
                                                                            f"moved by {counted(by, 'byte')}",
        "padding",
    )  # fmt: skip


@operator(5)
def recode(anatomy: Anatomy, chance: Random) -> Mutation | None:
    """Write an I2_S tensor in another dialect: the same weights, other bytes."""
    file = File(BufferSource(anatomy.data))
    if file.fault is not None:
        return None
    start = file.data_start or 0
    ternary = [tensor for tensor in file.tensors.rows if tensor.number == I2_S.number and len(tensor.ne) == 2]
    whole = [tensor for tensor in ternary if start + tensor.offset + tensor.nbytes <= file.size]
    if not whole:
        return None
    tensor = chance.choice(whole)
    target = Dialect(
        chance.choice([layout for layout in LAYOUTS.values() if layout.in_gguf]),
        chance.choice(tuple(CODE_MAPS.values())),
        chance.choice(tuple(TAILS.values())),
    )
    start += tensor.offset
    from i2s_spec.codec import native

    try:
        new = native.transcode(
            anatomy.data[start : start + tensor.nbytes], tensor.shape, "canonical", target, byte_order=anatomy.order
        )
    except ValueError:
        return None  # a shape that one of the layouts cannot hold
    data = anatomy.data[:start] + bytes(new) + anatomy.data[start + len(new) :]
    return Mutation(data, f"written as {target}", f"data[{tensor.index}]")


@operator(3)
def turn(anatomy: Anatomy, chance: Random) -> Mutation | None:
    """Write the header in the other byte order; the data stay unchanged, or their scales are swapped, too."""
    opened = _opened(anatomy)
    if opened is None:
        return None
    records, contents = opened
    records.byte_order = "big" if anatomy.order == "little" else "little"
    swapped = chance.random() < 0.7
    if swapped:
        for i, info in enumerate(records.tensor_infos):
            if info.type == I2_S.number and len(contents[i]) >= 32:
                contents[i] = contents[i][:-32] + contents[i][-32:-28][::-1] + contents[i][-28:]
    data = laid_out(records, contents, anatomy.alignment or limits.DEFAULT_ALIGNMENT)
    return Mutation(data, f"written in {records.byte_order}-endian order{'' if swapped else ', its data not'}")


@operator(2)
def behind(anatomy: Anatomy, chance: Random) -> Mutation | None:
    """Append bytes to the file."""
    more = chance.choice((bytes(32), b"\xff" * 7, b"PK\x03\x04" + bytes(60), begun(), b"\0"))
    return Mutation(anatomy.data + more, f"{counted(len(more), 'byte')} put after the file")


def _opened(anatomy: Anatomy) -> tuple[Any, list[bytes]] | None:
    """Return a new copy of the records of a file, and the bytes of its tensors."""
    if not anatomy.sound:
        return None
    try:
        return container.parse(anatomy.data), contents_of(File(BufferSource(anatomy.data)))
    except FormatError:
        return None


def _kind(chance: Random) -> TensorType:
    return I2_S if chance.random() < 0.4 else chance.choice(TENSOR_TYPES)


def _content(kind: TensorType, ne: Iterable[int], chance: Random, order: str) -> bytes | None:
    """Return bytes for a tensor of that type, None if it would be too large for a test."""
    size = kind.nbytes(tuple(ne))
    if not 0 <= size <= _MOST_BYTES:
        return None
    if kind is I2_S and size >= 32:
        return i2s_bytes(4 * (size - 32), chance.choice((0.75, 1.0, 0.02)), "big" if order == "big" else "little")
    return bytes(size) if chance.random() < 0.5 else chance.randbytes(size)
