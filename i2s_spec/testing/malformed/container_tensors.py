"""This module breaks the tensor table, positions of tensors, and the extents of I2_S tensors, and makes large files."""

from __future__ import annotations

import struct

from i2s_spec.gguf.reader import File
from i2s_spec.gguf.source import BufferSource
from i2s_spec.schema.types import ValueType, padded
from i2s_spec.testing.malformed.case import add
from i2s_spec.testing.malformed.container import (
    BF16,
    F32,
    FLOATS,
    I2S,
    I8,
    NEXT,
    Q8_0,
    cut_before,
    one_more,
    sound_draft,
    with_tensors,
)
from i2s_spec.testing.sample import Draft, Model, i2s_bytes, key_value

# --- tensor infos -------------------------------------------------------------------------------------------------


def _info(**changes: object) -> bytes:
    """The sound file with changes to its first tensor info, an F32 tensor of 8 elements."""
    draft = sound_draft()
    file = draft.records()
    file.tensor_infos[0].update(changes)
    if "ne" in changes:
        file.tensor_infos[0].n_dims = len(file.tensor_infos[0].ne)
    return draft.built(file)


_NAME = "tensor_infos[0].name"
add("trunc_infos", "G301", "tensor_infos[1].type", lambda: cut_before("tensor_infos[1].type", 2))
add("tensor_count_high", "G301", "tensor_infos[3].name.length", lambda: one_more("header.tensor_count"))
add("tensor_count_low", "G320", "header.tensor_count", lambda: sound_draft().number("header.tensor_count", 2))
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
add("ndims_huge", "G308", "tensor_infos[0].n_dims", lambda: sound_draft().number("tensor_infos[0].n_dims", 2**32 - 1))
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
add("name_scale", "G319", _NAME, lambda: _info(name=b"first.weight_scale"))

# --- where tensors lie --------------------------------------------------------------------------------------------


def _shifted(after: int = 0, offsets: str = "data") -> bytes:
    """A model whose tensors are shifted, or without padding (-1); or whose offsets count from another position."""
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


add("trunc_data", "G401", "data[1]", lambda: sound_draft().data[:-200])
add("trunc_at_data", "G401", "data[0]", lambda: sound_draft().data[: sound_draft().span("data")[0]])
add("trunc_f32", "G401", "data[2]", lambda: Draft(last="f32").data[:-5], sound=lambda: Draft(last="f32").data)
add("off_oob", "G402", "tensor_infos[2].offset", lambda: sound_draft().number("tensor_infos[2].offset", 2**40))
add("off_wrap", "G402", "tensor_infos[2].offset",
     lambda: sound_draft().number("tensor_infos[2].offset", 2**64 - 32))  # fmt: skip
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
add("trailing", "G407", "trailing", lambda: sound_draft().data + b"attached" * 8)
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
add("zip_behind", "S107", "trailing", lambda: sound_draft().data + b"PK\x03\x04" + bytes(60), ("G407",))
add("gguf_in_gap", "S107", "gap[0]", lambda: with_tensors(
    (b"a", (8,), F32, 0, FLOATS), (b"b", (8,), F32, 96, b"GGUF" + bytes(60) + FLOATS)), ("P101",))  # fmt: skip
add("zero_run", "G411", "data[0]", lambda: with_tensors(
    (b"a", (1 << 19, 3), I8, None, b"\1" * 300_000 + bytes(1 << 20) + b"\1" * (3 * (1 << 19) - (1 << 20) - 300_000))
), large=True)  # fmt: skip


def _head_padding(filler: bytes) -> bytes:
    """The sound file with other bytes between tensor table and data section."""
    draft = sound_draft()
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
    """A file whose first tensor is of I2_S with `room` bytes until the next tensor, an F32 one."""
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
add("tail-missing", "I104", "data[2]", lambda: sound_draft().data[:-32])
add("tail-cut", "I104", "data[2]", lambda: sound_draft().data[:-30])
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


add("scale_be", "I301", "data[1].tail.scale", lambda: _foreign_scales("little"), sound=lambda: Draft("big").data)
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
    """Many I2_S tensors, each followed by 32 bytes that belong to no tensor."""
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
