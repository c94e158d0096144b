"""Files in the forms of single writers (`gguf.writer_forms`), made of models in the usual form by their own code.

>>> import io
>>> from i2s_spec.convert.new import new
>>> from i2s_spec.gguf.reader import open
>>> model = io.BytesIO()
>>> _ = new(model, layers=1)
>>> len(neogpu_file(open(model))) > 0, len(skainet_file(open(model))) > 0
(True, True)
"""

from __future__ import annotations

import struct
from collections.abc import Iterable
from typing import TYPE_CHECKING, Final

import numpy as np

from i2s_spec.schema.types import I2_S, ValueType, padded

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from i2s_spec.gguf.reader import File
    from i2s_spec.gguf.tensor import Tensor

#: The keys that NeoGPU's converter writes, in its order; {a} is the architecture.
NEOGPU_KEYS: Final = (
    "general.architecture", "general.name", "{a}.vocab_size", "{a}.context_length", "{a}.embedding_length",
    "{a}.block_count", "{a}.feed_forward_length", "{a}.attention.head_count", "{a}.attention.head_count_kv",
    "{a}.rope.freq_base", "{a}.attention.layer_norm_rms_epsilon", "tokenizer.ggml.model", "tokenizer.ggml.bos_token_id",
    "tokenizer.ggml.eos_token_id", "tokenizer.ggml.tokens", "tokenizer.ggml.scores", "tokenizer.ggml.merges",
)  # fmt: skip

_Tensor = tuple[bytes, tuple[int, ...], int, bytes]


def neogpu_file(model: File) -> bytes:
    """Return a bitnet-b1.58 model as NeoGPU's converter writes it: codes in a row, four to a byte from the lowest
    bits up, without a tail; after each matrix the number that its products are divided by; the embedding's sides
    exchanged.

    :raises FormatError: as `open` does
    """
    architecture = model.metadata["general.architecture"]
    wanted = [name.replace("{a}", architecture) for name in NEOGPU_KEYS]
    keys = [_key(model, name) for name in wanted if name in model.metadata]
    tensors: list[_Tensor] = []
    for tensor in model.tensors.values():
        name, ne = tensor.raw_name, tuple(tensor.ne)
        if tensor.type is I2_S:
            trits, scale = _trits(tensor)
            divisor = np.float32(1 / np.float32(scale))
            tensors += [
                (name, ne, I2_S.number, _in_a_row(trits)), (name + b"_scale", (1,), 0, divisor.astype("<f4").tobytes())
            ]  # fmt: skip
        else:
            assert tensor.type is not None
            exchanged = ne[::-1] if name == b"token_embd.weight" else ne
            tensors.append((name, exchanged, tensor.type.number, tensor.read()))
    return _built(keys, tensors)


def skainet_file(model: File) -> bytes:
    """Return a model as SKaiNET's converter writes it: keys in the order of their names, with general.alignment as
    an i32; tensors too; codes in a row, the scale in four bytes behind them, and nothing at the end of the file."""
    alignment = _text(b"general.alignment") + struct.pack("<Ii", ValueType.INT32, 32)
    keys = [(name.encode(), _key(model, name)) for name in model.metadata if name != "general.alignment"]
    keys.append((b"general.alignment", alignment))
    tensors: list[_Tensor] = []
    for tensor in model.tensors.values():
        assert tensor.type is not None
        data = tensor.read()
        if tensor.type is I2_S:
            trits, scale = _trits(tensor)
            data = _in_a_row(trits) + struct.pack("<f", scale)
        tensors.append((tensor.raw_name, tuple(tensor.ne), tensor.type.number, data))
    return _built([record for _, record in sorted(keys)], sorted(tensors), padded_end=False)


def _trits(tensor: Tensor) -> tuple[NDArray[np.int8], float]:
    source = tensor.ternary("canonical")
    trits, _ = source.whole(1)
    return trits, float(source.scale)


def _in_a_row(trits: NDArray[np.int8]) -> bytes:
    codes = (trits.reshape(-1, 4) + 1).astype(np.uint8)
    packed: NDArray[np.uint8] = np.bitwise_or.reduce(codes << np.arange(0, 8, 2, dtype=np.uint8), axis=1)
    return packed.tobytes()


def _key(model: File, name: str) -> bytes:
    entry = model.metadata.entry(name)
    return model.source.read(entry.start, entry.stop - entry.start)


def _text(text: bytes) -> bytes:
    return struct.pack("<Q", len(text)) + text


def _built(keys: Iterable[bytes], tensors: list[_Tensor], *, padded_end: bool = True) -> bytes:
    keys = list(keys)
    infos, data = b"", b""
    for name, ne, number, content in tensors:
        data += bytes(-len(data) % 32)
        infos += _text(name) + struct.pack(f"<I{len(ne)}QIQ", len(ne), *ne, number, len(data))
        data += content
    head = b"GGUF" + struct.pack("<IQQ", 3, len(tensors), len(keys)) + b"".join(keys) + infos
    whole = head.ljust(padded(len(head), 32), b"\0") + data
    return whole + bytes(-len(whole) % 32 if padded_end else 0)
