"""This module changes single fields: numbers to edge values and lies, texts to others, bytes, and the end of the file."""

from __future__ import annotations

from functools import cache
from random import Random
from typing import Final

from i2s_spec.schema.architectures.architecture import ARCHITECTURES
from i2s_spec.schema.field import FieldNode
from i2s_spec.schema.gguf import ALIGNMENT_KEY
from i2s_spec.testing.mutator.anatomy import Anatomy
from i2s_spec.testing.mutator.edit import Mutation, operator
from i2s_spec.testing.mutator.numbers import edges, floats, lies

#: Texts that have caused errors in readers.
_HOSTILE: Final = (
    b"", b"\0", b"a\0b", b"\xff\xfe", b"\xc0\xaf", b"\xed\xa0\x80", b"\x1b[2J", "\u202e".encode(), b"../../x", b" ",
    b"{{ x.__class__ }}", b"A" * 63, b"A" * 64, b"A" * 65, b"%s%n", b"a" * 4096,
)  # fmt: skip


@cache
def dictionary() -> tuple[bytes, ...]:
    """Words with a meaning in a file: names of keys, tensors and architectures, and hostile texts."""
    words = {ALIGNMENT_KEY: None, b"split.count": None, b"split.no": None}
    for architecture in ARCHITECTURES.values():
        words[architecture.prefix.encode()] = None
        words.update((key.encode(), None) for key in architecture.keys)
        words.update((spec.name.replace("{i}", "0").encode(), None) for spec in architecture.inventory)
    return (*words, *_HOSTILE)


@operator(24)
def edge(anatomy: Anatomy, chance: Random) -> Mutation | None:
    """A number becomes a value at the edge of its width."""
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
    """A number contradicts the bytes around it."""
    if not anatomy.numbers:
        return None
    leaf = chance.choice(anatomy.numbers)
    value, what = chance.choice(tuple(lies(anatomy, leaf)))
    return _put(anatomy, leaf, anatomy.packed(value, leaf.stop - leaf.start), what)


@operator(4)
def borrow(anatomy: Anatomy, chance: Random) -> Mutation | None:
    """A number becomes that of another field of its width."""
    if not anatomy.numbers:
        return None
    leaf = chance.choice(anatomy.numbers)
    same = [other for other in anatomy.numbers if other.stop - other.start == leaf.stop - leaf.start]
    other = chance.choice(same)
    return _put(anatomy, leaf, anatomy.data[other.start : other.stop], f"set to that of {other.path}")


@operator(10)
def rewrite(anatomy: Anatomy, chance: Random) -> Mutation | None:
    """A text becomes another one; its length follows, or does not."""
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
    """The file ends where a field begins or ends, or one byte away."""
    at = chance.choice(anatomy.boundaries or (0,)) + chance.choice((0, 0, 0, -1, 1))
    if not 0 <= at < len(anatomy.data):
        return None
    return Mutation(anatomy.data[:at], f"cut at byte {at}")


@operator(4)
def flip(anatomy: Anatomy, chance: Random) -> Mutation | None:
    """A bit of a field is flipped; all fields are equally likely, whatever their length."""
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
    """Bytes anywhere are replaced, doubled, removed or inserted; the data need not be a GGUF file."""
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
