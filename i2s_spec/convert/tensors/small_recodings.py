"""This module puts many small I2_S tensors into another type or dialect at once: a read, a kernel and a proof for hundreds.

A file of 10 MB can hold 90,000 tensors of 32 bytes of codes, for which calls take a hundred times longer than the codes.
Payloads of whole blocks, or of whole groups of rows of one length, one behind the other, are a payload too.
"""

from __future__ import annotations

from array import array
from collections.abc import Callable, Iterator, Sequence
from functools import partial
from math import prod
from typing import TYPE_CHECKING, Final, Literal

import numpy as np

from i2s_spec.codec.form import FLOAT_WORDS, Form, widened
from i2s_spec.codec.payload import UnusedCodeError
from i2s_spec.codec.payload_native import count_codes, unpack_trits
from i2s_spec.codec.tail import SCALE_BYTES
from i2s_spec.codec.ternary_types import BLOCK_TYPES
from i2s_spec.convert.tensors.encode import Encoder, ProofError, Recoding, rounding, transcoded
from i2s_spec.errors import quote
from i2s_spec.gguf.source import read_spans
from i2s_spec.schema.checks import order_prefix
from i2s_spec.schema.types import BY_NAME, I2_S, TAIL_BYTES

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from i2s_spec.gguf.reader import File, Tensor
    from i2s_spec.schema.checks import ByteOrder
    from i2s_spec.schema.dialect import Dialect

#: Elements of a tensor that is small, between dialects; and to types that its trits are unpacked for.
SMALL: Final = 1 << 16
SMALL_UNPACKED: Final = 1 << 12

#: Tensors that are recoded at once.
TOGETHER: Final = 256


class SmallRecodings:
    """Small I2_S tensors of a file in another form; their bytes are made in the order in which they were added, and
    proved before they are given.

    Between dialects the code that stands for nothing is kept as such. A tensor with anything odd about it (a scale that
    the type cannot hold, codes that stand for nothing) is left to who recodes it alone, and says what is wrong.

    :param source: the dialect of the file
    :param kind: the type that they get, in `target` where that is I2_S
    :param unused: whether the code that stands for nothing is an error or 0
    :param order: the byte order of the copy
    """

    def __init__(
        self,
        file: File,
        source: Dialect,
        kind: str,
        target: Dialect,
        unused: Literal["reject", "zero"],
        order: ByteOrder,
    ) -> None:
        self.source = source
        self.target = target
        self.kind = kind
        self._file = file
        self._unused: Literal["reject", "zero"] = unused
        self._order: ByteOrder = order
        self._known: dict[tuple[int, ...], bool] = {}
        self._tensors: list[Tensor] = []
        #: By place: of each tensor the codes that stand for nothing, once its bytes are made; its scale, and what is
        #: stored of it.
        self.unused = array("Q")
        self.scales = array("f")
        self.stored = array("f")
        self._ready: dict[int, bytes] = {}
        #: Whether tensors are joined as rows: only those with rows of one length.
        self._rows = any(each.layout.row_block > 1 for each in (source, target)) or (
            kind in BLOCK_TYPES and BLOCK_TYPES[kind].scale.per == "row"
        )

    @property
    def usable(self) -> bool:
        """Whether any tensor can be recoded with others: tails have one scale to give, and something changes."""
        apart = self.kind in BLOCK_TYPES and BLOCK_TYPES[self.kind].scale.apart  # no tensors of it can be joined
        return (
            not apart
            and self.source.tail.copies == 1
            and (self.kind != "I2_S" or (self.source != self.target and self._unused == "reject"))
        )

    def add(self, tensors: Sequence[Tensor]) -> list[int | None]:
        """The places that tensors get, at most `TOGETHER` of them; None for one that is recoded alone."""
        some = [tensor for tensor in tensors if self._fits(tensor)] if self.usable else []
        start = self._file.data_start or 0
        ends = [start + tensor.offset + I2_S.nbytes(tensor.ne) for tensor in some]
        tails = read_spans(self._file.source, [(end - TAIL_BYTES, SCALE_BYTES) for end in ends])
        scales = np.frombuffer(b"".join(tails), order_prefix(self._file.byte_order) + "f4").astype(np.float32)
        stored = self._stored(scales)
        if stored is None:
            return [None] * len(tensors)
        places = {tensor.index: len(self._tensors) + i for i, tensor in enumerate(some)}
        self._tensors += some
        self.scales.frombytes(scales.tobytes())
        self.stored.frombytes(stored.tobytes())
        self.unused.frombytes(bytes(8 * len(some)))
        return [places.get(tensor.index) for tensor in tensors]

    def _stored(self, scales: NDArray[np.float32]) -> NDArray[np.float32] | None:
        """What the type stores of scales; None where one of them is none for it, or of floats 0 or negative, of
        which no weights are made."""
        if self.kind == "I2_S":
            return scales
        if self.kind in FLOAT_WORDS and (scales <= 0).any():
            return None
        try:
            return np.array([rounding(scale, self.kind).stored for scale in scales], dtype=np.float32)
        except ValueError:
            return None

    def _fits(self, tensor: Tensor) -> bool:
        """Whether a tensor is small, and of a shape that both forms have a place for."""
        if tensor.type is not I2_S:
            return False
        ne = tensor.ne
        if ne not in self._known:
            self._known[ne] = prod(ne) <= (SMALL if self.kind == "I2_S" else SMALL_UNPACKED)
            try:
                Form("I2_S", tensor.shape, self.source)
                Encoder(Form(self.kind, tensor.shape, self.target), np.float32(1))
            except ValueError:
                self._known[ne] = False
        return self._known[ne]

    def data(self, place: int) -> Callable[[], Iterator[bytes]]:
        """What makes the bytes of the tensor of a place."""
        return partial(self._bytes, place)

    def _bytes(self, place: int) -> Iterator[bytes]:
        if place not in self._ready:
            self._make(place)
        yield self._ready.pop(place)

    def _make(self, first: int) -> None:
        """Make the bytes of a tensor and of those after it; whatever of an earlier turn was not asked for is dropped."""
        self._ready = {}
        groups: dict[int, list[int]] = {}
        for place, tensor in enumerate(self._tensors[first : first + TOGETHER], first):
            groups.setdefault(tensor.ne[0] if self._rows else 0, []).append(place)
        start = self._file.data_start or 0
        for cols, places in groups.items():
            tensors = [self._tensors[place] for place in places]
            spans = [(start + tensor.offset, I2_S.nbytes(tensor.ne)) for tensor in tensors]
            each = read_spans(self._file.source, spans)
            payload = b"".join(data[:-TAIL_BYTES] for data in each)
            elements = 4 * len(payload)
            shape = (elements // cols, cols) if cols else (1, elements)
            if self.kind == "I2_S":
                self._transcode(places, each, payload, shape)
            else:
                self._encode(places, payload, shape)

    def _transcode(self, places: list[int], each: list[bytes], payload: bytes, shape: tuple[int, int]) -> None:
        """Tensors in another dialect, from their bytes and their joined payloads."""
        source = Form("I2_S", shape, self.source, self._file.byte_order)
        made, unused = transcoded(payload, source, Form("I2_S", shape, self.target, self._order))
        at = 0
        for place, data in zip(places, each, strict=True):
            size, scale = len(data) - TAIL_BYTES, data[-TAIL_BYTES : SCALE_BYTES - TAIL_BYTES]
            if unused:
                self.unused[place] = count_codes(data[:size])[self.source.code_map.unused]
            stored = scale if self._order == self._file.byte_order else scale[::-1]
            tail = (stored * self.target.tail.copies).ljust(TAIL_BYTES, b"\0")
            self._ready[place] = made[at : at + size] + tail
            at += size

    def _encode(self, places: list[int], payload: bytes, shape: tuple[int, int]) -> None:
        """Tensors in another type, from their joined payloads."""
        try:
            trits = unpack_trits(payload, shape, self.source, self._unused)
        except UnusedCodeError:
            self._alone(places)
            return
        tensors = [self._tensors[place] for place in places]
        stored = np.array([self.stored[place] for place in places], dtype=np.float32)
        elements = [tensor.elements for tensor in tensors]
        if self.kind in BLOCK_TYPES:
            made = _blocks(trits, stored, elements, self.kind, self._order)
        else:
            made = _floats(trits.reshape(-1), np.repeat(stored, elements), self.kind, self._order)
        at = 0
        for place, tensor in zip(places, tensors, strict=True):
            size = BY_NAME[self.kind].nbytes(tensor.ne)
            self._ready[place] = made[at : at + size]
            at += size

    def _alone(self, places: list[int]) -> None:
        """Each tensor for itself, with its name in what is wrong with it."""
        for place in places:
            tensor = self._tensors[place]
            form = Form(self.kind, tensor.shape, self.target, self._order)
            try:
                self._ready[place] = b"".join(Recoding(tensor.ternary(self.source, self._unused), form))
            except ValueError as error:
                raise ValueError(f"tensor {quote(tensor.name)}: {error}") from error


def _blocks(
    trits: NDArray[np.int8], stored: NDArray[np.float32], elements: list[int], kind: str, order: ByteOrder
) -> bytes:
    """The blocks of tensors of so many elements, each with its scale, proved; a group of zeros has the scale 0."""
    from i2s_spec.codec.blocks import block_native
    from i2s_spec.codec.blocks.block_shape import blocks_of

    group = blocks_of(trits.shape, kind).group
    each = np.repeat(stored, [count // group for count in elements])
    scales = np.where(trits.reshape(-1, group).any(axis=1), each, np.float32(0))
    made: bytes = block_native.pack(trits, scales, kind, byte_order=order)
    after, found = block_native.unpack(made, trits.shape, kind, byte_order=order)
    if not np.array_equal(trits, after) or not np.array_equal(found, scales):
        raise ProofError(f"{kind} does not give back the trits and scales that were written")
    return made


def _floats(trits: NDArray[np.int8], stored: NDArray[np.float32], kind: str, order: ByteOrder) -> bytes:
    """The floats of trits, each with its scale, proved."""
    weights, word = trits * stored, FLOAT_WORDS[kind]
    if kind == "BF16":
        words = (weights.view(np.uint32) >> np.uint32(16)).astype(word)
    else:
        words = weights.astype(np.float16 if kind == "F16" else np.float32).view(word)
    made = words.astype(order_prefix(order) + word).tobytes()
    after = widened(np.frombuffer(made, order_prefix(order) + word).astype(word), kind)
    if not np.array_equal(after, weights) or not np.array_equal(after != 0, trits != 0):
        raise ProofError(f"{kind} does not give back the trits that were written")
    return made
