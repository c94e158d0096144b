"""Broken containers, a copy for each rule: format, header, keys, tensor table, placement, I2_S extents, large files."""

from __future__ import annotations

import struct

from construct import Container

from i2s_spec.gguf.reader import File
from i2s_spec.gguf.source import BufferSource
from i2s_spec.schema.limits import SMALLEST_KEY_VALUE, SMALLEST_TENSOR_INFO
from i2s_spec.schema.types import BY_NAME, ValueType, padded
from i2s_spec.testing.malformed.case import Bytes, add, model
from i2s_spec.testing.sample import Draft, Model, array, i2s_bytes, key_value, tensor_info


def _big() -> bytes:
    return Draft("big").data


def with_keys(*pairs: Container, order: str = "little") -> bytes:
    """Return the sound file with more key-values."""
    draft = Draft("big" if order == "big" else "little")
    file = draft.records()
    file.key_values.extend(pairs)
    return draft.built(file)


def with_tensors(*parts: tuple[bytes, tuple[int, ...], int, int | None, bytes], alignment: int = 32) -> bytes:
    """Return a file with these tensors: name, ne, type number, offset (None: the running sum of sizes), bytes."""
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
    """Return a sound model after a text decoder: bytes that are not UTF-8 are replaced, or each byte is read as
    Latin-1.
    """
    data = Model("bitnet-b1.58").built()
    return (data.decode("utf-8", "replace") if how == "replace" else data.decode(how)).encode()


# --- what the file is instead -------------------------------------------------------------------------------------

add("empty", "G001", "header", lambda: b"")
add("bad_magic", "G002", "header.magic", lambda: b"GGUX" + Draft().data[4:])
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
add("magic_swapped", "G007", "header.magic", lambda: b"FUGG" + Draft().data[4:])
add("safetensors", "G008", "header.magic", lambda: b"\x10" + bytes(7) + b'{"a":{"dtype":1' + bytes(60))
add("text_decoded", "G009", "header.magic", lambda: _as_text("replace"))
add("text_latin_1", "G009", "header.magic", lambda: _as_text("latin-1"))
add("text_bom", "G009", "header.magic", lambda: b"\xef\xbb\xbf" + Draft().data)
add("utf_16", "G010", "header.magic", lambda: Draft().data.decode("latin-1").encode("utf-16"))
add("utf_16_be", "G010", "header.magic", lambda: Draft().data.decode("latin-1").encode("utf-16-be"))
add("pickle", "G008", "header.magic", lambda: b"\x80\x02}q\x00." + bytes(60))

# --- header -------------------------------------------------------------------------------------------------------
# Released programs end at some enormous counts and lengths, at an alignment of 0, and at others. No file here has such a
# value: a count or a length is a little more than the file has room for. The guards against the others are tested on
# the value alone.


def _over(path: str, smallest: int = 1) -> bytes:
    """Return the sound file with a count of records, or a length, that is one more than the whole file has room for."""
    draft = Draft()
    return draft.number(path, len(draft.data) // smallest + 1)


add("magic_only", "G101", "header", lambda: b"GGUF")
add("magic_half", "G101", "header", lambda: b"GG")
add("trunc_header", "G101", "header", lambda: Draft().data[:20])
add("ver0", "G102", "header.version", lambda: Draft().number("header.version", 0))
add("ver1_big", "G103", "header.version", lambda: Draft("big").number("header.version", 1), sound=_big)
add("ver4", "G104", "header.version", lambda: Draft().number("header.version", 4))
add("ver99", "G104", "header.version", lambda: Draft().number("header.version", 99))
add("ver_unclear", "G105", "header.version", lambda: Draft("big").number("header.version", 9), sound=_big)
add("be", "G106", "header.version", _big)
add("ver2", "G107", "header.version", lambda: Draft().number("header.version", 2))
add("nk_over", "G108", "header.key_count", lambda: _over("header.key_count", SMALLEST_KEY_VALUE))
add("nt_huge", "G109", "header.tensor_count", lambda: Draft().number("header.tensor_count", 2**64 - 1))
add("nt_over", "G109", "header.tensor_count", lambda: _over("header.tensor_count", SMALLEST_TENSOR_INFO))

# --- key-values ---------------------------------------------------------------------------------------------------


def cut_before(path: str, keep: int = 0) -> bytes:
    """Return the sound file up to a field, and some bytes of it."""
    draft = Draft()
    return draft.data[: draft.span(path)[0] + keep]


_LONG = b"\xff" * 24  # so that a count that is one too high leads to bytes that are not a record


def one_more(path: str) -> bytes:
    """Return a header that counts one record too many, in a file that ends with its records."""
    draft = Draft()
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
add("key_len_huge", "G209", "key_values[1].key.length", lambda: Draft().number("key_values[1].key.length", 2**63))
add("key_len_over", "G209", "key_values[1].key.length", lambda: _over("key_values[1].key.length"))
add("str_len_max", "G209", "key_values[1].value.length",
     lambda: Draft().number("key_values[1].value.length", 2**64 - 1))  # fmt: skip
add("str_in_array_over", "G209", "key_values[5].value", lambda: _over("key_values[5].value.items[1].length"))
add("kv_type_bad", "G210", "key_values[2].type", lambda: Draft().number("key_values[2].type", 99))
add("kv_type_13", "G210", "key_values[2].type", lambda: Draft().number("key_values[2].type", 13))
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
    """Return the same for depths that are too large for recursion."""
    draft = Draft()
    head = draft.data[: draft.span("tensor_infos")[0]]
    head = head[:16] + struct.pack("<Q", 9) + head[24:]
    key = struct.pack("<Q", 13) + b"sample.nested" + struct.pack("<I", 9)
    return head + key + struct.pack("<IQ", 9, 1) * (levels - 1) + struct.pack("<IQ", 0, 1) + b"\7"


add("nested_arr_5", "G212", "key_values[8].value.type", lambda: _nested(5), ())
add("nested_arr_20k", "G212", "key_values[8].value.type", lambda: _nested_raw(20_000))
add("arr_len_over", "G213", "key_values[6].value.count", lambda: _over("key_values[6].value.count"))
add("arr_str_over", "G213", "key_values[5].value.count", lambda: _over("key_values[5].value.count", 8))
add("arr_type_bad", "G214", "key_values[6].value.type", lambda: Draft().number("key_values[6].value.type", 99))
add("bool_2", "G215", "key_values[4].value", lambda: Draft().number("key_values[4].value", 2))
add("bool_in_array", "G215", "key_values[7].value", lambda: Draft().number("key_values[7].value.items[1]", 255))
add("str_badutf8", "G216", "key_values[1].value", lambda: Draft().patch("key_values[1].value.text", b"pro\xffe"))
add("arr_str_badutf8", "G216", "key_values[5].value.items[2]",
     lambda: Draft().patch("key_values[5].value.items[2].text", b"w\xc0\xafd"))  # fmt: skip

# --- metadata -----------------------------------------------------------------------------------------------------


def _of_architecture(name: bytes, *pairs: Container) -> bytes:
    """Return the sound file under the name of a declared architecture, with more key-values and without tensors."""
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
    """Return a file with this alignment, laid out for it."""
    first, second = i2s_bytes(512), i2s_bytes(512)
    return with_tensors(
        (b"first.weight", (128, 4), I2S, None, first.ljust(padded(len(first), alignment), b"\0")),
        (b"second.weight", (256, 2), I2S, None, second.ljust(padded(len(second), alignment), b"\0")),
        alignment=alignment,
    )


add("align_i32type", "G217", "key_values[8].type", _aligned(32, ValueType.INT32))
add("align_str", "G217", "key_values[8].type",
     lambda: with_keys(key_value(b"general.alignment", ValueType.STRING, b"32")))  # fmt: skip
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
add("split_no_missing", "G236", "key_values[8].value", lambda: with_keys(
    key_value(b"split.count", ValueType.UINT16, 3), key_value(b"split.tensors.count", ValueType.INT32, 9)
))  # fmt: skip
add("split_leftover", "G237", lambda: f"key_values[{len(Model().keys) + 1}].value", lambda: (
    Model().split(len(Model().tensors), 0, 0)[0]
), sound=model("llama"))  # fmt: skip


# --- tensor infos -------------------------------------------------------------------------------------------------


def _info(**changes: object) -> bytes:
    """Return the sound file with changes to its first tensor info, an F32 tensor of 8 elements."""
    draft = Draft()
    file = draft.records()
    file.tensor_infos[0].update(changes)
    if "ne" in changes:
        file.tensor_infos[0].n_dims = len(file.tensor_infos[0].ne)
    return draft.built(file)


_NAME = "tensor_infos[0].name"
add("trunc_infos", "G301", "tensor_infos[1].type", lambda: cut_before("tensor_infos[1].type", 2))
add("tensor_count_high", "G301", "tensor_infos[3].name.length", lambda: one_more("header.tensor_count"))
add("tensor_count_low", "G320", "header.tensor_count", lambda: Draft().number("header.tensor_count", 2))
add("name_64", "G302", _NAME, lambda: _info(name=b"n" * 64))
add("name_huge", "G302", "tensor_infos[0].name.length", lambda: _info(name=b"n" * 65_536))
add("dup_tensor", "G303", "tensor_infos[1].name", lambda: _info(name=b"first.weight"))
add("name_empty", "G304", f"{_NAME}.length", lambda: _info(name=b""))
add("name_nul", "G305", _NAME, lambda: _info(name=b"embedding.weight\0x"))
add("name_escape", "G305", _NAME, lambda: _info(name=b"\x1b[2J"))
add("name_bidi", "G305", _NAME, lambda: _info(name="a\u202eb".encode()))
add("name_badutf8", "G306", _NAME, lambda: _info(name=b"embedding\xff"))
add("name_traversal", "G307", _NAME, lambda: _info(name=b"../../etc/passwd"))
add("ndims5", "G308", "tensor_infos[0].n_dims", lambda: _info(ne=[8, 1, 1, 1, 1]))
add("ndims0", "G309", "tensor_infos[0].n_dims", lambda: _info(ne=[]))
add("dim0", "G310", "tensor_infos[0].ne[1]", lambda: _info(ne=[8, 0]))
add("dim_neg", "G311", "tensor_infos[0].ne[1]", lambda: _info(ne=[8, 2**64 - 1]))
add("dim_mul_ovf", "G312", "tensor_infos[0].ne", lambda: _info(ne=[2**33, 2**33]))
add("dim_wrap_4", "G312", "tensor_infos[0].ne", lambda: _info(ne=[4194305, 4194305, 211106198978564]))
add("type99", "G313", "tensor_infos[0].type", lambda: _info(type=99))
add("type_neg", "G313", "tensor_infos[0].type", lambda: _info(type=-1))
add("type_retired", "G314", "tensor_infos[0].type", lambda: _info(type=33))
add("block_split", "G315", "tensor_infos[0].ne", lambda: _info(type=Q8_0, ne=[8, 1]))
add("tl2_or_mxfp4", "G318", "tensor_infos[0].type", lambda: with_tensors(
    (b"first.weight", (512, 4), 39, None, bytes(range(1, 256)) * 2 + bytes(2)), NEXT))  # fmt: skip
add("i2_sr", "G318", "tensor_infos[0].type", lambda: with_tensors(
    (b"first.weight", (128, 8), 40, None, b"\x15" * 320), NEXT))  # fmt: skip
add("groups_of_128", "G321", "tensor_infos[0].type", lambda: with_tensors(
    (b"first.weight", (256, 8), 42, None, (b"\x00\x38" + b"\x15" * 32) * 16), NEXT))  # fmt: skip


def _second(number: int, *blocks: bytes, count: int = 16, cut: int | None = None) -> bytes:
    """Return a matrix of 2,048 weights whose bytes are blocks in a meaning that a single program gave its type
    number.
    """
    content = b"".join(blocks[i % len(blocks)] for i in range(count))[:cut]
    return with_tensors((b"first.weight", (256, 8), number, None, content + bytes(-len(content) % 32)), NEXT)


_HALF, _TRITS = b"\x00\x38", b"\x92\x49\x24" * 30  # the float16 0.5; codes of -1, 0 and +1
_Q2_0 = tuple(_HALF + _TRITS[i : i + 16] for i in range(3))
add("bitnet_t158", "G322", "tensor_infos[0].type",
    lambda: _second(30, *(_TRITS[i : i + 64] + _HALF for i in range(3)), count=8),
    sound=lambda: _second(30, b"\x80\x3f" * 2048, count=1))  # fmt: skip
add("q1_0_groups_of_32", "G322", "tensor_infos[0].type", lambda: _second(40, _HALF + b"\x15\xa6\x5c\xe3", count=64))
add("scale_last", "G322", "tensor_infos[0].type", lambda: _second(42, *(_TRITS[i : i + 32] + _HALF for i in range(3))),
    sound=lambda: _second(42, *_Q2_0, count=32))  # fmt: skip
add("f8_e4m3", "G322", "tensor_infos[0].type", lambda: _second(43, _HALF + bytes(range(0x20, 0x40)), count=64))
add("g8_0", "G322", "tensor_infos[0].type", lambda: _second(143, b"\x00\x3f" * 4 + b"\x92\x49" * 4, count=64))
add("groups_of_64_in_rooms_for_128", "G323", "tensor_infos[0].type", lambda: _second(42, *_Q2_0, count=32, cut=544),
    sound=lambda: _second(42, *_Q2_0, count=32))  # fmt: skip
add("weights_of_integers", "G415", "tensor_infos[0].type", lambda: with_tensors(
    (b"first.weight", (8, 4), 26, None, bytes(range(128))), NEXT))  # fmt: skip
add("weights_of_activations", "G415", "tensor_infos[0].type", lambda: with_tensors(
    (b"first.weight", (32, 4), 9, None, bytes(160)), NEXT))  # fmt: skip
add("name_scale", "G319", _NAME, lambda: _info(name=b"first.weight_scale"))

# --- where tensors lie --------------------------------------------------------------------------------------------


def _shifted(after: int = 0, offsets: str = "data") -> bytes:
    """Return a model whose tensors are shifted, or without padding (-1); or whose offsets count from another
    position.
    """
    for fill in range(1, 33):
        data = Model("bitnet-b1.58").set("general.name", b"n" * fill).built()
        file = File(BufferSource(data))
        end, start = file.infos_end or 0, file.data_start or 0
        if start - end == 20:
            break
    if offsets == "file":
        broken = bytearray(data)
        for tensor in file.tensors.rows:
            at = tensor.info_span.stop - 8
            broken[at : at + 8] = struct.pack("<Q", start + tensor.offset)
        return bytes(broken)
    return data[:end] + data[start:] if after < 0 else data[:start] + bytes(after) + data[start:]


def _moved(used: int) -> bytes:
    """Return a model of float16 without general.alignment, whose data section begins where another alignment than 32
    puts it.
    """
    for fill in range(1, 65):
        draft = Model("llama").set("general.name", b"n" * fill).set("general.file_type", 1)
        for tensor in draft.tensors:
            if tensor.number == I2S:
                draft.like(tensor.name.decode(), tensor.ne, "F16")
        data = draft.built()
        file = File(BufferSource(data))
        end = file.infos_end or 0
        if padded(end, 32) != padded(end, 64):
            break
    return data[:end] + bytes(padded(end, used) - end) + data[padded(end, 32) :]


add("align_unstated", "G222", "padding", lambda: _moved(64), sound=lambda: _moved(32))
add("trunc_data", "G401", "data[1]", lambda: Draft().data[:-200])
add("trunc_at_data", "G401", "data[0]", lambda: Draft().data[: Draft().span("data")[0]])
add("trunc_f32", "G401", "data[2]", lambda: Draft(last="f32").data[:-5], sound=lambda: Draft(last="f32").data)
add("off_oob", "G402", "tensor_infos[2].offset", lambda: Draft().number("tensor_infos[2].offset", 2**40))
add("off_wrap", "G402", "tensor_infos[2].offset",
     lambda: Draft().number("tensor_infos[2].offset", 2**64 - 32))  # fmt: skip
add("off_misaligned", "G403", "tensor_infos[1].offset", lambda: with_tensors(
    (b"a", (8,), F32, 0, FLOATS), (b"b", (8,), F32, 40, bytes(8) + FLOATS + bytes(24))))  # fmt: skip
add("overlap", "G404", "tensor_infos[1].offset", lambda: with_tensors(
    (b"a", (16,), F32, 0, FLOATS + FLOATS), (b"b", (8,), F32, 32, b"")))  # fmt: skip
add("overlap_same", "G404", "tensor_infos[1].offset", lambda: with_tensors(
    (b"a", (8,), F32, 0, FLOATS), (b"b", (8,), F32, 0, b"")))  # fmt: skip
add("pad_not_zero", "G406", "padding[0]", lambda: with_tensors(
    (b"a", (6,), F32, None, FLOATS[:24] + b"\0\0A\0\0\0\0\0"), NEXT))  # fmt: skip
add("head_pad_not_zero", "G406", "padding", lambda: _head_padding(b"\x41"))
add("data_unpadded", "G414", "padding", lambda: _shifted(after=-1))
add("data_later", "G414", "padding", lambda: _shifted(after=64))
add("offsets_absolute", "G414", "tensor_infos[0].offset", lambda: _shifted(offsets="file"))
add("trailing", "G407", "trailing", lambda: Draft().data + b"attached" * 8)
add("no_last_pad", "G408", "data[0]", lambda: with_tensors((b"a", (6,), F32, None, FLOATS[:24])))
add("mem_ovf", "G410", "tensor_infos[0].ne", lambda: with_tensors(
    (b"a", (0x7FFFFFFFFFFFFFC0,), I8, 0, FLOATS),
    (b"b", (0x7FFFFFFFFFFFFFC0,), I8, 0x7FFFFFFFFFFFFFC0, FLOATS)))  # fmt: skip
add("gap", "P101", "gap[0]", lambda: with_tensors(
    (b"a", (8,), F32, 0, FLOATS), (b"b", (8,), F32, 96, bytes(64) + FLOATS)))  # fmt: skip
add("out_of_order", "P102", "tensor_infos[1].offset", lambda: with_tensors(
    (b"a", (8,), F32, 32, FLOATS), (b"b", (8,), F32, 0, FLOATS)))  # fmt: skip
add("first_not_0", "P103", "tensor_infos[0].offset", lambda: with_tensors(
    (b"a", (8,), F32, 64, bytes(64) + FLOATS)))  # fmt: skip
add("zip_behind", "S107", "trailing", lambda: Draft().data + b"PK\x03\x04" + bytes(60), ("G407",))
add("gguf_in_gap", "S107", "gap[0]", lambda: with_tensors(
    (b"a", (8,), F32, 0, FLOATS), (b"b", (8,), F32, 96, b"GGUF" + bytes(60) + FLOATS)), ("P101",))  # fmt: skip
add("zero_run", "G411", "data[0]", lambda: with_tensors(
    (b"a", (1 << 19, 3), I8, None, b"\1" * 300_000 + bytes(1 << 20) + b"\1" * (3 * (1 << 19) - (1 << 20) - 300_000))
), large=True)  # fmt: skip


def _head_padding(filler: bytes) -> bytes:
    """Return the sound file with other bytes between tensor table and data section."""
    draft = Draft()
    file = draft.records()
    file.key_values.append(key_value(b"sample.filler", ValueType.STRING, b""))
    file = draft.relaid(file)
    while not file.padding:
        file.key_values[-1].value += b"x"
        file = draft.relaid(file)
    data = draft.built(file)
    stop = len(data) - len(file.data)
    return data[: stop - len(file.padding)] + filler * len(file.padding) + data[stop:]


# --- I2_S ---------------------------------------------------------------------------------------------------------


def _i2s(ne: tuple[int, ...], room: int | None = None, filler: bytes = b"\0", number: int = I2S) -> bytes:
    """Return a file whose first tensor is of I2_S with `room` bytes until the next tensor, an F32 one."""
    weights = 1
    for n in ne:
        weights *= n
    content = i2s_bytes(weights)
    room = padded(len(content), 32) if room is None else room
    content = (content + (filler * room))[:room]
    return with_tensors((b"first.weight", ne, number, None, content), NEXT)


_NE = "tensor_infos[0].ne"
add("i2s_odd", "I101", _NE, lambda: _i2s((129, 3)))
add("i2s_partial_block", "I102", _NE, lambda: _i2s((132, 1)))
add("i2s_ne0_288", "I102", _NE, lambda: _i2s((288, 2)))
add("i2s_ne0_not128", "I103", _NE, lambda: _i2s((192, 2)))
add("tail-missing", "I104", "data[2]", lambda: Draft().data[:-32])
add("tail-cut", "I104", "data[2]", lambda: Draft().data[:-30])
add("i2s_no_tail", "I105", "tensor_infos[1].offset", lambda: _i2s((128, 4), 128))
add("i2s_short_tail", "I105", "tensor_infos[1].offset", lambda: with_tensors(
    (b"a", (128, 4), I2S, 0, i2s_bytes(512)[:132] + bytes(4)), (b"b", (8,), F32, 136, FLOATS + bytes(24))))  # fmt: skip
add("i2s_unpacked", "I106", "data[0]", lambda: _i2s((128, 4), 512, b"\1"))
add("i2s_whole_blocks", "I107", "data[0]", lambda: with_tensors(
    (b"first.weight", (132, 2), I2S, None, i2s_bytes(264)[:66] + bytes(30) + i2s_bytes(0)), NEXT, alignment=8),
    ("I102",))  # fmt: skip
add("i2s_chunked", "I108", "data[0]", lambda: _i2s((128, 4), 128 + 2 * 32, b"\x77"))
add("i2s_1d", "I109", "tensor_infos[0].n_dims", lambda: _i2s((512,)))
add("i2s_3d", "I110", _NE, lambda: _i2s((128, 4, 2)))
add("i2s_type_31", "I111", "tensor_infos[0].type", lambda: _i2s((128, 4), number=31))
add("i2s_type_30", "I111", "tensor_infos[0].type", lambda: _i2s((128, 4), number=BF16))


def _foreign_scales(order: str) -> bytes:
    draft = Draft("big" if order == "big" else "little")
    file = draft.records()
    other: Draft = Draft("little" if order == "big" else "big")
    file.data = file.data[:32] + other.records().data[32:]
    return draft.built(file)


add("scale_be", "I301", "data[1].tail.scale", lambda: _foreign_scales("little"), sound=_big)
add("scale_le", "I301", "data[1].tail.scale", lambda: _foreign_scales("big"), ("G106",))

# --- amounts ------------------------------------------------------------------------------------------------------


def _many_keys(count: int) -> bytes:
    record = struct.Struct("<Q8sIB")
    keys = b"".join(record.pack(8, b"k%07d" % i, 0, 1) for i in range(count))
    return struct.pack("<4sIQQ", b"GGUF", 3, 0, count) + keys


def _many_tensors(count: int) -> bytes:
    record = struct.Struct("<Q8sIQIQ")
    infos = b"".join(record.pack(8, b"t%07d" % i, 1, 1, I8, 32 * i) for i in range(count))
    head = struct.pack("<4sIQQ", b"GGUF", 3, count, 0) + infos
    return head + bytes(-len(head) % 32) + (b"\1" + bytes(31)) * count


def _many_gaps(count: int) -> bytes:
    """Return many I2_S tensors, each followed by 32 bytes that belong to no tensor."""
    record = struct.Struct("<Q8sI2QIQ")
    infos = b"".join(record.pack(8, b"t%07d" % i, 2, 128, 1, I2S, 96 * i) for i in range(count))
    head = struct.pack("<4sIQQ", b"GGUF", 3, count, 0) + infos
    return head + bytes(-len(head) % 32) + (i2s_bytes(128) + b"\x11" * 32) * count


add("many_i2s_100k", "P101", "gap[0]", lambda: _many_gaps(100_000), ("S104", "G407"), large=True)
add("many_kv_200k", "S103", "header.key_count", lambda: _many_keys(200_000), large=True)
add("many_tensors_100k", "S104", "header.tensor_count", lambda: _many_tensors(100_000), large=True)
add("kv_ceiling", "S101", "header.key_count",
     lambda: struct.pack("<4sIQQ", b"GGUF", 3, 0, 1_048_577) + bytes(13 * 1_048_577), large=True)  # fmt: skip
add("tensor_ceiling", "S102", "header.tensor_count",
     lambda: struct.pack("<4sIQQ", b"GGUF", 3, 1_048_577, 0) + bytes(24 * 1_048_577), large=True)  # fmt: skip
