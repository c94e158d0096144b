"""This module breaks the format, the header and the keys of files, one copy for each rule about them."""

from __future__ import annotations

import struct

from construct import Container

from i2s_spec.schema.types import BY_NAME, ValueType, padded
from i2s_spec.testing.malformed.case import Bytes, add
from i2s_spec.testing.sample import Draft, Model, array, i2s_bytes, key_value, tensor_info


def _big() -> bytes:
    return Draft("big").data


def sound_draft() -> Draft:
    """The sound file that the cases break."""
    return Draft()


def with_keys(*pairs: Container, order: str = "little") -> bytes:
    """The sound file with more key-values."""
    draft = Draft("big" if order == "big" else "little")
    file = draft.records()
    file.key_values.extend(pairs)
    return draft.built(file)


def with_tensors(*parts: tuple[bytes, tuple[int, ...], int, int | None, bytes], alignment: int = 32) -> bytes:
    """A file with these tensors: name, ne, type number, offset (None: the running sum of sizes), bytes."""
    draft = Draft()
    file = draft.records()
    file.tensor_infos, file.data = [], b""
    for name, ne, number, offset, content in parts:
        at = len(file.data) if offset is None else offset
        file.tensor_infos.append(tensor_info(name, ne, number, at))
        file.data += content
    if alignment != 32:
        file.key_values.append(key_value(b"general.alignment", ValueType.UINT32, alignment))
    return draft.built(file, alignment)


F32, I8, BF16, Q8_0, I2S = (BY_NAME[name].number for name in ("F32", "I8", "BF16", "Q8_0", "I2_S"))
FLOATS = bytes(range(1, 33))
NEXT = (b"next.weight", (8,), F32, None, FLOATS)


def _as_text(how: str) -> bytes:
    """A sound model after a text decoder: bytes that are not UTF-8 are replaced, or each byte is read as Latin-1."""
    data = Model("bitnet-b1.58").built()
    return (data.decode("utf-8", "replace") if how == "replace" else data.decode(how)).encode()


# --- what the file is instead -------------------------------------------------------------------------------------

add("empty", "G001", "header", lambda: b"")
add("bad_magic", "G002", "header.magic", lambda: b"GGUX" + sound_draft().data[4:])
add("text", "G002", "header.magic", lambda: b"just some text\n" * 9)
add(
    "lfs_pointer", "G003", "header.magic",
    lambda: b"version https://git-lfs.github.com/spec/v1\noid sha256:" + b"0" * 64 + b"\nsize 1187801280\n",
)  # fmt: skip
add("html", "G004", "header.magic", lambda: b"\n<!DOCTYPE html><html><body>Sign in</body></html>")
add("zip", "G005", "header.magic", lambda: b"PK\x03\x04" + bytes(60))
add("gzip", "G005", "header.magic", lambda: b"\x1f\x8b\x08\x00" + bytes(60))
add("tar", "G005", "header.magic", lambda: b"model.gguf".ljust(257, b"\0") + b"ustar\x0000" + bytes(248))
add("ggjt", "G006", "header.magic", lambda: b"tjgg" + bytes(60))
add("magic_swapped", "G007", "header.magic", lambda: b"FUGG" + sound_draft().data[4:])
add("safetensors", "G008", "header.magic", lambda: b"\x10" + bytes(7) + b'{"a":{"dtype":1' + bytes(60))
add("text_decoded", "G009", "header.magic", lambda: _as_text("replace"))
add("text_latin_1", "G009", "header.magic", lambda: _as_text("latin-1"))
add("text_bom", "G009", "header.magic", lambda: b"\xef\xbb\xbf" + sound_draft().data)
add("utf_16", "G010", "header.magic", lambda: sound_draft().data.decode("latin-1").encode("utf-16"))
add("utf_16_be", "G010", "header.magic", lambda: sound_draft().data.decode("latin-1").encode("utf-16-be"))
add("pickle", "G008", "header.magic", lambda: b"\x80\x02}q\x00." + bytes(60))

# --- header -------------------------------------------------------------------------------------------------------

add("magic_only", "G101", "header", lambda: b"GGUF")
add("magic_half", "G101", "header", lambda: b"GG")
add("trunc_header", "G101", "header", lambda: sound_draft().data[:20])
add("ver0", "G102", "header.version", lambda: sound_draft().number("header.version", 0))
add("ver1", "G103", "header.version", lambda: sound_draft().number("header.version", 1))
add("ver1_big", "G103", "header.version", lambda: Draft("big").number("header.version", 1), sound=_big)
add("ver4", "G104", "header.version", lambda: sound_draft().number("header.version", 4))
add("ver99", "G104", "header.version", lambda: sound_draft().number("header.version", 99))
add("ver_unclear", "G105", "header.version", lambda: Draft("big").number("header.version", 9), sound=_big)
add("be", "G106", "header.version", lambda: Draft("big").data)
add("ver2", "G107", "header.version", lambda: sound_draft().number("header.version", 2))
add("nk_huge", "G108", "header.key_count", lambda: sound_draft().number("header.key_count", 2**64 - 1))
add("nk_4g", "G108", "header.key_count", lambda: sound_draft().number("header.key_count", 2**32 - 1))
add("nt_huge", "G109", "header.tensor_count", lambda: sound_draft().number("header.tensor_count", 2**64 - 1))
add("nt_4g", "G109", "header.tensor_count", lambda: sound_draft().number("header.tensor_count", 2**32 - 1))

# --- key-values ---------------------------------------------------------------------------------------------------


def cut_before(path: str, keep: int = 0) -> bytes:
    """The sound file up to a field, and some bytes of it."""
    draft = sound_draft()
    return draft.data[: draft.span(path)[0] + keep]


_LONG = b"\xff" * 24  # so that a count that is one too high leads to bytes that are not a record


def one_more(path: str) -> bytes:
    """A header that counts one record too many, in a file that ends with its records."""
    draft = sound_draft()
    file = draft.records()
    if path == "header.key_count":
        file.tensor_infos = []
    file.data = b""
    data = draft.built(file)
    end = len(data) - len(file.padding)
    start, stop = draft.span(path)
    count = int.from_bytes(data[start:stop], "little") + 1
    return data[:start] + count.to_bytes(8, "little") + data[stop:end]


add("trunc_key", "G201", "key_values[7].key.length", lambda: cut_before("key_values[7].key.length", 5))
add("trunc_value", "G201", "key_values[4].value", lambda: cut_before("key_values[4].value"))
add("kv_count_high", "G201", "key_values[8].key.length", lambda: one_more("header.key_count"))
add("empty_key", "G202", "key_values[8].key.length", lambda: with_keys(key_value(b"", ValueType.UINT8, 1)))
add(
    "dup_key", "G203", "key_values[8].key",
    lambda: with_keys(key_value(b"general.architecture", ValueType.STRING, b"llama")),
)  # fmt: skip
add("key_too_long", "G204", "key_values[8].key.length",
     lambda: with_keys(key_value(b"a" * 65_536, ValueType.UINT8, 1)))  # fmt: skip
add("key_cyrillic", "G205", "key_values[8].key",
     lambda: with_keys(key_value("general.\u0430uthor".encode(), ValueType.UINT8, 1)))  # fmt: skip
add("key_bidi", "G205", "key_values[8].key",
     lambda: with_keys(key_value("general.\u202ename".encode(), ValueType.UINT8, 1)))  # fmt: skip
add("key_nul", "G206", "key_values[8].key",
     lambda: with_keys(key_value(b"general.author\0.x", ValueType.UINT8, 1)))  # fmt: skip
add("key_escape", "G206", "key_values[8].key",
     lambda: with_keys(key_value(b"\x1b]52;c;aGk=\x07", ValueType.UINT8, 1)))  # fmt: skip
add("key_upper", "G207", "key_values[8].key", lambda: with_keys(key_value(b"General.Author", ValueType.UINT8, 1)))
add("key_case_twin", "G208", "key_values[8].key",
     lambda: with_keys(key_value(b"general.NAME", ValueType.UINT8, 1)), ("G207",))  # fmt: skip
add("key_badutf8", "G221", "key_values[8].key", lambda: with_keys(key_value(b"general.\xff", ValueType.UINT8, 1)))
add("key_len_huge", "G209", "key_values[1].key.length", lambda: sound_draft().number("key_values[1].key.length", 2**63))
add("key_len_2g", "G209", "key_values[1].key.length", lambda: sound_draft().number("key_values[1].key.length", 2**31))
add("str_len_max", "G209", "key_values[1].value.length",
     lambda: sound_draft().number("key_values[1].value.length", 2**64 - 1))  # fmt: skip
add("str_in_array_huge", "G209", "key_values[5].value",
     lambda: sound_draft().number("key_values[5].value.items[1].length", 2**40))  # fmt: skip
add("kv_type_bad", "G210", "key_values[2].type", lambda: sound_draft().number("key_values[2].type", 99))
add("kv_type_13", "G210", "key_values[2].type", lambda: sound_draft().number("key_values[2].type", 13))
add(
    "nested_arr", "G211", "key_values[8].value.type",
    lambda: with_keys(
        key_value(b"sample.nested", ValueType.ARRAY, array(ValueType.ARRAY, [array(ValueType.UINT8, [1, 2])]))
    ),
)  # fmt: skip


def _nested(levels: int) -> bytes:
    value = array(ValueType.UINT8, [7])
    for _ in range(levels - 1):
        value = array(ValueType.ARRAY, [value])
    return with_keys(key_value(b"sample.nested", ValueType.ARRAY, value))


def _nested_raw(levels: int) -> bytes:
    """Like `_nested`, for depths that are too large for recursion."""
    draft = sound_draft()
    head = draft.data[: draft.span("tensor_infos")[0]]
    head = head[:16] + struct.pack("<Q", 9) + head[24:]
    key = struct.pack("<Q", 13) + b"sample.nested" + struct.pack("<I", 9)
    return head + key + struct.pack("<IQ", 9, 1) * (levels - 1) + struct.pack("<IQ", 0, 1) + b"\7"


add("nested_arr_5", "G212", "key_values[8].value.type", lambda: _nested(5), ())
add("nested_arr_20k", "G212", "key_values[8].value.type", lambda: _nested_raw(20_000))
add(
    "arr_len_huge",
    "G213",
    "key_values[6].value.count",
    lambda: sound_draft().number("key_values[6].value.count", 2**63),
)
add(
    "arr_str_huge",
    "G213",
    "key_values[5].value.count",
    lambda: sound_draft().number("key_values[5].value.count", 2**40),
)
add("arr_type_bad", "G214", "key_values[6].value.type", lambda: sound_draft().number("key_values[6].value.type", 99))
add("bool_2", "G215", "key_values[4].value", lambda: sound_draft().number("key_values[4].value", 2))
add("bool_in_array", "G215", "key_values[7].value", lambda: sound_draft().number("key_values[7].value.items[1]", 255))
add("str_badutf8", "G216", "key_values[1].value", lambda: sound_draft().patch("key_values[1].value.text", b"pro\xffe"))
add("arr_str_badutf8", "G216", "key_values[5].value.items[2]",
     lambda: sound_draft().patch("key_values[5].value.items[2].text", b"w\xc0\xafd"))  # fmt: skip

# --- metadata -----------------------------------------------------------------------------------------------------


def _of_architecture(name: bytes, *pairs: Container) -> bytes:
    """The sound file under the name of a declared architecture, with more key-values and without tensors."""
    draft = Draft()
    file = draft.records()
    file.key_values[0].value = name
    file.key_values.extend(pairs)
    file.tensor_infos, file.data = [], b""
    return draft.built(file)


add("key_type_i32", "M003", "key_values[8].type",
     lambda: _of_architecture(b"llama", key_value(b"llama.vocab_size", ValueType.INT32, 32000)))  # fmt: skip
add("key_type_array", "M003", "key_values[8].type",
     lambda: _of_architecture(b"bitnet-b1.58", key_value(b"tokenizer.ggml.scores", ValueType.ARRAY,
                                                         array(ValueType.INT32, [0, 0]))))  # fmt: skip

# --- alignment ----------------------------------------------------------------------------------------------------


def _aligned(value: int, kind: ValueType = ValueType.UINT32) -> Bytes:
    return lambda: with_keys(key_value(b"general.alignment", kind, value))


def _relaid(alignment: int) -> bytes:
    """A file with this alignment, laid out for it."""
    first, second = i2s_bytes(512), i2s_bytes(512)
    return with_tensors(
        (b"first.weight", (128, 4), I2S, None, first.ljust(padded(len(first), alignment), b"\0")),
        (b"second.weight", (256, 2), I2S, None, second.ljust(padded(len(second), alignment), b"\0")),
        alignment=alignment,
    )


add("align_i32type", "G217", "key_values[8].type", _aligned(32, ValueType.INT32))
add("align_str", "G217", "key_values[8].type",
     lambda: with_keys(key_value(b"general.alignment", ValueType.STRING, b"32")))  # fmt: skip
add("align0", "G218", "key_values[8].value", _aligned(0))
add("align13", "G219", "key_values[8].value", _aligned(13))
add("align24", "G219", "key_values[8].value", _aligned(24))
add("align4", "G220", "key_values[8].value", lambda: _relaid(4))
add("align_2p31", "S106", "key_values[8].value", _aligned(2**31), sound=lambda: _relaid(64))
add("align_2p17", "S105", "key_values[8].value", lambda: _relaid(1 << 17))
add("align_ignored", "G222", "key_values[8].value", lambda: with_tensors(
    (b"first.weight", (128, 4), I2S, None, i2s_bytes(512)),
    (b"second.weight", (256, 2), I2S, None, i2s_bytes(512)),
    alignment=64,
))  # fmt: skip

# --- split files --------------------------------------------------------------------------------------------------


def _part(number: int, count: int, kind: ValueType = ValueType.UINT16) -> bytes:
    return with_keys(
        key_value(b"split.no", ValueType.UINT16, number),
        key_value(b"split.count", kind, count),
        key_value(b"split.tensors.count", ValueType.INT32, 3),
    )


add("split_no_high", "G230", "key_values[8].value", lambda: _part(3, 3))
add("split_alone", "G231", "key_values[9].value", lambda: _part(0, 3))
add("split_type", "G232", "key_values[9].type", lambda: _part(0, 1, ValueType.UINT32))
