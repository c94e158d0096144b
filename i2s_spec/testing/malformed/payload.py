"""Broken payloads: codes and their shares, scales and tails, wrong layouts, and types with a scale for each group.

The first cases have unused codes, other code maps, runs, copies, and odd shares of codes.
"""

from __future__ import annotations

import random
import struct
from collections.abc import Callable
from functools import cache, partial
from typing import TYPE_CHECKING, Final, NamedTuple

from i2s_spec.schema.blocks import GROUP_LAYOUTS, SCALES, GroupScale, block_layout
from i2s_spec.schema.types import BY_NAME, padded
from i2s_spec.testing.malformed.case import add as add_case
from i2s_spec.testing.malformed.case import model as sound_model
from i2s_spec.testing.malformed.case import plain
from i2s_spec.testing.sample import Draft, Model, block_bytes, tensor_info

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

_I2S = BY_NAME["I2_S"].number
#: A payload of `SIZE` bytes has 32,768 codes: enough for meaningful shares.
SIZE = 8192


class TernaryTensor(NamedTuple):
    """An I2_S tensor: name, ne, payload, and the bytes after it."""

    name: bytes
    ne: tuple[int, ...]
    payload: bytes
    tail: bytes = struct.pack("<f", 0.5) + bytes(28)


@cache
def trits(
    size: int = SIZE, seed: int = 1, shares: tuple[int, ...] = (1, 1, 1), codes: tuple[int, ...] = (0, 1, 2)
) -> bytes:
    """Return a payload of `size` bytes whose codes are drawn with these shares; deterministic."""
    made = random.Random(seed).choices(codes, shares, k=4 * size)
    return bytes(a << 6 | b << 4 | c << 2 | d for a, b, c, d in zip(*(iter(made),) * 4, strict=True))


def scaled(scale: float, rest: bytes = bytes(28)) -> bytes:
    """Return a tail."""
    return struct.pack("<f", scale) + rest


def model(*tensors: TernaryTensor) -> bytes:
    """Return a sound file with these I2_S tensors and no other."""
    draft = Draft()
    file = draft.records()
    file.tensor_infos, file.data = [], b""
    for name, ne, payload, tail in tensors:
        file.tensor_infos.append(tensor_info(name, ne, _I2S, len(file.data)))
        file.data += payload + tail
    return draft.built(file)


def matrix(payload: bytes, name: bytes = b"first.weight", cols: int = 512, tail: bytes = scaled(0.5)) -> TernaryTensor:
    """Return a payload as a matrix of rows of `cols` weights."""
    return TernaryTensor(name, (cols, 4 * len(payload) // cols), payload, tail)


def _alone(payload: bytes) -> bytes:
    return model(matrix(payload))


def _with(at: int, data: bytes, size: int = SIZE) -> bytes:
    """Return a sound payload with other bytes somewhere."""
    whole = trits(size)
    return whole[:at] + data + whole[at + len(data) :]


def _floats(form: str, count: int) -> bytes:
    drawn = random.Random(2)
    return struct.pack(f"<{count}{form}", *(drawn.gauss(0, 0.02) for _ in range(count)))


def _bfloats(count: int) -> bytes:
    words = _floats("f", count)
    return b"".join(words[at + 2 : at + 4] for at in range(0, len(words), 4))


def _few_signs() -> bytes:
    """Return zeros, with a weight of +1 in every twentieth byte."""
    return bytes(0x65 if i % 20 == 0 else 0x55 for i in range(SIZE))


def pair(seed: int = 3, scale: float = 0.5) -> bytes:
    """Return two matrices, the second with another scale or, from another seed, other weights."""
    other = matrix(trits(seed=seed), b"other.weight", tail=scaled(scale))
    return model(matrix(trits(seed=3), b"one.weight"), other)


def _nan_in_floats() -> bytes:
    draft = Draft()
    start, _ = draft.span("data")
    data = bytearray(draft.data)
    data[start + 8 : start + 12] = struct.pack("<f", float("nan"))
    return bytes(data)


add = partial(add_case, sound=lambda: _alone(trits()))

add("code-3", "I201", "data[0]", lambda: _alone(_with(1000, b"\xff")))
add("code-3-alone-in-its-byte", "I201", "data[0]", lambda: _alone(_with(SIZE - 1, b"\x43")))
add("code-3-throughout", "I201", "data[0]", lambda: _alone(b"\xff" * 128))
add("codes-of-june-2024", "I202", "data[0]", lambda: _alone(trits(codes=(0, 1, 3))))
add("codes-of-t-mac", "I202", "data[0]", lambda: _alone(trits(codes=(1, 2, 3))))
add("payload-of-f32", "I203", "data[0]", lambda: _alone(_floats("f", SIZE // 4)))
add("payload-of-f16", "I203", "data[0]", lambda: _alone(_floats("e", SIZE // 2)))
add("payload-of-bf16", "I203", "data[0]", lambda: _alone(_bfloats(SIZE // 2)))
add("end-not-filled", "I204", "data[0]", lambda: _alone(_with(SIZE - 512, bytes(512))))
add("end-not-filled-by-a-block", "I204", "data[0]", lambda: _alone(_with(4096 - 32, bytes(32), 4096)))
add("all-minus-one", "I205", "data[0]", lambda: _alone(bytes(128)))
add("all-plus-one", "I205", "data[0]", lambda: _alone(b"\xaa" * SIZE))
add("stretch-of-zero-weights", "I206", "data[0]", lambda: _alone(_with(SIZE, b"\x55" * 4096, 8 * SIZE)))
add("stretch-of-zero-bytes", "G411", "data[0]", lambda: _alone(_with(SIZE, bytes(4096), 8 * SIZE)))
add("rows-all-equal", "I207", "data[0]", lambda: _alone(trits(128) * 64))
add("tensor-twice", "I208", "data[1]", pair, sound=partial(pair, 4))
add("signs-only", "I209", "data[0]", lambda: _alone(trits(shares=(1, 0, 1))))
add("hardly-a-sign", "I210", "data[0]", lambda: _alone(_few_signs()))
add("minus-for-plus", "I211", "data[0]", lambda: _alone(trits(shares=(6, 4, 1))))
add("few-zeros", "I212", "data[0]", lambda: _alone(trits(shares=(4, 1, 4))))
add("nan-in-floats", "G413", "data[0]", _nan_in_floats, sound=plain)


# --- scales and tails ------------------------------------------------------------------------------------------------

_NAN, _INFINITY = float("nan"), float("inf")


def _scaled(scale: float) -> bytes:
    return model(matrix(trits(), tail=scaled(scale)))


def _several(*scales: float) -> bytes:
    """Return a file of tensors with these scales."""
    return model(*(
        matrix(trits(4096, seed), b"tensor.%d.weight" % seed, tail=scaled(scale)) for seed, scale in enumerate(scales)
    ))  # fmt: skip


def _attention(*scales: float) -> bytes:
    """Return a layer of an architecture that is not declared."""
    names = (b"attn_q", b"attn_k", b"attn_v")
    return model(*(
        matrix(trits(1024, seed), b"blk.0.%s.weight" % name, tail=scaled(scale))
        for seed, (name, scale) in enumerate(zip(names, scales, strict=True))
    ))  # fmt: skip


def _header_in_front() -> bytes:
    payload = struct.pack("<e", 0.03125) + bytes(30) + trits(SIZE - 32)
    return model(matrix(payload, tail=bytes(32)))


def _float_in_front(rest: bytes = bytes(28)) -> bytes:
    """Return a float32 and, with `rest`, zeros where the codes should begin; the codes end where the scale should
    be.
    """
    shifted = struct.pack("<f", 0.03125) + rest + trits(SIZE, 6)  # the last bytes are not a usual scale
    return model(matrix(shifted[:SIZE], tail=shifted[SIZE:].ljust(32, b"\0")))


def _by_rows(form: str) -> bytes:
    """Return rows of 512 weights with a scale in front of each, and nothing after them."""
    codes, scale = trits(), struct.pack(form, 0.03125)
    rows = b"".join(scale + codes[at : at + 128] for at in range(0, SIZE, 128))
    return model(TernaryTensor(b"first.weight", (512, 64), rows, b""))


def _left_behind() -> bytes:
    """Return a large tensor, then a small one whose tail has bytes of the large one, as if both were written with
    one buffer.
    """
    large = trits(2 * SIZE, 4)
    rest = large[SIZE + 4 : SIZE + 32]
    return model(matrix(large, b"one.weight"), matrix(trits(SIZE, 5), b"other.weight", tail=scaled(0.6, rest)))


_USUAL = partial(_several, 0.021, 0.025, 0.024, 0.022, 0.026)
add_scaled = partial(add_case, sound=partial(_scaled, 0.5))

add_scaled("scale-nan", "I302", "data[0].tail.scale", partial(_scaled, _NAN))
add_scaled("scale-infinite", "I303", "data[0].tail.scale", partial(_scaled, _INFINITY))
add_scaled("scale-minus-infinite", "I303", "data[0].tail.scale", partial(_scaled, -_INFINITY))
add_scaled("scale-zero", "I304", "data[0].tail.scale", partial(_scaled, 0.0))
add_scaled("scale-negative", "I305", "data[0].tail.scale", partial(_scaled, -0.5))
add_scaled("scale-subnormal", "I306", "data[0].tail.scale", partial(_scaled, 1e-41))
add_scaled("scale-tiny", "I306", "data[0].tail.scale", partial(_scaled, 1e-13))
add_scaled("scale-large", "I307", "data[0].tail.scale", partial(_scaled, 3000.0))
add_scaled("scale-small", "I307", "data[0].tail.scale", partial(_scaled, 2.0**-15))
add_scaled(
    "scale-inverted",
    "I308",
    "data[2].tail.scale",
    partial(_several, 0.021, 0.025, 1 / 0.024, 0.022, 0.026),
    sound=_USUAL,
)
add_scaled("scale-eight-times", "I309", "data[0].tail.unused", lambda: (
    model(matrix(trits(), tail=struct.pack("<f", 0.5) * 8))))  # fmt: skip
add_scaled("tail-with-old-memory", "I310", "data[0].tail.unused", lambda: (
    model(matrix(trits(), tail=scaled(0.5, bytes(range(1, 29)))))))  # fmt: skip
add_scaled("tail-of-another-tensor", "I311", "data[1].tail.unused", _left_behind, sound=partial(pair, 4, 0.6))
add_scaled("scale-in-front", "I312", "data[0]", _header_in_front)
add_scaled("float-in-front-with-zeros", "I312", "data[0]", _float_in_front, also=("I310",))
add_scaled("float-in-front", "I312", "data[0]", partial(_float_in_front, b""))
add_scaled("float-in-every-row", "I112", "data[0]", partial(_by_rows, "<f"))
add_scaled("half-in-every-row", "I112", "data[0]", partial(_by_rows, "<e"))
add_scaled("scales-identical", "I313", "data[0].tail.scale", partial(_several, 1.0, 1.0, 1.0, 1.0), sound=_USUAL)
add_scaled("scales-far-apart", "I314", "data[1].tail.scale", partial(_attention, 0.02, 4.1, 0.03),
    also=("M001",), sound=partial(_attention, 0.02, 0.041, 0.03))  # fmt: skip
add_scaled("zeros-with-a-scale", "I315", "data[0].tail.scale", partial(
    model, TernaryTensor(b"first.weight", (512, 4), b"\x55" * 512, scaled(5e-3))), also=("I205",))  # fmt: skip
add_case("neogpu-form", "I317", "tensor_infos[2].type", lambda: _of_writer("neogpu"), also=("M012", "T009", "T015"),
         sound=sound_model("bitnet-b1.58"))  # fmt: skip
add_scaled(
    "same-codes-other-scale", "I316", "data[1].tail.scale", partial(pair, scale=0.7), sound=partial(pair, 4, 0.7)
)


def _of_writer(name: str) -> bytes:
    """Return a model in the form of a single writer."""
    from i2s_spec.gguf.reader import open as open_file
    from i2s_spec.testing import writer_files

    with open_file(sound_model("bitnet-b1.58")()) as file:
        made: bytes = getattr(writer_files, f"{name}_file")(file)
        return made


# --- wrong layouts ---------------------------------------------------------------------------------------------------
# The weights have a structure that shows the layout.

#: Kinds of channels: channels of one kind have similar rows and columns.
_KINDS: Final = 16


@cache
def _layers(more: int = 0) -> dict[str, NDArray[np.int8]]:
    """Return the trits of one layer of 128 channels that have kinds, by layer and role; deterministic.

    :param more: further layers that have only queries
    """
    import numpy as np

    random = np.random.default_rng(1)

    def trits(rows: NDArray[np.float64] | int, cols: NDArray[np.float64]) -> NDArray[np.int8]:
        many = rows if isinstance(rows, int) else len(rows)
        latent = random.standard_normal((many, len(cols))) * 4 + random.standard_normal((many, _KINDS)) @ cols.T
        if not isinstance(rows, int):
            latent += rows @ random.standard_normal((_KINDS, len(cols)))
        found: NDArray[np.int8] = np.clip(np.round(latent / np.abs(latent).mean()), -1, 1).astype(np.int8)
        return found

    channels, hidden = random.standard_normal((128, _KINDS)), random.standard_normal((256, _KINDS))
    found = {
        "0.attn_output": trits(channels, random.standard_normal((128, _KINDS))),
        "0.attn_q": trits(128, channels),
        "0.ffn_down": trits(channels, hidden),
        "0.ffn_gate": trits(hidden, channels),
        "0.ffn_up": trits(hidden, channels),
    }
    return found | {f"{layer}.attn_q": trits(128, channels) for layer in range(1, more + 1)}


def _written(layers: dict[str, NDArray[np.int8]], layout: str = "canonical", roles: tuple[str, ...] = ()) -> bytes:
    """Return the matrices of some roles in another layout, the others canonical."""
    from i2s_spec.codec.native import pack

    return model(
        *(
            matrix(
                pack(trits, 0.5, dialect=layout if name.partition(".")[2] in roles else "canonical")[:-32],
                f"blk.{name}.weight".encode(),
                trits.shape[1],
                scaled(0.5 + 0.125 * number),
            )
            for number, (name, trits) in enumerate(layers.items())
        )
    )


def _packed(layout: str, roles: tuple[str, ...]) -> bytes:
    """Return one layer with the matrices of some roles in another layout."""
    return _written(_layers(), layout, roles)


def _one_transposed() -> bytes:
    """Return four layers; in one of them, the queries are written column by column."""
    import numpy as np

    layers = _layers(3)
    return _written(layers | {"2.attn_q": np.ascontiguousarray(layers["2.attn_q"].T)})


_ALL: Final = ("attn_output", "attn_q", "ffn_down", "ffn_gate", "ffn_up")

add_packed = partial(add_case, sound=partial(_packed, "canonical", ()))

add_packed("layer-as-interleave-64", "I213", "data[1]", partial(_packed, "interleave-64", _ALL), ("M001",))
add_packed("layer-as-sequential-msb", "I213", "data[1]", partial(_packed, "sequential-msb", _ALL), ("M001",))
add_packed("layer-as-zero-first", "I216", "data[0]", partial(_packed, "interleave-128/zero-first", _ALL), ("M001",))
add_packed("one-matrix-as-interleave-64", "I214", "data[1]", partial(_packed, "interleave-64", ("attn_q",)), ("M001",))
add_packed("one-matrix-transposed", "I217", "data[6]", _one_transposed, ("M001",), sound=lambda: _written(_layers(3)))


def _rows_for_neighbors() -> bytes:
    """Return a model of an architecture that rotates halves, with similar density in neighboring rows of queries and
    keys.
    """
    import numpy as np

    from i2s_spec.codec.native import pack

    random = np.random.default_rng(2)
    model = Model("bitnet-b1.58", layers=2)
    for tensor in model.tensors:
        if tensor.name.endswith((b"attn_q.weight", b"attn_k.weight")):
            cols, rows = tensor.ne
            shares = np.repeat(random.uniform(0.3, 0.8, rows // 2), 2)[:, None]
            trits = random.choice(np.array([-1, 1], np.int8), size=(rows, cols)) * (
                random.random((rows, cols)) < shares
            )
            tensor.data = pack(trits.astype(np.int8), 0.75)[:-32] + tensor.data[-32:]
    return model.built()


add_packed("rows-for-neighbors", "I215", "data[8]", _rows_for_neighbors, sound=sound_model("bitnet-b1.58", 2))


# --- types with a scale for each group -------------------------------------------------------------------------------
# Reserved codes, foreign digits, odd scales.

_BLOCK, _SCALE = "data[0].block", "data[0].scale"

#: Type numbers that occur only in rotated models; the keys that declare the rotation are missing here.
_UNROTATED = ("M042",)

#: Rows and columns of the only tensor.
_ROWS, _COLS = 64, 512


def _file(kind: str, change: Callable[[bytearray], object]) -> bytes:
    """Return a sound file with one tensor of a type, after a change of its bytes; those of a type that is not
    ternary are 0.
    """
    draft, type = Draft(), BY_NAME[kind]
    ternary = kind in GROUP_LAYOUTS
    content = block_bytes(b"first.weight", (_COLS, _ROWS), kind) if ternary else bytes(type.nbytes((_COLS, _ROWS)))
    file, data = draft.records(), bytearray(content)
    change(data)
    file.tensor_infos = [tensor_info(b"first.weight", (_COLS, _ROWS), type.number, 0)]
    file.data = bytes(data).ljust(padded(len(data), 32), b"\0")
    return draft.built(file)


def _put(at: int, value: bytes) -> Callable[[bytearray], None]:
    def change(data: bytearray) -> None:
        data[at : at + len(value)] = value

    return change


def _scale(kind: str, value: bytes) -> Callable[[bytearray], None]:
    """Write other bytes of the scale of group 17."""
    layout = block_layout(kind)
    each = layout.nbytes if layout.scale.per == "block" else layout.type.nbytes((_COLS, 1))
    return _put(17 * each + layout.scale.offset, value)


def _add(name: str, code: str, kind: str, change: Callable[[bytearray], object], place: str = _BLOCK) -> None:
    """Add a tensor of a type with a change; the sound file is the same without it."""
    also = _UNROTATED if kind.startswith("P") else ()
    add_case(name, code, place, partial(_file, kind, change), also, sound=partial(_file, kind, len))


def _not_finite(scale: GroupScale) -> bytes:
    """Return the bytes of an infinity."""
    return scale.form.mask.to_bytes(scale.nbytes, "little")


def _half(value: float) -> bytes:
    return struct.pack("<e", value)


_add("tq2_reserved_code", "B101", "TQ2_0", _put(1000, b"\xff"))
_add("iq2_reserved_code", "B101", "IQ2_BN", _put(1000, b"\xc0"))
_add("q2_plus_two", "B102", "Q2_0", _put(1000, b"\xc0"))
_add("pq2_plus_two", "B102", "PQ2_0", _put(1000, b"\xc0"))
_add("tq1_foreign_byte", "B103", "TQ1_0", _put(54 * 20, b"\x01"))
_add("ptq1_foreign_byte", "B103", "PTQ1_0", _put(28 * 40 + 3, b"\xed"))
_add("ptq1_fifth_of_four", "B103", "PTQ1_0", _put(28 * 40 + 24, b"\x02"))
_add("iq1_foreign_byte", "B103", "IQ1_BN", _put(2 + 13 + 12, b"\xf0"))
_add("tq1_scale_infinite", "B201", "TQ1_0", _scale("TQ1_0", b"\0\x7c"))
_add("q2_scale_nan", "B201", "Q2_0", _scale("Q2_0", b"\x01\x7e"))
_add("iq2_scale_nan", "B201", "IQ2_BN", _scale("IQ2_BN", b"\0\0\xc0\x7f"), _SCALE)
for _name, _scales in SCALES.items():
    if _name not in GROUP_LAYOUTS and _name not in ("Q8_1", "Q8_K", "NVFP4"):
        for _each in _scales:
            _at = 17 * BY_NAME[_name].bytes + _each.offset
            _add(f"{_name.lower()}_{_each.field}_infinite", "B201", _name, _put(_at, _not_finite(_each)))
_add("q2_scale_negative", "B202", "Q2_0", _scale("Q2_0", _half(-0.02)))
_add("tq1_scale_zero", "B203", "TQ1_0", _scale("TQ1_0", b"\0\0"))
_add("tq1_scale_far", "B204", "TQ1_0", _scale("TQ1_0", _half(1310.7)))
_add(
    "ptq1_scales_spread",
    "B204",
    "PTQ1_0",
    lambda data: [_put(28 * i + 26, _half(2.0 ** (i % 28 - 13)))(data) for i in range(256)],
)
