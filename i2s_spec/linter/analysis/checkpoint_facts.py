"""The facts that the rules on checkpoints examine: the files of a folder, right or wrong.

`i2s_spec.checkpoints` gathers them; a file that cannot be read is left out and has its own finding.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from functools import cached_property
from typing import TYPE_CHECKING, Any, Final, NamedTuple

from i2s_spec.errors import Span

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

    from i2s_spec.safetensors.files import Stored

#: Bytes that are read at once, and the bytes of each tensor that a sample reads.
PIECE: Final = 1 << 22

#: Bytes of an element of each float type.
WORDS: Final = {"F32": 4, "F16": 2, "BF16": 2}


class FamilyFacts(NamedTuple):
    """What a checkpoint of a family must have, for the sizes in config.json.

    :param name: the name of the family
    :param expected: every required tensor, with its shape before packing
    :param matrices: those of `expected` that are ternary
    :param sub_norms: those of `expected` that are norms before the attention output and FFN down projections
    :param optional: tensors that may exist as well
    :param embedding: the name of the embedding matrix
    :param tied: whether the graph uses only the embedding as output matrix
    :param headless: whether it is an embedding model, which has no output matrix
    :param absmean: whether transformers quantizes its floats to trits by their mean magnitude
    """

    name: str
    expected: Mapping[str, tuple[int, ...]]
    matrices: frozenset[str]
    sub_norms: frozenset[str]
    optional: frozenset[str]
    embedding: str
    tied: bool
    headless: bool
    absmean: bool


class CheckpointFacts:
    """A folder of safetensors.

    `family` is None if it is not known; `unknown` says why, and `foreign` in what form another program quantized the
    weights, both in words that need no escaping.

    :param config: config.json; empty if it cannot be read
    :param index: the index file as JSON; None if there is none
    :param files: names of the files of the folder
    :param shards: the tensors of each safetensors file of the model that can be read
    :param reading: how much of the weights is read: `full`, `sample` or `none`
    :param unreadable: names of the files that have a finding because they cannot be read
    :param notes: what users should know of the choice of shards, in sentences
    :param texts: texts that programs render or print: file, what it is in words that need no escaping, whether it is
        a template, and the text
    :param code: files that execute code when they are loaded, or that name such files, and what each is
    """

    def __init__(
        self,
        config: Mapping[str, Any],
        index: Mapping[str, Any] | None,
        files: frozenset[str],
        shards: Mapping[str, Mapping[str, Stored]],
        reading: str,
        *,
        unreadable: frozenset[str] = frozenset(),
        notes: Sequence[str] = (),
        texts: Sequence[tuple[str, str, bool, str]] = (),
        code: Sequence[tuple[str, str]] = (),
    ) -> None:
        self.config = config
        self.index = index
        self.files = files
        self.shards = shards
        self.family: FamilyFacts | None = None
        self.unknown = self.foreign = ""
        self.reading = reading
        self.unreadable = unreadable
        self.notes = notes
        self.texts = texts
        self.code = code

    @cached_property
    def tensors(self) -> dict[str, Stored]:
        """Every tensor by name, from the first shard that has it."""
        found: dict[str, Stored] = {}
        for tensors in self.shards.values():
            for name, stored in tensors.items():
                found.setdefault(name, stored)
        return found

    @cached_property
    def shard_of(self) -> dict[str, str]:
        """The shard of each tensor."""
        found: dict[str, str] = {}
        for shard, tensors in self.shards.items():
            for name in tensors:
                found.setdefault(name, shard)
        return found

    def span(self, name: str) -> Span:
        """Return where a tensor is: the name of its shard."""
        return Span(0, 0, self.shard_of[name])

    @cached_property
    def prefix(self) -> str:
        """What the names of all tensors begin with, if they are those of the family without it; empty if they are not."""
        family, names = self.family, list(self.tensors)
        if family is None or not names or any(name in family.expected for name in names):
            return ""
        common = common_prefix(names)
        prefix = common[: common.rfind(".") + 1]
        while prefix:
            inner = (name.removeprefix(prefix) for name in names)
            fitting = sum(name in family.expected or name.removeprefix("model.") in family.expected for name in inner)
            if 2 * fitting > len(names):  # "model." before the layers is transformers' own
                own = not any(name.startswith("model.") for name in family.expected)
                return prefix.removesuffix("model.") if own else prefix
            prefix = prefix[: prefix.rfind(".", 0, -1) + 1]
        return ""

    @property
    def quantization(self) -> Mapping[str, Any]:
        """`quantization_config`; empty if there is none, or it is no object."""
        found = self.config.get("quantization_config")
        return found if isinstance(found, dict) else {}

    @cached_property
    def packed(self) -> list[str]:
        """Names of the packed matrices."""
        return [
            name for name, stored in self.tensors.items()
            if stored.dtype == "U8" and name.endswith(".weight") and len(stored.shape) == 2
        ]  # fmt: skip

    def pieces(self, stored: Stored) -> Iterator[bytes]:
        """Yield the bytes of a tensor; for a sample, the first and last ones."""
        places = range(0, stored.nbytes, PIECE)
        for place in places if self.reading != "sample" else sorted({*places[:1], *places[-1:]}):
            yield stored.read(place, min(place + PIECE, stored.nbytes))

    def floats(self, stored: Stored) -> Iterator[NDArray[np.float32]]:
        """Yield the elements of a float tensor, as far as they are read."""
        for piece in self.pieces(stored):
            yield as_floats(piece, stored.dtype)

    def scale(self, name: str) -> float | None:
        """Return the `weight_scale` of a packed matrix; None unless it is one float."""
        stored = self.tensors.get(f"{name}_scale")
        if stored is None or stored.nbytes != WORDS.get(stored.dtype):
            return None
        return float(as_floats(stored.read(), stored.dtype)[0])


def common_prefix(names: Iterable[str]) -> str:
    """Return the longest text that all names begin with.

    >>> common_prefix(["model.a", "model.b.c"]), common_prefix(["a"])
    ('model.', 'a')
    """
    names = list(names)
    first, last = min(names), max(names)  # what these two begin with, all between them begin with
    return first[
        : next((i for i, (one, other) in enumerate(zip(first, last, strict=False)) if one != other), len(first))
    ]


def as_floats(data: bytes, dtype: str) -> NDArray[np.float32]:
    """Return the little-endian floats of a checkpoint as float32."""
    import numpy as np

    if dtype == "BF16":
        from i2s_spec.codec.shape import from_bfloat16

        return from_bfloat16(np.frombuffer(data, "<u2"))
    return np.frombuffer(data, {"F32": "<f4", "F16": "<f2"}[dtype]).astype(np.float32)
