"""The headers that the benchmarks read, made with `struct` alone and the same every time.

The first is that of BitNet-b1.58-2B-4T: its 24 key-values in their order, 128,256 tokens, 280,147 merges, 332 tensor
infos, and 8,351,360 bytes up to the data section. The text of tokens and merges is invented; their number, their total
length, and the share of tokens that begin with a character beyond ASCII (every other one) are those of the real file.

The others are hostile: very many keys, very many tensors.
"""

from __future__ import annotations

import struct
from collections.abc import Iterator
from pathlib import Path
from typing import Final, NamedTuple

STRING, ARRAY = 8, 9
F32, F16, I2_S, TQ2_0 = 0, 1, 36, 35
TOKENS, MERGES, LAYERS = 128_256, 280_147, 30
#: Letters after the space of each merge, in turn; their average gives the header the right length.
_PIECES = (2, 3, 4, 3, 4, 3, 2, 4, 3, 4, 3)
#: First byte of the data section of the official file; the chat template is as long as needed.
DATA_START: Final = 8_351_360

_FORMATS = {"u32": (4, "<I"), "f32": (6, "<f"), "bool": (7, "<?")}


class Header(NamedTuple):
    """The bytes before a data section, including padding, and the size of the data that the tensor infos declare."""

    data: bytes
    keys: int
    tensors: int
    strings: int
    data_size: int

    def write(self, path: Path) -> Path:
        """Write a file of the full size; its data section is a hole."""
        with path.open("wb") as file:
            file.write(self.data)
            file.truncate(len(self.data) + self.data_size)
        return path


class Info(NamedTuple):
    """One tensor: name, shape in ggml's order, type number."""

    name: str
    ne: tuple[int, ...]
    type: int

    @property
    def nbytes(self) -> int:
        """Size of the data in bytes."""
        elements = 1
        for extent in self.ne:
            elements *= extent
        sizes = {F32: elements * 4, F16: elements * 2, I2_S: elements // 4 + 32, TQ2_0: elements // 256 * 66}
        return sizes[self.type]


def bitnet(*, share: int = 1, ternary: int = I2_S, taller: int = 1) -> Header:
    """The header of BitNet-b1.58-2B-4T.

    :param share: how many times fewer tokens and merges
    :param ternary: the type number of the projections: I2_S, or TQ2_0 for readers that refuse a number they do not know
    :param taller: how many times more rows every matrix has, for a larger data section behind the same header
    """
    tokens, merges = TOKENS // share, MERGES // share
    infos, data_size = _table(list(_tensors(ternary, taller)))
    pairs = [
        _pair("general.architecture", "bitnet-b1.58"),
        _pair("general.name", "bitnet2b"),
        _pair("bitnet-b1.58.vocab_size", ("u32", TOKENS)),
        _pair("bitnet-b1.58.context_length", ("u32", 4096)),
        _pair("bitnet-b1.58.embedding_length", ("u32", 2560)),
        _pair("bitnet-b1.58.block_count", ("u32", LAYERS)),
        _pair("bitnet-b1.58.feed_forward_length", ("u32", 6912)),
        _pair("bitnet-b1.58.rope.dimension_count", ("u32", 128)),
        _pair("bitnet-b1.58.attention.head_count", ("u32", 20)),
        _pair("bitnet-b1.58.attention.head_count_kv", ("u32", 5)),
        _pair("tokenizer.ggml.add_bos_token", ("bool", True)),
        _pair("bitnet-b1.58.attention.layer_norm_rms_epsilon", ("f32", 1e-5)),
        _pair("bitnet-b1.58.rope.freq_base", ("f32", 500000.0)),
        _pair("general.file_type", ("u32", 40)),
        _pair("tokenizer.ggml.model", "gpt2"),
        _strings("tokenizer.ggml.tokens", list(_tokens(tokens))),
        _numbers("tokenizer.ggml.scores", 6, struct.pack(f"<{tokens}f", *[0.0] * tokens), tokens),
        _numbers("tokenizer.ggml.token_type", 5, struct.pack(f"<{tokens}i", *_token_types(tokens)), tokens),
        _strings("tokenizer.ggml.merges", list(_merges(merges))),
        _pair("tokenizer.ggml.bos_token_id", ("u32", 128_000)),
        _pair("tokenizer.ggml.eos_token_id", ("u32", 128_001)),
        _pair("tokenizer.ggml.padding_token_id", ("u32", 128_001)),
        _pair("general.quantization_version", ("u32", 2)),
    ]
    without = 24 + sum(map(len, pairs)) + len(_pair("tokenizer.chat_template", "")) + len(infos)
    length = max(0, DATA_START - without) if share == 1 else 400
    pairs.insert(-1, _pair("tokenizer.chat_template", ("{% for message in messages %}" * (length // 29 + 1))[:length]))
    return _header(pairs, infos, LAYERS * 11 + 2, data_size, tokens + merges)


def many_keys(count: int) -> Header:
    """A header of `count` small key-values and no tensor."""
    pairs = [_pair("general.architecture", "bitnet-b1.58")]
    pairs += [_pair(f"key.number_{i}", ("u32", i)) for i in range(count - 1)]
    return _header(pairs, b"", 0, 0, 0)


def many_tensors(count: int) -> Header:
    """A header of `count` tensors of 8 numbers each."""
    infos, data_size = _table([Info(f"blk.{i}.attn_norm.weight", (8,), F32) for i in range(count)])
    return _header([_pair("general.architecture", "bitnet-b1.58")], infos, count, data_size, 0)


def _header(pairs: list[bytes], infos: bytes, tensors: int, data_size: int, strings: int) -> Header:
    data = b"GGUF" + struct.pack("<IQQ", 3, tensors, len(pairs)) + b"".join(pairs) + infos
    return Header(data + bytes(-len(data) % 32), len(pairs), tensors, strings, data_size)


def _tensors(ternary: int, taller: int) -> Iterator[Info]:
    """In the order of the official file: layers sorted as text."""
    embd, ff, kv = 2560, 6912, 640
    yield Info("token_embd.weight", (embd, TOKENS * taller), F16)
    for i in sorted(range(LAYERS), key=str):
        for name, *ne in (
            ("attn_norm", embd), ("ffn_down", ff, embd), ("ffn_sub_norm", ff), ("ffn_gate", embd, ff),
            ("ffn_up", embd, ff), ("ffn_norm", embd), ("attn_sub_norm", embd), ("attn_k", embd, kv),
            ("attn_output", embd, embd), ("attn_q", embd, embd), ("attn_v", embd, kv),
        ):  # fmt: skip
            shape = (ne[0], *(rows * taller for rows in ne[1:]))
            yield Info(f"blk.{i}.{name}.weight", shape, ternary if len(ne) == 2 else F32)
    yield Info("output_norm.weight", (embd,), F32)


def _table(infos: list[Info]) -> tuple[bytes, int]:
    """Tensor infos with their offsets, and the size of the data section."""
    parts, offset = [], 0
    for info in infos:
        parts.append(_text(info.name) + struct.pack("<I", len(info.ne)) + struct.pack(f"<{len(info.ne)}Q", *info.ne))
        parts.append(struct.pack("<IQ", info.type, offset))
        offset += -(-info.nbytes // 32) * 32
    return b"".join(parts), offset


def _text(text: str) -> bytes:
    data = text.encode()
    return struct.pack("<Q", len(data)) + data


def _pair(key: str, value: str | tuple[str, float]) -> bytes:
    if isinstance(value, str):
        return _text(key) + struct.pack("<I", STRING) + _text(value)
    number, form = _FORMATS[value[0]]
    return _text(key) + struct.pack("<I", number) + struct.pack(form, value[1])


def _numbers(key: str, element: int, data: bytes, count: int) -> bytes:
    return _text(key) + struct.pack("<IIQ", ARRAY, element, count) + data


def _strings(key: str, texts: list[str]) -> bytes:
    return _numbers(key, STRING, b"".join(map(_text, texts)), len(texts))


def _token_types(count: int) -> list[int]:
    """1 is a normal token, 3 a control token."""
    return [1] * (count - 256) + [3] * 256


def _word(number: int, length: int) -> str:
    """A word of at least four letters that no other number gives."""
    letters = ""
    for _ in range(4):
        number, letter = divmod(number, 26)
        letters += chr(97 + letter)
    return "etaoinsr"[: length - 4] + letters


def _tokens(count: int) -> Iterator[str]:
    """256 single characters, words of 4 to 8 letters, every other one after a space (written U+0120), 256 controls."""
    yield from (chr(256 + i) for i in range(256))
    for i in range(count - 512):
        yield ("\u0120" if i % 2 else "") + _word(i, 4 + i % 5)
    yield from (f"<|reserved_special_token_{i}|>" for i in range(256))


def _merges(count: int) -> Iterator[str]:
    """Two pieces with a space between, of 6 to 12 letters together, every other one after a space (written U+0120)."""
    for i in range(count):
        yield ("\u0120" if i % 2 else "") + _word(i, 4 + i % 5) + " " + "lndc"[: _PIECES[i % len(_PIECES)]]
