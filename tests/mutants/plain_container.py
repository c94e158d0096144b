"""Read containers as plainly as possible, from the text of chapter 2 alone, with a check before each read."""

from __future__ import annotations

import struct
from hashlib import sha256
from typing import Any, Final

from mutants.plain_decoder import RefusedError

#: Value types: name, struct format.
_VALUES: Final = {
    0: ("u8", "B"), 1: ("i8", "b"), 2: ("u16", "H"), 3: ("i16", "h"), 4: ("u32", "I"), 5: ("i32", "i"), 6: ("f32", "f"),
    7: ("bool", "B"), 10: ("u64", "Q"), 11: ("i64", "q"), 12: ("f64", "d"),
}  # fmt: skip

#: Types of tensors: elements and bytes of a block, bytes behind the last.
_TENSORS: Final = {
    0: (1, 4, 0), 1: (1, 2, 0), 2: (32, 18, 0), 3: (32, 20, 0), 6: (32, 22, 0), 7: (32, 24, 0), 8: (32, 34, 0),
    10: (256, 84, 0), 11: (256, 110, 0), 12: (256, 144, 0), 13: (256, 176, 0), 14: (256, 210, 0), 16: (256, 66, 0),
    17: (256, 74, 0), 18: (256, 98, 0), 19: (256, 50, 0), 20: (32, 18, 0), 21: (256, 110, 0), 22: (256, 82, 0),
    23: (256, 136, 0), 24: (1, 1, 0), 25: (1, 2, 0), 26: (1, 4, 0), 27: (1, 8, 0), 28: (1, 8, 0), 29: (256, 56, 0),
    30: (1, 2, 0), 34: (256, 54, 0), 35: (256, 66, 0), 36: (4, 1, 32), 39: (32, 17, 0), 40: (64, 36, 0), 41: (128, 18, 0),
    42: (64, 18, 0), 142: (128, 34, 0), 143: (128, 28, 0),
}  # fmt: skip

#: Types that ggml defines and the sound files do not have: known, but not sized here.
_OTHERS: Final = frozenset(range(48)) - _TENSORS.keys()


class PlainContainer:
    """One file, read from its first byte to its last tensor."""

    def __init__(self, data: bytes) -> None:
        self.data = data
        self.at = 0
        self.order = "<"
        self.phase = "magic"

    def read(self) -> dict[str, Any]:
        """The answer to `container`.

        :raises RefusedError: for a file that must not be accepted
        """
        if self.take(4) != self.magic():
            raise RefusedError("magic")
        self.phase = "header"
        version = self.word("I")
        if version & 0xFFFF == 0 and version:
            self.order = self.swapped()
            version = struct.unpack(">I", struct.pack("<I", version))[0]
        self.check_version(version)
        tensors, keys = self.word("Q"), self.word("Q")
        self.check_counts(tensors, keys)
        self.phase = "metadata"
        entries = [self.key_value() for _ in range(keys)]
        alignment = self.alignment(entries)
        self.phase = "info"
        infos = [self.info() for _ in range(tensors)]
        start = -(-self.at // alignment) * alignment
        return {
            "version": version,
            "byte_order": "big" if self.order == ">" else "little",
            "alignment": alignment,
            "kv": [shown for shown, _ in entries],
            "tensors": [self.placed(info, start, alignment) for info in infos],
        }

    def magic(self) -> bytes:
        """The first four bytes."""
        return b"GGUF"

    def swapped(self) -> str:
        """The byte order of a file whose version has its bytes at the other end."""
        return ">"

    def check_version(self, version: int) -> None:
        """Refuse versions other than 2 and 3."""
        if version not in (2, 3):
            raise RefusedError("version")

    def check_counts(self, tensors: int, keys: int) -> None:
        """Refuse counts for which the rest of the file is too small."""
        if keys * 13 + tensors * 24 > len(self.data) - self.at:
            raise RefusedError("counts")

    def take(self, count: int) -> bytes:
        """The next bytes."""
        if count < 0 or count > len(self.data) - self.at:
            raise RefusedError("the file ends")
        found = self.data[self.at : self.at + count]
        self.at += count
        return found

    def word(self, form: str) -> Any:
        """The next number."""
        return struct.unpack(self.order + form, self.take(struct.calcsize("<" + form)))[0]

    def length(self) -> int:
        """The length in front of a text."""
        found: int = self.word("Q")
        return found

    def text(self) -> bytes:
        """A length and that many bytes."""
        return self.take(self.length())

    def key_value(self) -> tuple[dict[str, Any], Any]:
        """A key with its value as it is shown, and the value itself where it is a small number."""
        key = self.text()
        self.check_key(key)
        kind = self.word("I")
        entry: dict[str, Any] = {"key": key.decode("utf-8", "replace")}
        if kind == 8:
            text = self.text()
            try:
                return {**entry, "type": "str", "value": text.decode("utf-8")}, None
            except UnicodeDecodeError:
                return {**entry, "type": "str", "hex": text.hex()}, None
        if kind == 9:
            element, count = self.word("I"), self.array_length()
            digest = sha256(self.elements(element, count, 1)).hexdigest()
            of = self.element_name(element, count)
            return {**entry, "type": "arr", "of": of, "count": count, "sha256": digest}, None
        name, form = self.value_form(kind)
        value = self.word(form)
        if name == "bool":
            self.check_bool(value)
            return {**entry, "type": name, "value": value != 0}, value
        if name in ("f32", "f64"):
            return {**entry, "type": name, "bits": struct.pack(">" + form, value).hex()}, value
        return {**entry, "type": name, "value": str(value)}, value

    def check_key(self, key: bytes) -> None:
        """Refuse empty keys and keys of 2^16 bytes and more."""
        if not 0 < len(key) < 65536:
            raise RefusedError("key")

    def check_bool(self, value: int) -> None:
        """A reader takes every byte but 0 as true."""

    def array_length(self) -> int:
        """How many elements an array has."""
        found: int = self.word("Q")
        return found

    def value_form(self, kind: int) -> tuple[str, str]:
        """The name and format of a value type."""
        if kind not in _VALUES:
            raise RefusedError("value type")
        return _VALUES[kind]

    def element_name(self, kind: int, count: int) -> str:
        """The name of the element type of an array."""
        return self.name_of(kind)

    def name_of(self, kind: int) -> str:
        """The name of any value type."""
        return {8: "str", 9: "arr"}.get(kind) or _VALUES[kind][0]

    def elements(self, kind: int, count: int, depth: int) -> bytes:
        """The elements of an array as a little-endian file has them."""
        if kind not in (8, 9):
            _, form = self.value_form(kind)
            size = struct.calcsize("<" + form)
            raw = self.take(self.times(size, count))
            return b"".join(raw[i : i + size][::-1] for i in range(0, len(raw), size)) if self.order == ">" else raw
        if count > (len(self.data) - self.at) // 8:
            raise RefusedError("array")
        parts = []
        for _ in range(count):
            if kind == 8:
                text = self.text()
                parts.append(struct.pack("<Q", len(text)) + text)
            else:
                self.check_depth(depth)
                inner, size = self.word("I"), self.array_length()
                parts.append(struct.pack("<IQ", inner, size) + self.elements(inner, size, depth + 1))
        return b"".join(parts)

    def times(self, size: int, count: int) -> int:
        """A product that must not wrap around."""
        return size * count

    def check_depth(self, depth: int) -> None:
        """Refuse arrays that nest too deep (section 2.5)."""
        if depth >= 4:
            raise RefusedError("depth")

    def alignment(self, entries: list[tuple[dict[str, Any], Any]]) -> int:
        """The alignment of tensors."""
        for shown, value in entries:
            if shown["key"] == "general.alignment":
                if shown["type"] != "u32":
                    raise RefusedError("alignment")
                self.check_alignment(value)
                return int(value)
        return 32

    def check_alignment(self, value: int) -> None:
        """Refuse 0 and values that are not multiples of 8."""
        if value == 0 or value % 8:
            raise RefusedError("alignment")

    def info(self) -> tuple[bytes, list[int], int, int]:
        """Name, ne, type and offset of a tensor."""
        name = self.text()
        count = self.word("I")
        self.check_dimensions(count)
        ne = [self.word("Q") for _ in range(count)]
        return name, ne, self.word("I"), self.word("Q")

    def check_dimensions(self, count: int) -> None:
        """Refuse numbers of dimensions other than one to four."""
        if not 1 <= count <= 4:
            raise RefusedError("dimensions")

    def placed(self, info: tuple[bytes, list[int], int, int], start: int, alignment: int) -> dict[str, Any]:
        """A tensor as it is shown, once its bytes are known to be in the file."""
        name, ne, type, offset = info
        elements = 1
        for size in ne:
            if size < 1 or size >= 1 << 63:
                raise RefusedError("a dimension")
            elements = self.wrapped(elements * size)
        if elements >= 1 << 63:
            raise RefusedError("elements")
        self.check_type(type)
        self.check_offset(offset, alignment)
        self.phase = "extent"
        at = self.wrapped(self.from_where(start) + offset)
        nbytes = self.nbytes(type, elements)
        self.check_extent(at, nbytes)
        self.phase = "info"
        return {"name": name.decode("utf-8"), "type": type, "ne": self.shown_ne(ne), "offset": at, "nbytes": nbytes}

    def wrapped(self, number: int) -> int:
        """A number as the reader's integers hold it; here it is exact."""
        return number

    def shown_ne(self, ne: list[int]) -> list[int]:
        """Dimensions in the order of the file."""
        return ne

    def from_where(self, start: int) -> int:
        """Where offsets are counted from: the data section."""
        return start

    def check_type(self, type: int) -> None:
        """Refuse type numbers that no type has."""
        if type not in _TENSORS and type not in _OTHERS:
            raise RefusedError("type")

    def check_offset(self, offset: int, alignment: int) -> None:
        """Refuse offsets that are not aligned."""
        if offset % alignment:
            raise RefusedError("offset")

    def nbytes(self, type: int, elements: int) -> int:
        """The size of a tensor's data."""
        block, size, tail = _TENSORS.get(type, (1, 0, 0))
        return elements // block * size + self.tail_bytes(tail)

    def tail_bytes(self, tail: int) -> int:
        """The number of bytes after the elements of I2_S."""
        return tail

    def check_extent(self, at: int, nbytes: int) -> None:
        """Refuse tensors that the file does not hold in full."""
        if at + nbytes > len(self.data):
            raise RefusedError("extent")
