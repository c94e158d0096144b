"""Files and tensors for property tests with Hypothesis: sound ones by construction, broken ones by change.

    from hypothesis import given
    from i2s_spec.testing import strategies

    @given(strategies.gguf_files())
    def test_my_reader(data: bytes) -> None:
        my_reader(data)                      # must accept

    @given(strategies.i2s_tensors())
    def test_my_decoder(tensor: strategies.I2sTensor) -> None:
        assert (my_decoder(tensor.data, tensor.shape) == tensor.trits).all()

`gguf_files` gives whole files without linter errors; `models` small models of the declared architectures; `i2s_tensors`
the bytes of tensors in every dialect, with their weights; `mutated` any of these with changed fields. Failing examples
shrink towards few small records and few changes. Hypothesis is part of the extra [testing].
"""

from __future__ import annotations

import io
import struct
from functools import partial
from math import prod
from typing import TYPE_CHECKING, Any, Final, NamedTuple

from i2s_spec.errors import MissingExtra
from i2s_spec.schema import limits
from i2s_spec.schema.architectures import ARCHITECTURES
from i2s_spec.schema.dialect import CODE_MAPS, CODES_PER_BYTE, LAYOUTS, TAILS, Dialect, parse
from i2s_spec.schema.faults import ByteOrder
from i2s_spec.schema.types import (
    BY_NAME,
    NOT_WEIGHTS,
    SECOND_NUMBERS,
    TENSOR_TYPES,
    VALUE_FORMATS,
    VALUE_LABELS,
    TensorType,
    ValueType,
)

if TYPE_CHECKING:
    from collections.abc import Sequence

    import numpy as np
    from hypothesis.strategies import DrawFn, SearchStrategy
    from numpy.typing import NDArray

#: Valid names that are not keys of a declared architecture.
_NAME: Final = r"[a-z][a-z0-9_]{0,8}(\.[a-z][a-z0-9_]{0,8}){0,2}"


class I2sTensor(NamedTuple):
    """The bytes of an I2_S tensor and their contents.

    :param data: payload and tail, rows * cols / 4 + 32 bytes
    :param shape: (rows, cols)
    :param trits: int8 [rows, cols] of -1, 0 and +1
    :param scale: the value of +1, a float32
    :param dialect: the dialect in which they are written
    :param byte_order: the byte order of the scale
    """

    data: bytes
    shape: tuple[int, int]
    trits: NDArray[np.int8]
    scale: float
    dialect: Dialect
    byte_order: ByteOrder


def dialects(in_gguf: bool = True) -> SearchStrategy[Dialect]:
    """Draw every dialect, the canonical one first.

    :param in_gguf: only those that occur inside GGUF files
    """
    _need_hypothesis()
    from hypothesis import strategies as st

    layouts = [layout for layout in LAYOUTS.values() if layout.in_gguf or not in_gguf]
    return st.builds(
        Dialect,
        st.sampled_from(layouts),
        st.sampled_from(list(CODE_MAPS.values())),
        st.sampled_from(list(TAILS.values())),
    )


def scales() -> SearchStrategy[float]:
    """Draw scales that a sound tensor can have: positive float32 values of a usual size."""
    _need_hypothesis()
    from hypothesis import strategies as st

    return st.floats(2**-10, 64.0, width=32)


def i2s_tensors(
    dialect: str | Dialect | None = None, *, byte_order: ByteOrder | None = None, most_rows: int = 8
) -> SearchStrategy[I2sTensor]:
    """Draw I2_S tensors with their weights, in one dialect or in any.

    :param dialect: a name or a `Dialect`; None for every one that occurs in GGUF files
    :param byte_order: the byte order of the scale; None for both
    :param most_rows: most rows; if the layout packs groups of rows, most groups
    """
    _need_hypothesis()
    from hypothesis import strategies as st

    chosen = dialects() if dialect is None else st.just(parse(dialect))
    orders = _orders(byte_order)

    @st.composite
    def tensors(draw: DrawFn) -> I2sTensor:
        import numpy as np

        from i2s_spec.codec import native

        way, order = draw(chosen), draw(orders)
        group = way.layout.row_block
        rows = draw(st.integers(1, max(1, most_rows // group))) * group
        cols = draw(st.integers(1, 3)) * max(128, way.layout.block)
        seed = draw(st.binary(max_size=32))
        pattern = np.frombuffer(seed or b"\0", dtype=np.uint8) % 3
        trits = np.resize(pattern, rows * cols).astype(np.int8).reshape(rows, cols) - 1
        scale = draw(scales())
        data = native.pack(trits, scale, way, byte_order=order)
        return I2sTensor(bytes(data), (rows, cols), trits, scale, way, order)

    return tensors()


def key_values() -> SearchStrategy[tuple[bytes, ValueType, Any]]:
    """Draw key-values as (name, type, value in the schema's form): every type, and arrays of every type except arrays."""
    _need_hypothesis()
    from hypothesis import strategies as st

    from i2s_spec.testing.sample import array

    def values(kind: ValueType) -> SearchStrategy[Any]:
        if kind == ValueType.STRING:
            text = st.text(st.characters(codec="utf-8", exclude_categories=("C", "Z")), max_size=12)
            return text.map(str.encode)
        if kind == ValueType.BOOL:
            return st.integers(0, 1)
        letter = VALUE_FORMATS[kind]
        if letter in "fd":
            return st.floats(width=32 if letter == "f" else 64, allow_nan=False)
        bits = 8 * struct.calcsize(letter)
        low, high = (-(1 << bits - 1), 1 << bits - 1) if letter.islower() else (0, 1 << bits)
        return st.integers(low, high - 1)

    def arrays(kind: ValueType) -> SearchStrategy[Any]:
        return st.lists(values(kind), max_size=4).map(partial(array, kind))

    plain = [ValueType(number) for number in range(len(VALUE_LABELS)) if number != ValueType.ARRAY]
    name = st.from_regex(_NAME, fullmatch=True).map(lambda text: b"made." + text.encode())
    single = st.sampled_from(plain).flatmap(lambda kind: st.tuples(name, st.just(kind), values(kind)))
    several = st.sampled_from(plain).flatmap(
        lambda kind: st.tuples(name, st.just(ValueType.ARRAY), arrays(kind))
    )  # fmt: skip
    return st.one_of(single, several)


def gguf_files(
    *,
    byte_order: ByteOrder | None = None,
    dialect: str | Dialect | None = "canonical",
    types: Sequence[str] | None = None,
    most_tensors: int = 4,
) -> SearchStrategy[bytes]:
    """Draw whole files without an architecture: any keys, any tensors, any alignment, either byte order; without linter
    errors.

    :param byte_order: None for both
    :param dialect: the dialect of I2_S tensors; None for every one
    :param types: names of the types that tensors may have; None for every one whose number has only one meaning
    :param most_tensors: the most tensors in a file
    """
    _need_hypothesis()
    from hypothesis import strategies as st

    from i2s_spec.schema import container
    from i2s_spec.schema.container import ALIGNMENT_KEY
    from i2s_spec.testing.mutations import begun, laid_out
    from i2s_spec.testing.sample import key_value, tensor_info

    orders = _orders(byte_order)
    kinds = _unambiguous() if types is None else [BY_NAME[name] for name in types]

    @st.composite
    def files(draw: DrawFn) -> bytes:
        order: ByteOrder = draw(orders)
        file = container.parse(begun(order))
        file.key_values = [key_value(b"general.architecture", ValueType.STRING, b"made")]
        pairs = draw(st.lists(key_values(), max_size=5, unique_by=lambda pair: pair[0]))
        file.key_values += [key_value(*pair) for pair in pairs]
        alignment = draw(st.sampled_from([32, 8, 16, 64, 128, 4096]))
        if alignment != limits.DEFAULT_ALIGNMENT:
            at = draw(st.integers(0, len(file.key_values)))
            file.key_values.insert(at, key_value(ALIGNMENT_KEY, ValueType.UINT32, alignment))

        contents = []
        for number in range(draw(st.integers(0, most_tensors))):
            kind = draw(st.sampled_from(kinds))
            if kind.name == "I2_S":
                tensor = draw(i2s_tensors(dialect, byte_order=order, most_rows=4))
                ne: tuple[int, ...] = tensor.shape[::-1]
                content = tensor.data
            else:
                ne = (kind.block * draw(st.integers(1, 2)), *draw(st.lists(st.integers(1, 3), max_size=3)))
                content = _bytes_of(kind, ne, order)
            end = "table" if kind.name in NOT_WEIGHTS else "weight"
            name = f"made.{number}.{draw(st.from_regex('[a-z_]{1,8}', fullmatch=True))}.{end}"
            file.tensor_infos.append(tensor_info(name.encode(), ne, kind.number, 0))
            contents.append(content)
        return laid_out(file, contents, alignment)

    return files()


def models(architecture: str | None = None, *, byte_order: ByteOrder | None = "little") -> SearchStrategy[bytes]:
    """Draw small complete models, as `i2s new` makes them; about 100 KB each.

    :param architecture: one of `ARCHITECTURES`; None for every one
    :param byte_order: None for both
    """
    from i2s_spec.convert.new import new

    _need_hypothesis()
    from hypothesis import strategies as st

    def made(name: str, order: ByteOrder, seed: int, layers: int, alignment: int) -> bytes:
        target = io.BytesIO()
        vocab = ARCHITECTURES[name].small_vocab
        new(target, name, layers=layers, vocab=vocab, seed=seed, byte_order=order, alignment=alignment)
        return target.getvalue()

    return st.builds(
        made,
        st.sampled_from(list(ARCHITECTURES)) if architecture is None else st.just(architecture),
        _orders(byte_order),
        st.integers(0, 1000),
        st.integers(1, 2),
        st.sampled_from([32, 64]),
    )


def mutated(
    files: SearchStrategy[bytes] | None = None, *, most: int = 4, max_size: int = 1 << 17
) -> SearchStrategy[bytes]:
    """Draw files that were changed field by field; see `i2s_spec.testing.mutator`.

    :param files: the files to change; None for sound files, or empty data
    :param most: the most changes
    :param max_size: longest file in bytes
    """
    _need_hypothesis()
    from hypothesis import strategies as st

    from i2s_spec.testing.mutator import mutate

    def changed(data: bytes, seeds: list[int]) -> bytes:
        for seed in seeds:
            data = mutate(data, seed, max_size)
        return data

    base = st.one_of(st.just(b""), gguf_files()) if files is None else files
    return st.builds(changed, base, st.lists(st.integers(0, 2**32 - 1), min_size=1, max_size=most))


def _orders(byte_order: ByteOrder | None) -> SearchStrategy[ByteOrder]:
    """Draw one byte order, or both, little-endian first."""
    from hypothesis import strategies as st

    both: tuple[ByteOrder, ...] = ("little", "big")
    return st.sampled_from(both) if byte_order is None else st.just(byte_order)


def _unambiguous() -> list[TensorType]:
    """Return types whose number has only one meaning; I2_S first, because examples shrink towards it."""
    numbers = [kind.number for kind in TENSOR_TYPES]
    own = [
        kind
        for kind in TENSOR_TYPES
        if numbers.count(kind.number) == 1 and kind.number not in SECOND_NUMBERS and kind.family == "ggml"
    ]
    return [BY_NAME["I2_S"], *own]


def _bytes_of(kind: TensorType, ne: tuple[int, ...], order: str) -> bytes:
    """Return valid bytes for a type: numbers that are 1, or bytes that are valid as codes, digits and floats.

    None of them holds the code 3, each represents five digits in base 3 as a quantizer writes it, and no float16 made
    of them is infinite or NaN.
    """
    size = kind.nbytes(ne)
    one = {"F32": struct.pack(">f", 1.0), "F16": b"\x3c\x00", "BF16": b"\x3f\x80", "F64": struct.pack(">d", 1.0)}
    unit = one.get(kind.name)
    if unit is not None:
        unit = unit if order == "big" else unit[::-1]
        return unit * (prod(ne))
    return (b"\x11\x22\x12\x24" * (size // CODES_PER_BYTE + 1))[:size]


def _need_hypothesis() -> None:
    try:
        import hypothesis.strategies  # noqa: F401
    except ImportError:
        raise MissingExtra("making examples with Hypothesis", "testing") from None
