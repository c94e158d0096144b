"""The flags of vectors, and which known mistake explains a wrong answer.

`FLAGS` has the mistakes that a vector finds (`schema.mistakes`); `explained` finds the one that gives exactly the bytes
of an answer.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING, Any, Final

import numpy as np

from i2s_spec.conformance.protocol import VectorCase
from i2s_spec.conformance.protocol_terms import PROCESSOR_LAYOUTS
from i2s_spec.conformance.score import dtype_of
from i2s_spec.errors import counted
from i2s_spec.schema.blocks import BLOCK_LAYOUTS, BlockLayout
from i2s_spec.schema.dialect import CODE_MAPS, CodeMap, Layout, parse
from i2s_spec.schema.mistakes import MISTAKES, wrong_block_layouts, wrong_layouts
from i2s_spec.schema.types import TAIL_BYTES

if TYPE_CHECKING:
    from numpy.typing import NDArray

#: Mistakes of models that no vector of this suite shows, and why.
NOT_IN_MODELS: Final = {
    "activation-blocks": "rows of the models are no multiples of 256; vectors of activations have the rule q8_k",
    "int16-wrap-avx2": "the models' rows are too short for it; vectors of bitlinear have int16-wrap",
    "int16-wrap-neon": "the models' rows are too short for it; vectors of bitlinear have int16-wrap",
    "rope-factors-ignored": "no model of the suite has rope_freqs.weight",
    "rope-scale-ignored": "no model of the suite scales positions",
    "pooling-last": "every embedding model of the suite takes the last token",
    "type-read-as-codes": "no model of the suite has projections of F32, F16, BF16 or TQ2_0",
    **dict.fromkeys(
        ("window-ignored", "window-everywhere", "window-one-more", "window-one-less"),
        "no prompt of the suite is longer than a window",
    ),
    **dict.fromkeys(
        (
            "convolution-forgets",
            "attention-gate-missing",
            "states-not-corrected",
            "net-gate-missing",
            "value-heads-grouped",
            "states-grow",
            "net-norms-missing",
        ),
        "no model of the suite has delta nets or gated attention",
    ),
    "table-read-as-halves": "no model of the suite has an embedding table of F32 or BF16",
}

#: Every flag by its name.
FLAGS: Final = {name: mistake for name, mistake in MISTAKES.items() if name not in NOT_IN_MODELS}


# --- explanations of bytes -------------------------------------------------------------------------------------------
# Every explanation is a wrong decoder that runs on the vector's input: another layout or code map, bits from the other
# end, the scale in another place. An explanation is given only if the whole answer agrees with the wrong decoder and
# not with the right one.

#: Weights of a block of I2_S.
_GROUP: Final = 128

#: The values that a reader may give the unused code.
_UNUSED: Final = (0, 1, -1, 2, -2, 3, -3)


def explained(case: VectorCase, want: bytes, got: bytes) -> str:
    """Return the mistake that gives this answer, as the end of a sentence, or an empty string."""
    if want == got or len(want) != len(got) or case.op not in ("decode", "dequant", "quantize"):
        return ""
    if case.op == "quantize":
        return _quantized(case, want, got)
    dtype = dtype_of(case)
    expected, actual = np.frombuffer(want, dtype), np.frombuffer(got, dtype)
    with np.errstate(all="ignore"):  # an answer may be any bytes, signalling NaN among them
        return next(_of_values(case, expected, actual), "")


def _of_values(case: VectorCase, want: NDArray[Any], got: NDArray[Any]) -> Iterator[str]:
    """Explain decoded values, the plainest first: signs and zeros, one scale between all weights, code maps, and then
    layouts, which can give any small matrix."""
    floats = want.dtype.kind == "f"
    if floats:
        if np.array_equal(want, got, equal_nan=True):
            zeros = (want == 0) & (np.signbit(want) != np.signbit(got))
            yield MISTAKES["minus-zero"].answer if zeros.any() else "only the bits of NaN differ"
        if np.isnan(want).all() and not np.isnan(got).any():
            yield "a scale that is NaN was replaced"
    if want.any() and not got.any():
        yield "every value is 0"
    if np.array_equal(-want, got) and want.any():
        yield MISTAKES["sign-swapped"].answer
    data = np.frombuffer(case.path.read_bytes(), np.uint8)
    type_ = str(case.args.get("type", "i2_s")).upper().replace(".", "_")
    if type_ == "I2_S":
        yield from _of_scale(case, data, want, got) if floats else ()
        yield from _of_elements(case, want, got)
        yield from _of_payload(case, data, want, got)
    elif type_ in BLOCK_LAYOUTS:
        yield from _of_elements(case, want, got)
        yield from _of_blocks(case, data, BLOCK_LAYOUTS[type_], got)
        yield from _of_scale(case, data, want, got) if floats else ()
    # Last: in a small matrix another layout moves elements as these do.
    matrix = _as_matrix(case, want)
    if matrix is not None:
        for name, moved in (
            (MISTAKES["transposed"].answer, matrix.T),
            ("the rows are in the opposite order", matrix[::-1]),
            ("the columns are in the opposite order", matrix[:, ::-1]),
        ):
            if np.array_equal(moved.reshape(-1), got, equal_nan=floats):
                yield name


def _of_elements(case: VectorCase, want: NDArray[Any], got: NDArray[Any]) -> Iterator[str]:
    """Yield mistakes in what becomes of each element, wherever it lies."""
    size = np.abs(want[want != 0])
    unit = size[0] if size.size and (size == size[0]).all() else None  # the scale, where there is one
    if (got >= 0).all() and (want < 0).any() and np.array_equal(np.abs(want), got):
        yield MISTAKES["absolute-values"].answer
    if unit is not None and np.array_equal(want + unit, got):
        yield MISTAKES["unsigned-trits"].answer
    matrix = _as_matrix(case, want)
    if matrix is not None and unit is not None and unit != 1 and len(matrix) > 1:
        first = np.concatenate([matrix[:1], matrix[1:] / unit])
        if np.array_equal(first.reshape(-1), got):
            yield MISTAKES["scale-first-row"].answer


def _as_matrix(case: VectorCase, values: NDArray[Any]) -> NDArray[Any] | None:
    """Return values as rows and columns, where the vector has two dimensions."""
    shape = [int(n) for n in case.args.get("shape", ())]
    return values.reshape(shape[1], shape[0]) if len(shape) == 2 and values.size == shape[0] * shape[1] else None


def _trits(values: NDArray[Any]) -> tuple[NDArray[np.int8], Any] | None:
    """Return values as signs times one magnitude, if they have that form."""
    if not np.isfinite(values).all():
        return None
    found = np.unique(np.abs(values[values != 0]))
    return (np.sign(values).astype(np.int8), found[0]) if found.size == 1 else None


def _of_scale(case: VectorCase, data: NDArray[np.uint8], right: NDArray[Any], given: NDArray[Any]) -> Iterator[str]:
    """Yield the mistake where the trits are right and the scale, one for all of them, is not."""
    factors = _trits(right), _trits(given)
    if factors[0] is None or factors[1] is None or not np.array_equal(factors[0][0], factors[1][0]):
        return
    want, got = np.float32(factors[0][1]), np.float32(factors[1][1])
    if got == 1:
        yield MISTAKES["scale-ignored"].answer
    if got == np.float32(1) / want:
        yield MISTAKES["scale-reciprocal"].answer
    if got == want * want:
        yield MISTAKES["scale-twice"].answer
    if got == np.float32(np.float16(want)):
        yield MISTAKES["scale-as-f16"].answer
    if got in _bfloat16(want):
        yield MISTAKES["scale-as-bf16"].answer
    tail, place = data[-TAIL_BYTES:].tobytes(), MISTAKES["scale-place"].answer
    for offset in range(4, len(tail) - 3, 4):  # small tensors of block types are shorter than a tail
        if abs(float(np.frombuffer(tail, "<f4", 1, offset)[0])) == got:
            yield place.format(place=f"{counted(offset, 'byte')} after its place")
    if len(tail) >= 4 and abs(float(np.frombuffer(tail, ">f4", 1)[0])) == got:
        yield MISTAKES["scale-byte-order"].answer
    before = data[-TAIL_BYTES - 4 : -TAIL_BYTES].tobytes()
    if len(before) == 4 and abs(float(np.frombuffer(before, "<f4")[0])) == got:
        yield place.format(place="from the last bytes of the payload")
    yield f"the trits are right, and the scale is {float(got)!r} for {float(want)!r}"


def _bfloat16(value: np.float32) -> tuple[np.float32, np.float32]:
    """Return a float cut to bfloat16, and rounded to it."""
    bits = int(value.view(np.uint32))
    cut, rounded = bits & 0xFFFF0000, (bits + 0x7FFF + (bits >> 16 & 1)) & 0xFFFF0000
    return np.uint32(cut).view(np.float32), np.uint32(rounded).view(np.float32)


def _of_payload(case: VectorCase, data: NDArray[np.uint8], want: NDArray[Any], got: NDArray[Any]) -> Iterator[str]:
    """Yield other code maps, orders of bits and layouts than the vector's; magnitudes are compared, where there is one."""
    cols, rows = _matrix(case, want.size)
    right, map_ = _dialect(case)
    floats = want.dtype.kind == "f"
    yield from _of_other_formats(data, cols * rows, got, floats)
    unit = np.abs(got).max(initial=0) if floats else 1
    scale = _trits(want)
    for name, layout in wrong_layouts(right):
        codes = _codes(data, layout, rows, cols)
        if codes is None:
            continue
        for other in (map_, *(each for each in CODE_MAPS.values() if each is not map_)):
            has_unused = bool((codes == other.unused).any())
            for unused in _UNUSED if has_unused else (0,):
                worth = np.array([unused if trit is None else trit for trit in other.trits], np.int8)
                same = _same_weights(worth[codes], got, unit / np.abs(worth[codes]).max(initial=1) if floats else None)
                if not same or (name == "" and other is map_ and not has_unused):
                    continue
                parts = [
                    f"the layout {name} was read" if name else "",
                    f"the code map {other} was read" if other is not map_ else "",
                ]
                if has_unused:
                    value = f"{unused:+d}" if unused else "0"
                    parts.append(MISTAKES["code-three"].answer.format(code=other.unused, value=value))
                if floats and scale is not None and not _same_magnitude(got, scale[1], worth[codes]):
                    parts.append("the scale is another")
                yield " and ".join(part for part in parts if part)
    for shift in (1, 4, 32, TAIL_BYTES):
        codes = _codes(np.roll(data, -shift), right, rows, cols)
        if codes is not None and _same_weights(_with(map_, codes), got, unit if floats else None):
            yield f"the payload was read {counted(shift, 'byte')} after its place"


def _same_weights(trits: NDArray[Any], got: NDArray[Any], unit: Any) -> bool:
    """Whether an answer is these values, times one scale where it has weights."""
    return np.array_equal(trits if unit is None else trits.astype(np.float32) * np.float32(unit), got)


def _same_magnitude(got: NDArray[Any], scale: Any, worth: NDArray[Any]) -> bool:
    """Whether the largest weights of an answer are those that the scale gives."""
    return bool(np.abs(got).max(initial=0) == np.float32(scale) * np.abs(worth).max(initial=0))


def _of_other_formats(data: NDArray[np.uint8], count: int, got: NDArray[Any], floats: bool) -> Iterator[str]:
    """Yield formats that programs take type 36 for."""
    if count % 4 == 0 and data.size >= count // 4:
        in_order = data[: count // 4, None] >> np.arange(0, 8, 2) & 3
        if np.array_equal(np.array([-2, -1, 1, 2])[in_order].reshape(-1), got):
            yield MISTAKES["codes-four-values"].answer
    blocks = count // _GROUP
    if count % _GROUP or data.size < blocks * 34:
        return
    rows = data[: blocks * 34].reshape(blocks, 34)
    scales = np.ascontiguousarray(rows[:, :2]).view("<f2").astype(np.float32) if floats else np.float32(1)
    k = np.arange(_GROUP)
    for byte, shift in ((k % 32, 6 - k // 32 * 2), (k // 4, k % 4 * 2), (k // 4, 6 - k % 4 * 2)):
        trits = (rows[:, 2:][:, byte] >> shift & 3).astype(np.int8) - 1
        with np.errstate(all="ignore"):
            if np.array_equal((trits * scales).reshape(-1), got, equal_nan=floats):
                yield MISTAKES["scale-in-blocks"].answer


def _with(map_: CodeMap, codes: NDArray[np.int64]) -> NDArray[np.int8]:
    return np.array([trit or 0 for trit in map_.trits], np.int8)[codes]


def _dialect(case: VectorCase) -> tuple[Layout, CodeMap]:
    """Return the layout and code map that the vector names."""
    first, _, rest = str(case.args.get("layout") or "interleave-128").partition("/")
    try:
        dialect = parse("/".join(part for part in (PROCESSOR_LAYOUTS.get(first, first), rest) if part))
    except ValueError:
        dialect = parse("canonical")
    return dialect.layout, CODE_MAPS.get(str(case.args.get("codes")), dialect.code_map)


def _codes(data: NDArray[np.uint8], layout: Layout, rows: int, cols: int) -> NDArray[np.int64] | None:
    k = np.arange(rows * cols)
    if not k.size or rows % layout.row_block:
        return None
    places, shifts = layout.byte_of(k, rows, cols), layout.shift_of(k, rows, cols)
    if int(places.max()) >= data.size:
        return None
    codes: NDArray[np.int64] = ((data[places] >> shifts) & 3).astype(np.int64)
    return codes


def _matrix(case: VectorCase, count: int) -> tuple[int, int]:
    shape = [int(n) for n in case.args.get("shape", ())] or [count]
    return shape[0], count // max(1, shape[0])


def _of_blocks(case: VectorCase, data: NDArray[np.uint8], right: BlockLayout, got: NDArray[Any]) -> Iterator[str]:
    """Yield other places of codes and scales than the type's."""
    cols, rows = _matrix(case, got.size)
    for name, layout in wrong_block_layouts(right):
        for fourth in (2, 0, 1, -1):
            values = _block_values(data, layout, rows, cols, fourth, got.dtype.kind == "f")
            if values is None or values.size != got.size:
                continue
            same = values.astype(got.dtype)
            if np.array_equal(same, got, equal_nan=got.dtype.kind == "f") and (name or fourth != 2):
                code = (
                    MISTAKES["code-three"].answer.format(code=3, value=f"{fourth:+d}")
                    if fourth != 2 and layout.coding == "bits"
                    else ""
                )
                yield " and ".join(part for part in (name, code) if part)
    if right.coding == "digits":
        uncut = _block_values(data, right, rows, cols, 2, got.dtype.kind == "f", cut=-1)
        if uncut is not None and np.array_equal(uncut.astype(got.dtype), got, equal_nan=got.dtype.kind == "f"):
            yield MISTAKES["digits-not-cut"].answer


def _block_values(
    data: NDArray[np.uint8], layout: BlockLayout, rows: int, cols: int, fourth: int, scaled: bool, cut: int = 255
) -> NDArray[Any] | None:
    """Return every value that a layout reads, or None where it cannot.

    :param cut: the bits of a product that a digit is taken from
    """
    count = rows * cols // layout.block
    if layout.scale.per != "block" or not count or rows * cols % layout.block or data.size < count * layout.nbytes:
        return None
    blocks = data[: count * layout.nbytes].reshape(count, layout.nbytes)
    codes = np.empty((count, layout.block), np.int32)
    first = 0
    for part in layout.parts:
        k = np.arange(first, part.stop)
        held = blocks[:, np.minimum(part.byte_of(k, 1, layout.block), layout.nbytes - 1)].astype(np.int64)
        place = part.place_of(k, 1, layout.block)
        codes[:, first : part.stop] = (
            held >> place & 3 if layout.coding == "bits" else ((held * 3**place & cut) * 3) >> 8
        )
        first = part.stop
    values = np.where(codes == 3, fourth, codes - 1) if layout.coding == "bits" else codes - 1
    if not scaled:
        return values.reshape(-1)
    start = layout.scale.offset
    kind = "<f2" if layout.scale.type == "F16" else "<f4"
    scales = np.ascontiguousarray(blocks[:, start : start + layout.scale.nbytes]).view(kind).astype(np.float32)
    with np.errstate(all="ignore"):
        weights: NDArray[Any] = (values.astype(np.float32) * scales).reshape(-1)
    return weights


def _quantized(case: VectorCase, want: bytes, got: bytes) -> str:
    """Return the mistake in bytes that a quantizer wrote."""
    if str(case.args.get("type", "i2_s")).upper() != "I2_S" or len(want) <= TAIL_BYTES:
        return ""
    payload, tail = want[:-TAIL_BYTES], want[-TAIL_BYTES:]
    if got[:-TAIL_BYTES] == payload:
        if got[-TAIL_BYTES:][:4] == tail[:4]:
            return "payload and scale are right, and the bytes after the scale differ"
        if got[-TAIL_BYTES:][:4] == tail[:4][::-1]:
            return "the payload is right, and the scale has the other byte order"
        return "the payload is right, and the scale differs"
    elements = len(payload) * 4
    cols, rows = _matrix(case, elements)
    right, map_ = _dialect(case)
    expected = _codes(np.frombuffer(payload, np.uint8), right, rows, cols)
    data = np.frombuffer(got[:-TAIL_BYTES], np.uint8)
    for name, layout in wrong_layouts(right):
        codes = _codes(data, layout, rows, cols)
        for other in CODE_MAPS.values():
            if (
                codes is not None
                and expected is not None
                and np.array_equal(_with(other, codes), _with(map_, expected))
            ):
                parts = [
                    f"the layout {name} was written" if name else "",
                    f"the code map {other} was written" if other is not map_ else "",
                ]
                return " and ".join(part for part in parts if part)
    return ""
