"""This module changes whole records: it doubles, removes, moves, adds and mixes key-values, tensor infos and array
elements.

Most of the time counts are updated; if not, the count is a lie as well.
"""

from __future__ import annotations

import re
from functools import cache
from random import Random
from typing import Any, Final

from i2s_spec.schema import gguf
from i2s_spec.schema.architectures.architecture import ARCHITECTURES
from i2s_spec.schema.gguf import ALIGNMENT_KEY
from i2s_spec.schema.types import VALUE_FORMATS, VALUE_LABELS, ValueType
from i2s_spec.testing.mutator.anatomy import Anatomy, dissect
from i2s_spec.testing.mutator.edit import Mutation, operator
from i2s_spec.testing.mutator.fields import dictionary
from i2s_spec.testing.sample import array, key_value

#: How often a count is not updated.
_FORGETFUL: Final = 1 / 10

_ITEM: Final = re.compile(r"(.*)\.items\[(\d+)\](.*)")


@operator(6)
def double(anatomy: Anatomy, chance: Random) -> Mutation | None:
    """A record is doubled: after itself, or somewhere else in its section."""
    section, record = _record(anatomy, chance)
    if record is None:
        return None
    at = chance.choice(anatomy.records[section]).start
    data = anatomy.replaced(at, at, anatomy.data[record.start : record.stop])
    return Mutation(_following(anatomy, data, section, 1, chance), "the record doubled", record.path)


@operator(5)
def remove(anatomy: Anatomy, chance: Random) -> Mutation | None:
    """A record is removed."""
    section, record = _record(anatomy, chance)
    if record is None:
        return None
    data = anatomy.replaced(record.start, record.stop, b"")
    return Mutation(_following(anatomy, data, section, -1, chance), "the record removed", record.path)


@operator(4)
def swap(anatomy: Anatomy, chance: Random) -> Mutation | None:
    """Two records of a section are exchanged."""
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
    """An element of an array is doubled or removed."""
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
    """A key-value is added: a known name, with a value of an allowed type, or of any type."""
    records = anatomy.records["key_values"]
    count = anatomy.places.get("header.key_count")
    if count is None or (not records and anatomy.infos_end is None):
        return None
    at = chance.choice(records).start if records else count.stop
    made = new_key(anatomy.order, chance)
    data = anatomy.replaced(at, at, made)
    return Mutation(_following(anatomy, data, "key_values", 1, chance), "a key-value put in front", f"byte {at}")


def splice(anatomy: Anatomy, donor: Anatomy, chance: Random) -> Mutation | None:
    """A record of another file of the same byte order is put into this one, or replaces one."""
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
    """Every declared key, as a file spells it, with its allowed types."""
    keys: dict[bytes, tuple[str, ...]] = {ALIGNMENT_KEY: ("u32",)}
    for architecture in ARCHITECTURES.values():
        keys.update((name.encode(), key.types) for name, key in architecture.keys.items())
    return tuple(keys.items())


def new_key(order: str, chance: Random) -> bytes:
    """The bytes of a random key-value record."""
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
    built: bytes = gguf.key_value(order).build(record)
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
    """A file without one of its records: the count is updated, the data of a tensor stay.

    :param section: `key_values` or `tensor_infos`
    """
    anatomy = dissect(data)
    record = anatomy.records[section][index]
    return anatomy.counted(anatomy.replaced(record.start, record.stop, b""), section, -1)
