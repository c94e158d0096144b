"""The vectors of whole files: sound files, files with one fault each, and files that a reader only has to survive.

`container_json` gives the contents of a file, which are the answer for sound ones.
"""

from __future__ import annotations

import struct
from collections.abc import Iterator
from dataclasses import replace
from hashlib import sha256
from typing import Any, Final

from i2s_spec.compare.hash import canonical_value
from i2s_spec.conformance.malformed_suite import Phase, phase_of
from i2s_spec.conformance.vectors.vector import Draft
from i2s_spec.fuzzing.inputs import sound
from i2s_spec.gguf.reader import File, KeyValue, open
from i2s_spec.linter.engine import lint
from i2s_spec.linter.rule import Rule, Severity
from i2s_spec.linter.rules import REGISTRY
from i2s_spec.schema.types import VALUE_LABELS, ValueType
from i2s_spec.testing.malformed import Case, malformed

#: Larger malformed files are left to `i2s vectors export --malformed`: 140 of them are whole models with one wrong key.
LARGEST: Final = 64 << 10

#: The phases of vectors by those of the malformed files, for faults of the container.
_PHASES: Final = {
    Phase.HEADER: "header",
    Phase.METADATA: "metadata",
    Phase.TABLE: "info",
    Phase.DATA: "extent",
    Phase.PAYLOAD: "payload",
}

#: The bugs that the faults of a rule's family show.
_FAMILY_FLAGS: Final = {"M": "model-not-checked", "S": "bounds-not-checked"}


def drafts() -> Iterator[Draft]:
    """Every vector of whole files."""
    yield from _sound()
    sound_floats = _file()
    yield from _sound_floats(sound_floats)
    yield from _faulty_floats(sound_floats)
    yield from _disputed_floats()
    for case in malformed():
        if not case.large and len(case.data) <= LARGEST:
            yield from _malformed(case)


def _sound() -> Iterator[Draft]:
    for made in sound():
        if len(made.data) > LARGEST:
            continue
        file = open(made.data)
        name = made.what.replace(",", "").replace(" ", "-")
        types = {f"type.{tensor.type.name.lower()}" for tensor in file.tensors.values() if tensor.type is not None}
        ternary = sorted(types - {"type.f32", "type.f16"})
        more = [
            feature
            for feature, met in (("big-endian", file.byte_order == "big"), ("gguf.v2", file.version == 2))
            if met
        ]
        yield Draft(
            f"container/{name}", "container", "2.1", made.data, _comment(made.what), json=container_json(file),
            features=(*ternary, *more), requirement="R2.1-1",
            flags=("offset-from-start", "alignment-ignored", "ne-reversed", "value-type-confused", "array-length",
                   "tail-forgotten", "version-2-refused", "big-endian-refused"),
        )  # fmt: skip


def _comment(what: str) -> str:
    reason = (
        " No mutant fails at it: it is there for readers that count from 1, or divide by a count."
        if "no tensor" in what
        else ""
    )
    return f"A sound file: {what}.{reason}"


def _malformed(case: Case) -> Iterator[Draft]:
    rule = REGISTRY[case.code]
    phase = phase_name(rule, case.path)
    bad = Draft(
        f"verdict/{case.code}/{case.name}", "verdict", rule.clause, case.data, f"{rule.title} ({case.name})",
        json={"verdict": "invalid"}, verdict="invalid", phase=phase, rule=case.code, features=("type.i2_s",),
        flags=_flags(rule, phase),
    )  # fmt: skip
    if rule.severity is not Severity.ERROR or rule.family == "P":  # other readers may accept what one refuses
        yield replace(bad, json=None, verdict="either", phase=None, flags=())
        return
    if rule.stops is not None:
        yield replace(bad, name=f"container/malformed/{case.code}/{case.name}", op="container", json=None)
    yield bad


def phase_name(rule: Rule, path: str) -> str | None:
    """The phase of a fault, None for what is no error."""
    found = phase_of(rule, path)
    if found is Phase.NEVER:
        return None
    if rule.family not in "GIB":
        return "semantics"
    if path.startswith("header.magic") or rule.code.startswith("G0"):
        return "magic"
    return _PHASES[found]


def _flags(rule: Rule, phase: str | None) -> tuple[str, ...]:
    if rule.family in _FAMILY_FLAGS:
        return (_FAMILY_FLAGS[rule.family],)
    return (f"accepts-bad-{phase}",)


# Files without any ternary tensor, for readers that do not know ternary types; written here byte by byte.


def _text(value: bytes) -> bytes:
    return struct.pack("<Q", len(value)) + value


def _file(
    *, magic: bytes = b"GGUF", version: int = 3, tensors: int | None = None, keys: int | None = None, alignment: int = 32,
    ne: tuple[int, ...] = (8, 2), type: int = 0, offsets: tuple[int, int] = (0, 64), name: bytes = b"a.weight",
    name_length: int | None = None, key: bytes = b"general.architecture", key_length: int | None = None, kind: int = 8,
    value: bytes | None = None, dims: int | None = None, data: int = 128, more: bytes = b"", more_keys: int = 0,
) -> bytes:  # fmt: skip
    """A file with two F32 tensors of [8, 2]; every part can be made wrong."""
    head = magic + struct.pack(
        "<IQQ", version, 2 if tensors is None else tensors, 1 + more_keys if keys is None else keys
    )
    body = struct.pack("<Q", len(key) if key_length is None else key_length) + key + struct.pack("<I", kind)
    body += _text(b"sample") if value is None else value
    body += more
    infos = b""
    for each, place in ((name, offsets[0]), (b"b.weight", offsets[1])):
        length = len(each) if name_length is None or each != name else name_length
        infos += struct.pack("<Q", length) + each + struct.pack("<I", len(ne) if dims is None else dims)
        infos += b"".join(struct.pack("<Q", size) for size in ne) + struct.pack("<IQ", type, place)
    header = head + body + infos
    return header + bytes(-len(header) % alignment) + struct.pack("<f", 1.5) * (data // 4)


def _u32(key: bytes, value: int) -> bytes:
    return _text(key) + struct.pack("<II", 4, value)


def _sound_floats(sound_file: bytes) -> Iterator[Draft]:
    """Sound files without I2_S: the originals of the faulty files, and what readers get wrong in sound files."""
    yield Draft("container/floats/sound", "container", "2.1", sound_file, "A sound file with two F32 tensors: what the "
                "faults below are changes of.", json=container_json(open(sound_file)), requirement="R2.1-1",
                flags=("offset-from-start", "ne-reversed"))  # fmt: skip
    aligned = _file(alignment=64, more=_u32(b"general.alignment", 64), more_keys=1)
    yield Draft("container/floats/alignment-64", "container", "2.7", aligned, "general.alignment is 64.",
                json=container_json(open(aligned)), flags=("alignment-ignored",), requirement="R2.7-2")  # fmt: skip
    values = b"".join(
        _text(b"v." + name.encode()) + struct.pack("<I", kind) + value
        for name, kind, value in (
            ("u8", 0, b"\xff"), ("i8", 1, b"\x80"), ("u16", 2, b"\xff\xff"), ("i16", 3, b"\x00\x80"),
            ("u32", 4, b"\xff" * 4), ("i32", 5, b"\x00\x00\x00\x80"), ("f32", 6, struct.pack("<f", -0.0)),
            ("bool", 7, b"\x01"), ("u64", 10, b"\xff" * 8), ("i64", 11, b"\x00" * 7 + b"\x80"),
            ("f64", 12, struct.pack("<d", 0.1)), ("str", 8, _text("\u00e9\u4e2d".encode())), ("str0", 8, _text(b"")),
            ("arr", 9, struct.pack("<IQ", 0, 300) + bytes(range(100)) * 3), ("arr0", 9, struct.pack("<IQ", 8, 0)),
            ("nested", 9, struct.pack("<IQ", 9, 2) + struct.pack("<IQII", 4, 2, 1, 2)
             + struct.pack("<IQ", 8, 1) + _text(b"x")),
        )
    )  # fmt: skip
    extremes = _file(more=values, more_keys=16)
    yield Draft("container/floats/values", "container", "2.5", extremes, "Every value type at its end, an array of 300, an "
                "empty one, and nested ones.", json=container_json(open(extremes)), requirement="R2.5-1",
                flags=("value-type-confused", "array-length"))  # fmt: skip


def _faulty_floats(sound_file: bytes) -> Iterator[Draft]:
    """Files that every reader has to refuse."""
    cases: tuple[tuple[str, bytes, str, str, str, str], ...] = (
        ("magic", _file(magic=b"GGML"), "magic", "2.2", "R2.2-1", "The magic is GGML."),
        ("empty", b"", "magic", "2.2", "R2.2-1", "No bytes at all."),
        ("magic-alone", b"GGUF", "header", "2.2", "R2.2-2", "Four bytes: the magic alone."),
        ("version-0", _file(version=0), "header", "2.3", "R2.3-1", "Version 0."),
        ("version-9", _file(version=9), "header", "2.3", "R2.3-1", "A version that does not exist yet."),
        ("tensors-2-60", _file(tensors=1 << 60), "header", "2.2", "R2.2-3", "2^60 tensors in a file of 300 bytes."),
        ("keys-2-60", _file(keys=1 << 60), "header", "2.2", "R2.2-3", "2^60 key-values in a file of 300 bytes."),
        ("key-2-62", _file(key_length=1 << 62), "metadata", "2.4", "R2.4-1", "A key of 2^62 bytes."),
        ("key-minus-1", _file(key_length=(1 << 64) - 1), "metadata", "2.4", "R2.4-1",
         "A key of 2^64 - 1 bytes: with a sign, -1."),
        ("value-type-13", _file(kind=13), "metadata", "2.5", "R2.5-1", "A value type that does not exist."),
        ("string-2-63", _file(value=struct.pack("<Q", 1 << 63) + b"sample"), "metadata", "2.5", "R2.5-2",
         "A string of 2^63 bytes."),
        ("array-2-61", _file(kind=9, value=struct.pack("<IQ", 10, 1 << 61)), "metadata", "2.5", "R2.5-2",
         "An array of 2^61 u64: 8 times that is 0 in 64 bits."),
        ("array-deep", _file(kind=9, value=struct.pack("<IQ", 9, 1) * 200 + struct.pack("<IQI", 4, 1, 7)), "metadata", "2.5",
         "R2.5-3", "Arrays nested 200 deep."),
        ("dimensions-5", _file(ne=(2, 2, 2, 2, 1)), "info", "2.6", "R2.6-5", "Five dimensions."),
        ("dimensions-2-31", _file(dims=1 << 31), "info", "2.6", "R2.6-5", "2^31 dimensions."),
        ("elements-wrap", _file(ne=(1 << 33, 1 << 33)), "info", "2.6", "R2.6-6",
         "2^33 times 2^33 elements: 2^66 is 4 in 64 bits."),
        ("type-9999", _file(type=9999), "info", "2.6", "R2.6-7", "A type that no ggml defines."),
        ("name-2-62", _file(name_length=1 << 62), "info", "2.6", "R2.6-2", "A name of 2^62 bytes."),
        ("offset-behind", _file(offsets=(0, 1 << 40)), "extent", "2.7", "R2.7-4", "A tensor far behind the file."),
        ("offset-wraps", _file(offsets=(0, (1 << 64) - 32)), "extent", "2.7", "R2.7-4",
         "An offset that wraps around to inside the file."),
        ("data-missing", _file(data=96), "extent", "2.7", "R2.7-4", "The last 32 bytes are missing."),
        ("alignment-0", _file(more=_u32(b"general.alignment", 0), more_keys=1), "metadata", "2.7", "R2.7-1",
         "general.alignment is 0: who divides by it, crashes."),
        ("header-cut", sound_file[:20], "header", "2.2", "R2.2-2", "The header ends after 20 bytes."),
        ("infos-cut", sound_file[:110], "info", "2.6", "R2.6-1", "The file ends inside a tensor info."),
    )  # fmt: skip
    for name, data, phase, clause, requirement, comment in cases:
        yield Draft(f"container/floats/{name}", "container", clause, data, comment, verdict="invalid", phase=phase,
                    requirement=requirement, rule=lint(data).findings[0].code, flags=(f"accepts-bad-{phase}",))  # fmt: skip


def _disputed_floats() -> Iterator[Draft]:
    """Files that readers may take or refuse, and must survive."""
    for name, data, comment in (
        ("duplicate-key", _file(more=_text(b"general.architecture") + struct.pack("<I", 8) + _text(b"other"), more_keys=1),
         "A key twice: of two values the first counts, to who accepts the file."),
        ("alignment-24", _file(alignment=24, more=_u32(b"general.alignment", 24), more_keys=1, offsets=(0, 72), data=136),
         "general.alignment is 24: a multiple of 8 and no power of two."),
        ("overlap", _file(offsets=(0, 32)), "Two tensors share 32 bytes."),
        ("name-70", _file(name=b"n" * 70), "A name of 70 bytes: ggml holds 63."),
        ("key-not-utf8", _file(key=b"general.\xff\xfe"), "A key that is not UTF-8."),
    ):  # fmt: skip
        yield Draft(f"container/floats/{name}", "container", "2.4" if "key" in name else "2.7", data, comment,
                    verdict="survive")  # fmt: skip


# --- container JSON --------------------------------------------------------------------------------------------------
# With these contents every reader can be compared (`INTERPRETING.md`, container).
#
#     {"alignment":32,"byte_order":"little","kv":[...],"tensors":[...],"version":3}
#
# Numeric values are text, so that no reader loses digits of 64-bit numbers: integers in decimal, floats as their bits
# in hexadecimal. An array is its element type, its length, and the SHA-256 of its elements as a little-endian file has
# them.

#: Bytes of an array before its elements: element type and length, after the type of the value.
_ARRAY_HEAD = 16


def container_json(file: File) -> dict[str, Any]:
    """Header, key-values and tensor infos of an open file.

    :raises FormatError: for a tensor whose size is not known
    """
    return {
        "version": file.version,
        "byte_order": file.byte_order,
        "alignment": file.alignment,
        "kv": [_key_value(file, entry) for entry in file.metadata.rows],
        "tensors": [
            {
                "name": tensor.name,
                "type": tensor.number,
                "ne": list(tensor.ne),
                "offset": tensor.span.start,
                "nbytes": tensor.nbytes,
            }
            for tensor in file.tensors.rows
        ],
    }


def _key_value(file: File, entry: KeyValue) -> dict[str, Any]:
    raw = b"".join(canonical_value(file, entry))
    found: dict[str, Any] = {"key": entry.name.decode("utf-8"), "type": VALUE_LABELS[ValueType(entry.type)]}
    if entry.type == ValueType.ARRAY:
        return {
            **found,
            "of": VALUE_LABELS[ValueType(entry.element)],
            "count": entry.count,
            "sha256": sha256(raw[_ARRAY_HEAD:]).hexdigest(),
        }
    data = raw[4:]
    if entry.type == ValueType.STRING:
        text = data[8:]
        try:
            return {**found, "value": text.decode("utf-8")}
        except UnicodeDecodeError:
            return {**found, "hex": text.hex()}
    if entry.type == ValueType.BOOL:
        return {**found, "value": data != b"\0"}
    if entry.type in (ValueType.FLOAT32, ValueType.FLOAT64):
        return {**found, "bits": data[::-1].hex()}
    signed = entry.type in (ValueType.INT8, ValueType.INT16, ValueType.INT32, ValueType.INT64)
    return {**found, "value": str(int.from_bytes(data, "little", signed=signed))}
