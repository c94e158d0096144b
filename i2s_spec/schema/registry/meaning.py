"""This module defines a meaning of a number: a name that one program gave it, for some time."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from math import prod
from typing import Final, NamedTuple

from i2s_spec.schema import types

#: The programs that assign numbers.
UPSTREAM: Final = "llama.cpp"
BITNET: Final = "BitNet's forks"
IK: Final = "ik_llama.cpp"
PRISM: Final = "PrismML"

#: Prefixes of metadata keys that only the files of one program have.
OWN_KEYS: Final = {PRISM: "prism."}


class BlockSize(NamedTuple):
    """Elements and bytes of a block, and bytes before a row, of a type that `types` does not declare."""

    block: int
    bytes: int
    row_bytes: int = 0


class Meaning(NamedTuple):
    """The meaning that one program gives a number, or gave it for some time.

    :param name: the name of the type; if `types` declares a type with this name and number, its size applies
    :param since: date and commit of its introduction, if known; `until` those of its end, empty if it is still in use
    :param source: where this is documented
    :param tell: how to distinguish it from the other meanings of the number
    :param files: whether it occurs in files: some numbers are only used for tensors in memory
    :param tensors: for a file type, the tensor types that most matrices of such a file have
    """

    number: int
    name: str
    program: str
    since: str
    until: str = ""
    source: str = ""
    tell: str = ""
    files: bool = True
    size: BlockSize | None = None
    tensors: tuple[str, ...] = ()

    @property
    def type(self) -> types.TensorType | None:
        """The declaration of the type, if there is one."""
        return next((kind for kind in types.READINGS.get(self.number, ()) if kind.name == self.name), None)

    def nbytes(self, ne: Sequence[int]) -> int | None:
        """Bytes of a tensor; None if the size is not known, or rows are not whole blocks."""
        if self.type is not None:
            return self.type.nbytes(ne) if ne[0] % self.type.block == 0 else None
        if self.size is None or ne[0] % self.size.block:
            return None
        return (ne[0] // self.size.block * self.size.bytes + self.size.row_bytes) * prod(ne[1:])

    @property
    def is_current(self) -> bool:
        """Whether the program still gives the number this meaning."""
        return not self.until


def periods(program: str, source: str, text: str) -> Iterator[Meaning]:
    """Meanings from lines `number name since [until]`, a point in time being `date@commit`."""
    for line in text.split("\n"):
        if line.strip():
            number, name, since, *until = line.split()
            yield Meaning(int(number), name, program, since.replace("@", " "), "".join(until).replace("@", " "), source)
