"""The vectors of whole files: sound files, files with one fault each, and files that a reader only has to survive.

`container_json` gives the contents of a file, which are the answer for sound ones.
"""

from __future__ import annotations

import struct
from collections.abc import Iterator
from dataclasses import replace
from functools import cache
from hashlib import sha256
from typing import Any, Final

from i2s_spec.compare.hash import canonical_value
from i2s_spec.conformance.malformed_suite import Phase, needs_of, phase_of, same_fault, without_i2s
from i2s_spec.conformance.vectors.vector import Draft
from i2s_spec.errors import counted
from i2s_spec.fuzzing.inputs import sound
from i2s_spec.gguf.reader import File, KeyValue, open
from i2s_spec.linter.engine import lint
from i2s_spec.linter.rule import Rule, Severity
from i2s_spec.linter.rules import REGISTRY
from i2s_spec.schema.types import BY_NAME, VALUE_LABELS, ValueType, padded
from i2s_spec.testing.malformed import Case, malformed
from i2s_spec.testing.sample import Draft as Sample
from i2s_spec.testing.sample import array, key_value

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

#: The features that a file needs, by what `needs_of` says of it.
_NEEDS: Final = {"I2_S": "type.i2_s", "big-endian": "big-endian", "version 2": "gguf.v2"}

#: Faults that files without I2_S do not repeat: released programs end at some of them, and `container/floats` has the
#: harmless forms.
_WITH_I2S_ONLY: Final = frozenset({
    "nt_huge", "key_len_huge", "str_len_max", "arr_len_over", "off_oob", "off_wrap", "dim_neg", "dim_mul_ovf", "dim_wrap_4",
    "kv_type_bad", "kv_type_13", "arr_type_bad", "type99", "type_neg", "trunc_data", "trunc_at_data", "trunc_f32",
    "mem_ovf",
})  # fmt: skip


#: The sound vector beside which a faulty file counts whose own twin would be too large, or has another fault.
SOUND_MODEL: Final = "verdict/sound/llama/i2_s"


def drafts() -> Iterator[Draft]:
    """Yield every vector of whole files."""
    contents = [*_sound(), *_sound_floats(_file()), *_sizes()]
    yield from contents
    yield from _faulty_floats(_file())
    yield from _disputed_floats()
    containers = _Twins("container", {draft.data: draft for draft in contents})
    verdicts = _Twins("verdict", {})
    for data in _as_written():
        yield from verdicts.made(data)
    for case in malformed():
        if not case.large and len(case.data) <= LARGEST:
            yield from _malformed(case, containers, verdicts)


def _features(data: bytes) -> tuple[str, ...]:
    """Return what a reader needs for a file."""
    return tuple(_NEEDS[need] for need in needs_of(data) if need in _NEEDS)


def _sound() -> Iterator[Draft]:
    for made in sound():
        if len(made.data) > LARGEST:
            continue
        name = made.what.replace(",", "").replace(" ", "-")
        yield _content(f"container/{name}", made.data, _comment(made.what), requirement="R2.1-1",
                       flags=("offset-from-start", "alignment-ignored", "ne-reversed", "value-type-confused", "array-length",
                              "tail-forgotten", "version-2-refused", "big-endian-refused", "refuses-everything",
                              "refuses-type-36"))  # fmt: skip
        twin = without_i2s(made.data)
        if twin is not None and twin != made.data:
            yield _content(f"container/plain/{name}", twin, f"{_comment(made.what)[:-1]}, with F32 in place of I2_S.",
                           requirement="R2.1-1", flags=("offset-from-start", "ne-reversed", "version-2-refused",
                                                        "big-endian-refused", "refuses-everything"))  # fmt: skip


def _content(name: str, data: bytes, comment: str, clause: str = "2.1", **more: Any) -> Draft:
    """Return the vector that asks for the contents of a sound file."""
    made = Draft(name, "container", clause, data, comment, json=container_json(open(data)), **more)
    return made if "features" in more else replace(made, features=_features(data))


def _comment(what: str) -> str:
    reason = (
        " No mutant fails at it: it is there for readers that count from 1, or divide by a count."
        if "no tensor" in what
        else ""
    )
    return f"A sound file: {what}.{reason}"


@cache
def _is_sound(data: bytes) -> bool:
    return lint(data).ok


class _Twins:
    """The sound files beside which faulty ones count, each with its vector; one that is new is made when it is needed.

    :param op: `container` or `verdict`
    :param known: the vectors that there are, by their bytes
    """

    def __init__(self, op: str, known: dict[bytes, Draft]) -> None:
        self._op = op
        self._known = known

    def made(self, data: bytes) -> Iterator[Draft]:
        """Yield the vector of a file, if there is none yet."""
        if data in self._known:
            return
        name = f"{self._op}/sound/{sha256(data).hexdigest()[:8]}"
        if self._op == "container":
            draft = _content(
                name, data, "A sound file, of which faulty ones are changes.", flags=("refuses-everything",)
            )
        else:
            draft = Draft(name, "verdict", "11.2", data, f"A sound file: {_described(data)}.", json={"verdict": "valid"},
                          features=_features(data), flags=("refuses-everything", "refuses-type-36"))  # fmt: skip
        self._known[data] = draft
        yield draft

    def beside(self, faulty: Draft, base: bytes) -> Iterator[Draft]:
        """Yield a faulty file, and before it its twin: the file without the fault, or a sound model where that is
        too large or has another fault of its own."""
        if base in self._known or (len(base) <= LARGEST and _is_sound(base)):
            yield from self.made(base)
            yield replace(faulty, twin=self._known[base].name)
        else:
            yield replace(faulty, twin=SOUND_MODEL)


def _described(data: bytes) -> str:
    """Return the architecture, number of tensors, and types of a file, in words."""
    file = open(data)
    types = sorted({str(tensor.type) for tensor in file.tensors.rows})
    words = f"{counted(len(types), 'type')} of tensors ({', '.join(types)})" if types else "no tensor"
    architecture = file.metadata.get("general.architecture", "not named")
    return f"architecture {architecture}, {counted(len(file.metadata), 'key')}, {words}"


def _malformed(case: Case, containers: _Twins, verdicts: _Twins) -> Iterator[Draft]:
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
    plain = _plain(case)
    ops = ((containers, "container/malformed", "container/plain", None),) if rule.stops is not None else ()
    for twins, name, plain_name, json in (*ops, (verdicts, "verdict", "verdict/plain", bad.json)):
        made = replace(bad, name=f"{name}/{case.code}/{case.name}", op=name.partition("/")[0], json=json)
        yield from twins.beside(made, case.base)
        if plain is not None:
            data, base = plain
            yield from twins.beside(replace(made, name=f"{plain_name}/{case.code}/{case.name}", data=data,
                                            comment=f"{made.comment[:-1]}, with F32 in place of I2_S)",
                                            features=_features(data)), base)  # fmt: skip


def _plain(case: Case) -> tuple[bytes, bytes] | None:
    """Return a case and its sound file with F32 tensors in place of I2_S; None where there is none, or the fault is
    another.
    """
    if case.code[0] != "G" or case.name in _WITH_I2S_ONLY:
        return None
    data, base = without_i2s(case.data), without_i2s(case.base)
    if data is None or base is None or not same_fault(case.data, data, case.code, case.path):
        return None
    return (data, base) if _is_sound(base) else None


def phase_name(rule: Rule, path: str) -> str | None:
    """Return the phase of a fault, None for what is no error."""
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


def _as_written() -> Iterator[bytes]:
    """Yield sound files in the forms that writers give them: a validator must not refuse what a writer may write."""
    yield from (made.data for made in sound() if len(made.data) <= LARGEST)
    for sort in (False, True):  # keys and tensors by name, as programs in Go and Kotlin write them
        draft = Sample()
        file = draft.records()
        if sort:
            file.key_values.sort(key=lambda pair: pair.key)
            file.tensor_infos.sort(key=lambda info: info.name)
        else:  # what a converter notes, in value types that no key of ggml has
            file.key_values += [
                key_value(b"general.tags", ValueType.ARRAY, array(ValueType.STRING, [])),
                key_value(b"sample.empty", ValueType.ARRAY, array(ValueType.UINT32, [])),
                key_value(b"sample.note", ValueType.STRING, b" a line \n\n"),
                key_value(b"sample.u64", ValueType.UINT64, 1 << 63),
                key_value(b"gpt-oss.sample-key", ValueType.FLOAT64, 0.1),
            ]
        yield draft.built(file)


# Files without any ternary tensor, for readers that do not know ternary types; written here byte by byte.


def _text(value: bytes) -> bytes:
    return struct.pack("<Q", len(value)) + value


def _file(
    *, magic: bytes = b"GGUF", version: int = 3, tensors: int | None = None, keys: int | None = None, alignment: int = 32,
    ne: tuple[int, ...] = (8, 2), type: int = 0, offsets: tuple[int, int] = (0, 64), name: bytes = b"a.weight",
    name_length: int | None = None, key: bytes = b"general.architecture", key_length: int | None = None, kind: int = 8,
    value: bytes | None = None, data: int = 128, more: bytes = b"", more_keys: int = 0,
) -> bytes:  # fmt: skip
    """Return a file with two F32 tensors of [8, 2]; every part can be made wrong."""
    head = magic + struct.pack(
        "<IQQ", version, 2 if tensors is None else tensors, 1 + more_keys if keys is None else keys
    )
    body = struct.pack("<Q", len(key) if key_length is None else key_length) + key + struct.pack("<I", kind)
    body += _text(b"sample") if value is None else value
    body += more
    infos = b""
    for each, place in ((name, offsets[0]), (b"b.weight", offsets[1])):
        length = len(each) if name_length is None or each != name else name_length
        infos += struct.pack("<Q", length) + each + struct.pack("<I", len(ne))
        infos += b"".join(struct.pack("<Q", size) for size in ne) + struct.pack("<IQ", type, place)
    header = head + body + infos
    return header + bytes(-len(header) % alignment) + struct.pack("<f", 1.5) * (data // 4)


def _value(key: str, kind: int, value: bytes) -> bytes:
    return _text(key.encode()) + struct.pack("<I", kind) + value


def _u32(key: bytes, value: int) -> bytes:
    return _value(key.decode(), 4, struct.pack("<I", value))


def _sound_floats(sound_file: bytes) -> Iterator[Draft]:
    """Yield sound files without I2_S: the originals of the faulty files, and what readers get wrong in sound files."""
    yield Draft("container/floats/sound", "container", "2.1", sound_file, "A sound file with two F32 tensors: what the "
                "faults below are changes of.", json=container_json(open(sound_file)), requirement="R2.1-1",
                flags=("offset-from-start", "ne-reversed"))  # fmt: skip
    aligned = _file(alignment=64, more=_u32(b"general.alignment", 64), more_keys=1)
    yield Draft("container/floats/alignment-64", "container", "2.7", aligned, "general.alignment is 64.",
                json=container_json(open(aligned)), flags=("alignment-ignored",), requirement="R2.7-2")  # fmt: skip
    values = [
        _value(f"v.{name}", kind, value)
        for name, kind, value in (
            ("u8", 0, b"\xff"), ("i8", 1, b"\x80"), ("u16", 2, b"\xff\xff"), ("i16", 3, b"\x00\x80"),
            ("u32", 4, b"\xff" * 4), ("i32", 5, b"\x00\x00\x00\x80"), ("f32", 6, struct.pack("<f", -0.0)),
            ("bool", 7, b"\x01"), ("u64", 10, b"\xff" * 8), ("i64", 11, b"\x00" * 7 + b"\x80"),
            ("f64", 12, struct.pack("<d", 0.1)), ("str", 8, _text("\u00e9\u4e2d".encode())), ("str0", 8, _text(b"")),
            ("arr", 9, struct.pack("<IQ", 0, 300) + bytes(range(100)) * 3), ("arr0", 9, struct.pack("<IQ", 8, 0)),
            ("nested", 9, struct.pack("<IQ", 9, 2) + struct.pack("<IQII", 4, 2, 1, 2)
             + struct.pack("<IQ", 8, 1) + _text(b"x")),
        )
    ]  # fmt: skip
    extremes = _file(more=b"".join(values), more_keys=len(values))
    yield _content("container/floats/values", extremes, "Every value type at its end, an array of 300, an empty one, "
                   "and nested ones. Arrays of arrays violate R2.5-3: some readers refuse them.", "2.5",
                   requirement="R2.5-3", verdict="either")  # fmt: skip
    for name, more, clause, comment, flags in (
        ("value-types", values[:-1], "2.5", "Every value type at its end, an array of 300, and an empty one.",
         ("value-type-confused", "array-length")),
        ("text-edges", [
            *(_value(f"text.{word}", 8, _text(text)) for word, text in (
                ("blanks", b"  two before, two behind  "), ("line", b"\na line\n"), ("nul", b"a\0"), ("nul-only", b"\0"))),
            _value("tokens", 9, struct.pack("<IQ", 8, 4) + b"".join(map(_text, (b" ", b"\n", b"\t a", b"\0")))),
         ], "2.4", "Texts that begin or end with blanks, line ends or NUL: each byte belongs to them.", ("text-trimmed",)),
        ("empty-arrays", [_value(f"empty.{name}", 9, struct.pack("<IQ", kind, 0)) for name, kind in
                          (("text", 8), ("u32", 4), ("f32", 6), ("bool", 7))],
         "2.5", "Four empty arrays of different types.", ("empty-array-type",)),
        ("key-hyphen", [_u32(b"gpt-oss.block_count", 24)], "2.4", "A key with a hyphen, as bitnet-b1.58 and gpt-oss have "
         "them.", ("key-hyphen",)),
    ):  # fmt: skip
        yield _content(f"container/floats/{name}", _file(more=b"".join(more), more_keys=len(more)), comment, clause,
                       flags=flags, requirement="R2.5-1")  # fmt: skip
    yield _content("container/floats/version-2", _file(version=2), "Version 2, which differs in nothing that is read.",
                   "2.3", flags=("version-2-refused",), requirement="R2.3-1")  # fmt: skip


#: Types that every reader of GGUF meets, and newer ones, which need a feature.
_OLD_TYPES: Final = (
    "F16", "BF16", "F64", "I8", "I16", "I32", "I64", "Q4_0", "Q4_1", "Q5_0", "Q5_1", "Q8_0", "Q2_K", "Q3_K", "Q4_K", "Q5_K",
    "Q6_K", "IQ1_S", "IQ1_M", "IQ2_XXS", "IQ2_XS", "IQ2_S", "IQ3_XXS", "IQ3_S", "IQ4_NL", "IQ4_XS",
)  # fmt: skip
_NEW_TYPES: Final = ("TQ1_0", "TQ2_0", "MXFP4", "NVFP4", "Q1_0", "Q2_0", "PQ2_0", "PTQ1_0")


def _sizes() -> Iterator[Draft]:
    """Yield a file for each type of ggml: what its tensors take."""
    for name in (*_OLD_TYPES, *_NEW_TYPES):
        kind = BY_NAME[name]
        ne = (256, 8) if name in _NEW_TYPES else (kind.block, 3)
        room = padded(kind.nbytes(ne), 32)
        data = _file(type=kind.number, ne=ne, offsets=(0, room), data=2 * room)
        yield _content(f"container/type/{name.lower()}", data, f"Two tensors of type {kind.number}, {name}: "
                       f"{counted(kind.block, 'weight')} in {counted(kind.bytes, 'byte')}.", "2.6", flags=("type-size",),
                       requirement="R2.6-7", features=(f"type.{name.lower()}",) if name in _NEW_TYPES else ())  # fmt: skip


def _faulty_floats(sound_file: bytes) -> Iterator[Draft]:
    """Yield files that every reader has to refuse."""
    cases: tuple[tuple[str, bytes, str, str, str, str], ...] = (
        ("magic", _file(magic=b"GGML"), "magic", "2.2", "R2.2-1", "The magic is GGML."),
        ("empty", b"", "magic", "2.2", "R2.2-1", "No bytes at all."),
        ("magic-alone", b"GGUF", "header", "2.2", "R2.2-2", "Four bytes: the magic alone."),
        ("version-0", _file(version=0), "header", "2.3", "R2.3-1", "Version 0."),
        ("version-9", _file(version=9), "header", "2.3", "R2.3-1", "A version that does not exist yet."),
        ("tensors-over", _file(tensors=30), "header", "2.2", "R2.2-3", "More tensors than the file has room for."),
        ("keys-over", _file(keys=40), "header", "2.2", "R2.2-3", "More key-values than the file has room for."),
        ("key-2-62", _file(key_length=1 << 62), "metadata", "2.4", "R2.4-1", "A key of 2^62 bytes."),
        ("key-minus-1", _file(key_length=(1 << 64) - 1), "metadata", "2.4", "R2.4-1",
         "A key of 2^64 - 1 bytes: with a sign, -1."),
        ("string-2-63", _file(value=struct.pack("<Q", 1 << 63) + b"sample"), "metadata", "2.5", "R2.5-2",
         "A string of 2^63 bytes."),
        ("array-over", _file(kind=9, value=struct.pack("<IQ", 10, 100)), "metadata", "2.5", "R2.5-2",
         "An array of 100 u64, for which the file has no room."),
        ("array-deep", _file(kind=9, value=struct.pack("<IQ", 9, 1) * 200 + struct.pack("<IQI", 4, 1, 7)), "metadata", "2.5",
         "R2.5-3", "Arrays nested 200 deep."),
        ("dimensions-5", _file(ne=(2, 2, 2, 2, 1)), "info", "2.6", "R2.6-5", "Five dimensions."),
        ("elements-wrap", _file(ne=(1 << 33, 1 << 33)), "info", "2.6", "R2.6-6",
         "2^33 times 2^33 elements: 2^66 is 4 in 64 bits."),
        ("name-2-62", _file(name_length=1 << 62), "info", "2.6", "R2.6-2", "A name of 2^62 bytes."),
        ("offset-at-end", _file(offsets=(0, 128)), "extent", "2.7", "R2.7-4", "A tensor that begins where the file ends."),
        ("offset-wraps", _file(offsets=(0, (1 << 64) - 32)), "extent", "2.7", "R2.7-4",
         "An offset that wraps around to inside the file."),
        ("header-cut", sound_file[:20], "header", "2.2", "R2.2-2", "The header ends after 20 bytes."),
        ("infos-cut", sound_file[:110], "info", "2.6", "R2.6-1", "The file ends inside a tensor info."),
    )  # fmt: skip
    for name, data, phase, clause, requirement, comment in cases:
        yield Draft(f"container/floats/{name}", "container", clause, data, comment, verdict="invalid", phase=phase,
                    requirement=requirement, rule=lint(data).findings[0].code, flags=(f"accepts-bad-{phase}",),
                    twin="container/floats/sound")  # fmt: skip


def _disputed_floats() -> Iterator[Draft]:
    """Yield files that readers may take or refuse, and must survive."""
    for name, data, comment in (
        ("duplicate-key", _file(more=_text(b"general.architecture") + struct.pack("<I", 8) + _text(b"other"), more_keys=1),
         "A key twice: of two values the first counts, to who accepts the file."),
        ("alignment-u64", _file(alignment=64, more=_value("general.alignment", 10, struct.pack("<Q", 64)), more_keys=1),
         "general.alignment is a u64: some readers take it, others refuse the file."),
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
    """Return header, key-values and tensor infos of an open file.

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
