"""This module packs weights in a wrong layout; the weights have a structure that shows the layout."""

from __future__ import annotations

from functools import cache, partial
from typing import TYPE_CHECKING, Final

from i2s_spec.testing.malformed.case import add as add_case
from i2s_spec.testing.malformed.case import model as sound_model
from i2s_spec.testing.malformed.payload import matrix, model, scaled

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

#: Kinds of channels: channels of one kind have similar rows and columns.
_KINDS: Final = 16


@cache
def _layers(more: int = 0) -> dict[str, NDArray[np.int8]]:
    """The trits of one layer of 128 channels that have kinds, by layer and role; deterministic.

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
    """The matrices of some roles in another layout, the others canonical."""
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
    """One layer with the matrices of some roles in another layout."""
    return _written(_layers(), layout, roles)


def _one_transposed() -> bytes:
    """Four layers; in one of them, the queries are written column by column."""
    import numpy as np

    layers = _layers(3)
    return _written(layers | {"2.attn_q": np.ascontiguousarray(layers["2.attn_q"].T)})


_ALL: Final = ("attn_output", "attn_q", "ffn_down", "ffn_gate", "ffn_up")

add = partial(add_case, sound=partial(_packed, "canonical", ()))

add("layer-as-interleave-64", "I213", "data[1]", partial(_packed, "interleave-64", _ALL), ("M001",))
add("layer-as-sequential-msb", "I213", "data[1]", partial(_packed, "sequential-msb", _ALL), ("M001",))
add("layer-as-zero-first", "I216", "data[0]", partial(_packed, "interleave-128/zero-first", _ALL), ("M001",))
add("one-matrix-as-interleave-64", "I214", "data[1]", partial(_packed, "interleave-64", ("attn_q",)), ("M001",))
add("one-matrix-transposed", "I217", "data[6]", _one_transposed, ("M001",), sound=lambda: _written(_layers(3)))


def _rows_for_neighbors() -> bytes:
    """A model of an architecture that rotates halves, with similar density in neighboring rows of queries and keys."""
    import numpy as np

    from i2s_spec.codec.native import pack
    from i2s_spec.testing.sample import Model

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


add("rows-for-neighbors", "I215", "data[8]", _rows_for_neighbors, sound=sound_model("bitnet-b1.58", 2))
