"""The way in which a tensor is converted: with one scale for all its weights, or with those of its groups.

`recoding_of` chooses it for one tensor; `SmallRecodings` converts many small tensors at once.
"""

from __future__ import annotations

from array import array
from collections.abc import Callable, Iterator, Sequence
from functools import partial
from itertools import accumulate, pairwise
from math import prod
from typing import TYPE_CHECKING, Final, Literal, NamedTuple

import numpy as np

from i2s_spec.codec import blocks_native
from i2s_spec.codec.blocks import blocks_of
from i2s_spec.codec.change_groups import BLOCK_TYPES
from i2s_spec.codec.encoding import (
    FLOAT_WORDS,
    NO_SCALES,
    TERNARY_TYPES,
    Joined,
    ProofError,
    Rounding,
    TernaryEncoding,
    Trits,
    joined_blocks,
    joined_floats,
    rounding,
    widened,
    worst_of,
)
from i2s_spec.codec.native import count_codes, pack_trits, unpack_trits
from i2s_spec.convert.encode import Encoder, Recoding, transcoded
from i2s_spec.convert.groups import GroupConversion, group_weights, most_changed, regrouped
from i2s_spec.errors import FormatError, quote
from i2s_spec.gguf.source import read_spans
from i2s_spec.schema.dialect import CODES_PER_BYTE
from i2s_spec.schema.faults import order_prefix
from i2s_spec.schema.types import BY_NAME, I2_S, SCALE_BYTES, TAIL_BYTES

if TYPE_CHECKING:
    from collections.abc import Iterable

    from numpy.typing import NDArray

    from i2s_spec.gguf.reader import File, Tensor
    from i2s_spec.schema.dialect import Dialect
    from i2s_spec.schema.faults import ByteOrder

AnyRecoding = Recoding | GroupConversion


def keeps_groups(source: str, target: str) -> bool:
    """Whether a conversion keeps a scale for each group, or weights that include it."""
    return source in BLOCK_TYPES and (target in BLOCK_TYPES or target in FLOAT_WORDS)


def recoding_of(source: Trits, form: TernaryEncoding, threads: int = 1) -> AnyRecoding:
    """Return a tensor in another form of the same shape; its bytes are made, and proved, during iteration.

    :raises ValueError: as the classes do
    """
    if not keeps_groups(source.encoding.type, form.type):
        return Recoding(source, form, threads)
    return GroupConversion(source, form, threads)


def named_bytes(name: str, recoding: AnyRecoding) -> Iterator[bytes]:
    """Yield the bytes of a tensor; errors contain its name."""
    try:
        yield from recoding
    except FormatError:
        raise
    except ValueError as error:
        raise ValueError(f"tensor {quote(name)}: {error}") from error


# --- small recodings -------------------------------------------------------------------------------------------------
# One read, one kernel call and one proof for hundreds of tensors.
#
# A file of 10 MB can hold 90,000 tensors of 32 bytes of codes, for which calls take a hundred times longer than the
# codes. Tensors of whole blocks, or of whole groups of rows of one length, can be joined to one tensor.

#: Most elements of a small tensor: between dialects, and for conversions that unpack trits.
SMALL: Final = 1 << 16
SMALL_UNPACKED: Final = 1 << 12

#: Most tensors that are converted at once.
TOGETHER: Final = 256


class _Sort(NamedTuple):
    """The common properties of joined tensors: both types, and the columns if they are joined as rows, else 0."""

    source: str
    target: str
    cols: int


class SmallRecodings:
    """Small tensors of a file in another form; their bytes are made in the order in which they were added, and proved
    before they are returned.

    Between dialects the unused code is kept. A tensor with a problem (a scale that the type cannot hold, unused codes)
    is converted alone, which reports the error.

    :param source: the dialect of the file
    :param kind: their new type, in dialect `target` if that is I2_S
    :param fallback: the type of tensors with a shape that `kind` cannot hold
    :param unused: whether the unused code is an error or 0
    :param order: the byte order of the copy
    """

    def __init__(
        self,
        file: File,
        source: Dialect,
        kind: str,
        target: Dialect,
        fallback: str | None,
        unused: Literal["reject", "zero"],
        order: ByteOrder,
    ) -> None:
        self.source = source
        self.target = target
        self._targets = (kind,) if fallback is None else (kind, fallback)
        self._file = file
        self._unused: Literal["reject", "zero"] = unused
        self._order: ByteOrder = order
        self._known: dict[tuple[str, tuple[int, ...]], _Sort | None] = {}
        self._tensors: list[Tensor] = []
        self._sorts: list[_Sort] = []
        #: By place, once the bytes of a tensor are made: its unused codes.
        self.unused = array("Q")
        #: By place: the scale that changed most, its stored value, and the number of all scales.
        self._scales = array("f")
        self._stored = array("f")
        self._counts = array("Q")
        self._ready: dict[int, bytes] = {}
        self._odd: frozenset[int] = frozenset()

    def add(self, tensors: Sequence[Tensor]) -> list[int | None]:
        """Return the places of tensors, at most `TOGETHER`; None for a tensor that is converted alone, or not at
        all.
        """
        sorts: dict[_Sort, list[int]] = {}
        for i, tensor in enumerate(tensors):
            if (sort := self._sort(tensor)) is not None:
                sorts.setdefault(sort, []).append(i)
        planned: dict[int, tuple[_Sort, Rounding]] = {}
        for sort, members in sorts.items():
            for i, each in zip(members, self._planned([tensors[i] for i in members], sort), strict=True):
                if each is not None:
                    planned[i] = (sort, each)
        places: list[int | None] = [None] * len(tensors)
        for i in sorted(planned):
            sort, each = planned[i]
            places[i] = len(self._tensors)
            self._tensors.append(tensors[i])
            self._sorts.append(sort)
            self.unused.append(0)
            self._scales.append(each.scale)
            self._stored.append(each.stored)
            self._counts.append(each.scales)
        return places

    def types(self, place: int) -> tuple[str, str]:
        """Return the old and the new type of a tensor."""
        return self._sorts[place][:2]

    def rounding(self, place: int) -> Rounding:
        """Return the rounding of a tensor's scales, once its bytes are made."""
        return Rounding(self._scales[place], self._stored[place], self._counts[place])

    def data(self, place: int) -> Callable[[], Iterator[bytes]]:
        """Return the function that makes the bytes of the tensor at a place."""
        return partial(self._bytes, place)

    # Which tensors are joined, and with which scales.

    def _sort(self, tensor: Tensor) -> _Sort | None:
        """Return the group with which a tensor is converted; None if it is not small, stays unchanged, or does not
        fit the type."""
        key = (tensor.kind, tensor.ne)
        if key not in self._known:
            self._known[key] = self._sort_of(tensor)
        return self._known[key]

    def _sort_of(self, tensor: Tensor) -> _Sort | None:
        source, kind = tensor.kind, self._targets[0]
        if tensor.type is not BY_NAME.get(source) or source not in TERNARY_TYPES:
            return None
        if source == kind != "I2_S" or (source == "I2_S" and self.source.tail.copies > 1):
            return None
        if source == kind == "I2_S" and (self.source == self.target or self._unused == "zero"):
            return None
        for target in self._targets:
            if _scales_apart(source) or _scales_apart(target):
                return None
            try:
                forms = (
                    TernaryEncoding(source, tensor.shape, self.source),
                    TernaryEncoding(target, tensor.shape, self.target),
                )
                Encoder(forms[1], np.float32(1))
            except ValueError:
                continue
            small = SMALL if source == target == "I2_S" else SMALL_UNPACKED
            rows = any(_joins_rows(form) for form in forms)
            return _Sort(source, target, forms[0].cols if rows else 0) if prod(tensor.ne) <= small else None
        return None

    def _planned(self, tensors: list[Tensor], sort: _Sort) -> list[Rounding | None]:
        """Return the rounding of each tensor's scale, as far as it is known before; None for tensors that are
        converted alone.
        """
        if keeps_groups(sort.source, sort.target):
            return [NO_SCALES] * len(tensors)
        good = np.ones(len(tensors), dtype=np.bool_)
        if sort.source == "I2_S":
            start = self._file.data_start or 0
            ends = [start + tensor.offset + I2_S.nbytes(tensor.ne) for tensor in tensors]
            tails = read_spans(self._file.source, [(end - TAIL_BYTES, SCALE_BYTES) for end in ends])
            scales = np.frombuffer(b"".join(tails), order_prefix(self._file.byte_order) + "f4").astype(np.float32)
        else:
            _, scales, good = self._joined(tensors, sort, self._read(tensors))
        different, of = np.unique(scales.view(np.uint32), return_inverse=True)
        each = [_rounding_or_none(scale, sort.target) for scale in different.view(np.float32)]
        return [each[i] if fine else None for i, fine in zip(of.reshape(-1).tolist(), good.tolist(), strict=True)]

    def _read(self, tensors: list[Tensor]) -> list[bytes]:
        start = self._file.data_start or 0
        return read_spans(self._file.source, [(start + tensor.offset, tensor.nbytes or 0) for tensor in tensors])

    def _joined(self, tensors: list[Tensor], sort: _Sort, data: list[bytes]) -> Joined:
        """Return the trits and scales of tensors of floats or blocks."""
        elements, order = [tensor.elements for tensor in tensors], self._file.byte_order
        if sort.source in FLOAT_WORDS:
            return joined_floats(b"".join(data), elements, sort.source, order)
        return joined_blocks(b"".join(data), elements, sort.cols or sum(elements), sort.source, order)

    # Their bytes.

    def _bytes(self, place: int) -> Iterator[bytes]:
        if place not in self._ready and place not in self._odd:
            self._make(place)
        if place in self._odd:
            yield from self._alone(place)
        else:
            yield self._ready.pop(place)

    def _make(self, first: int) -> None:
        """Make the bytes of a tensor and the following ones; unused results of an earlier call are dropped."""
        self._ready = {}
        odd: set[int] = set()
        sorts: dict[_Sort, list[int]] = {}
        for place, sort in enumerate(self._sorts[first : first + TOGETHER], first):
            sorts.setdefault(sort, []).append(place)
        for sort, places in sorts.items():
            try:
                self._ready.update(zip(places, self._made(places, sort), strict=True))
            except FormatError:
                raise
            except ValueError:
                odd.update(places)
        self._odd = frozenset(odd)

    def _alone(self, place: int) -> Iterator[bytes]:
        """One tensor by itself; errors contain its name."""
        tensor = self._tensors[place]
        form = TernaryEncoding(self._sorts[place].target, tensor.shape, self.target, self._order)
        try:
            recoding = recoding_of(tensor.ternary(self.source, self._unused), form)
        except FormatError:
            raise
        except ValueError as error:  # the file changed: the tensor was valid when it was planned
            raise ValueError(f"tensor {quote(tensor.name)}: {error}") from error
        yield from named_bytes(tensor.name, recoding)
        self.unused[place] = recoding.unused
        self._note(place, recoding.rounding)

    def _note(self, place: int, rounding: Rounding) -> None:
        self._scales[place], self._stored[place], self._counts[place] = rounding

    def _made(self, places: list[int], sort: _Sort) -> list[bytes]:
        """Return the bytes of tensors of one group.

        :raises ValueError: if one of them must be converted alone
        """
        tensors = [self._tensors[place] for place in places]
        elements = [tensor.elements for tensor in tensors]
        shape = (sum(elements) // sort.cols, sort.cols) if sort.cols else (1, sum(elements))
        source = TernaryEncoding(sort.source, shape, self.source, self._file.byte_order)
        form = TernaryEncoding(sort.target, shape, self.target, self._order)
        data = self._read(tensors)
        if sort.source == sort.target == "I2_S":
            return self._transcoded(places, data, source, form)
        if keeps_groups(sort.source, sort.target):
            return self._with_groups(places, elements, b"".join(data), source, form)
        if sort.source == "I2_S":
            payload = b"".join(each[:-TAIL_BYTES] for each in data)
            trits = unpack_trits(payload, shape, self.source, self._unused)
        else:
            flat, scales, good = self._joined(tensors, sort, data)
            if not good.all() or scales.tolist() != [self._scales[place] for place in places]:
                raise ValueError("the tensors have changed")
            trits = flat.reshape(shape)
        stored = np.array([self._stored[place] for place in places], dtype=np.float32)
        return encoded(trits, stored, elements, form)

    def _transcoded(
        self, places: list[int], each: list[bytes], source: TernaryEncoding, form: TernaryEncoding
    ) -> list[bytes]:
        """Tensors in another dialect."""
        sizes = [len(data) - TAIL_BYTES for data in each]
        made, unused = transcoded(b"".join(data[:-TAIL_BYTES] for data in each), source, form)
        done = []
        for place, data, codes in zip(places, each, divided(made, sizes), strict=True):
            if unused:
                self.unused[place] = count_codes(data[:-TAIL_BYTES])[self.source.code_map.unused]
            scale = data[-TAIL_BYTES : SCALE_BYTES - TAIL_BYTES]
            stored = scale if self._order == self._file.byte_order else scale[::-1]
            done.append(codes + (stored * self.target.tail.copies).ljust(TAIL_BYTES, b"\0"))
        return done

    def _with_groups(
        self, places: list[int], elements: list[int], data: bytes, source: TernaryEncoding, form: TernaryEncoding
    ) -> list[bytes]:
        """Tensors of a block type in another block type, or as floats, with the scale of each group."""
        shape = (form.rows, form.cols)
        if form.type in BLOCK_TYPES:
            made, needed, stored = regrouped(data, shape, source, form)
            parts = _parts(elements, stored.size)
            found = [most_changed(needed[start:stop], stored[start:stop]) for start, stop in parts]
        else:
            made, each, of = group_weights(data, shape, source, form, self._unused)
            parts = _parts(elements, of.size)
            found = [
                worst_of(*(each[i] for i in sorted(set(of[start:stop].tolist()))))._replace(scales=stop - start)
                for start, stop in parts
            ]
        for place, one in zip(places, found, strict=True):
            self._note(place, worst_of(NO_SCALES, one))
        return divided(made, [len(made) * count // sum(elements) for count in elements])


def _parts(elements: list[int], count: int) -> list[tuple[int, int]]:
    """Return the ranges of groups of consecutive tensors with these numbers of elements."""
    group = sum(elements) // count
    return list(pairwise(accumulate((each // group for each in elements), initial=0)))


def _scales_apart(kind: str) -> bool:
    """Whether the scales of a type follow all codes of a tensor, so that two tensors cannot be joined."""
    return kind in BLOCK_TYPES and BLOCK_TYPES[kind].scale.apart


def _joins_rows(form: TernaryEncoding) -> bool:
    """Whether tensors of a form must be joined as rows, which requires rows of equal length."""
    if form.type == "I2_S":
        return form.dialect.layout.row_block > 1
    return form.type in BLOCK_TYPES and BLOCK_TYPES[form.type].scale.per == "row"


def _rounding_or_none(scale: np.float32, type: str) -> Rounding | None:
    """Return the stored scale; None if the type cannot hold it, or it would invert the trits."""
    if type in FLOAT_WORDS and scale < 0:
        return None
    try:
        return rounding(scale, type)
    except ValueError:
        return None


# --- joined trits ----------------------------------------------------------------------------------------------------
# The trits of many tensors, one after the other, each with a scale: encoded together, and proved.


def encoded(
    trits: NDArray[np.int8], stored: NDArray[np.float32], elements: Sequence[int], form: TernaryEncoding
) -> list[bytes]:
    """Return the bytes of each tensor in a form, whose shape does not matter.

    :param trits: the trits of all tensors, [rows, columns]: whole blocks of the form, and whole rows if it has row scales
    :param stored: the stored scale of each tensor
    :param elements: the number of elements of each tensor
    :raises ValueError: if the scale is 0 but trits are not, in a type that stores weights
    :raises ProofError: if the bytes decode to something else
    """
    if form.type == "I2_S":
        payload: bytes = pack_trits(trits, form.dialect)
        if not np.array_equal(unpack_trits(payload, trits.shape, form.dialect), trits):
            raise ProofError(f"{form.dialect} does not give back the trits that were written")
        words = stored.astype(order_prefix(form.byte_order) + "f4")
        tails = [(word.tobytes() * form.dialect.tail.copies).ljust(TAIL_BYTES, b"\0") for word in words]
        codes = divided(payload, [count // CODES_PER_BYTE for count in elements])
        return [code + tail for code, tail in zip(codes, tails, strict=True)]
    made = (_blocks if form.type in BLOCK_TYPES else _floats)(trits, stored, elements, form)
    return divided(made, [len(made) * count // trits.size for count in elements])


def divided(data: bytes, sizes: Iterable[int]) -> list[bytes]:
    """Bytes in parts of these sizes."""
    return [data[start:stop] for start, stop in pairwise(accumulate(sizes, initial=0))]


def _blocks(
    trits: NDArray[np.int8], stored: NDArray[np.float32], elements: Sequence[int], form: TernaryEncoding
) -> bytes:
    """Return the blocks of tensors; a group of zeros has the scale 0."""
    group = blocks_of(trits.shape, form.type).group
    each = np.repeat(stored, [count // group for count in elements])
    scales = np.where(trits.reshape(-1, group).any(axis=1), each, np.float32(0))
    made: bytes = blocks_native.pack(trits, scales, form.type, byte_order=form.byte_order)
    after, found = blocks_native.unpack(made, trits.shape, form.type, byte_order=form.byte_order)
    if not np.array_equal(trits, after) or not np.array_equal(found, scales):
        raise ProofError(f"{form.type} does not give back the trits and scales that were written")
    return made


def _floats(
    trits: NDArray[np.int8], stored: NDArray[np.float32], elements: Sequence[int], form: TernaryEncoding
) -> bytes:
    """Return the weights of tensors; trits times a scale of 0 are refused."""
    flat, word = trits.reshape(-1), FLOAT_WORDS[form.type]
    weights = flat * np.repeat(stored, elements)
    if not np.array_equal(weights != 0, flat != 0):
        raise ValueError(f"a scale is 0, so {form.type} would store 0 for every trit")
    if form.type == "BF16":
        words = (weights.view(np.uint32) >> np.uint32(16)).astype(word)
    else:
        words = weights.astype(np.float16 if form.type == "F16" else np.float32).view(word)
    made = words.astype(order_prefix(form.byte_order) + word).tobytes()
    after = widened(np.frombuffer(made, order_prefix(form.byte_order) + word).astype(word), form.type)
    if not np.array_equal(after, weights):
        raise ProofError(f"{form.type} does not give back the trits that were written")
    return made
