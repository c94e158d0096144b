"""This module says what one meaning of a number is: a name that one program gave it, for some time."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from math import prod

from i2s_spec.light_typing import Final, NamedTuple
from i2s_spec.schema import types

#: Whose numbers they are.
UPSTREAM: Final = "llama.cpp"
BITNET: Final = "BitNet's forks"
IK: Final = "ik_llama.cpp"
PRISM: Final = "PrismML"

#: The metadata that only a program's own files have, by its beginning.
OWN_KEYS: Final = {PRISM: "prism."}


class BlockSize(NamedTuple):
    """Elements and bytes of a block, and bytes in front of a row, of a type that `types` does not declare."""

    block: int
    bytes: int
    row_bytes: int = 0


class Meaning(NamedTuple):
    """What one program means by a number, or meant for some time.

    :param name: of the type; where `types` declares a type of this name and number, that is its size
    :param since: date and commit where it began, as far as is known; `until` where it ended, empty if it did not
    :param source: who says so
    :param tell: what tells it from the other meanings of the number
    :param files: whether files carry it: some numbers are only of tensors in memory
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
        """The declaration of the type, for a tensor type that has one."""
        return next((kind for kind in types.READINGS.get(self.number, ()) if kind.name == self.name), None)

    def nbytes(self, ne: Sequence[int]) -> int | None:
        """Bytes of a tensor; None where the size is not known, or rows are not whole blocks."""
        if self.type is not None:
            return self.type.nbytes(ne) if ne[0] % self.type.block == 0 else None
        if self.size is None or ne[0] % self.size.block:
            return None
        return (ne[0] // self.size.block * self.size.bytes + self.size.row_bytes) * prod(ne[1:])

    @property
    def is_current(self) -> bool:
        """Whether the program gives the number this meaning still."""
        return not self.until


def periods(program: str, source: str, text: str) -> Iterator[Meaning]:
    """Meanings from lines `number name since [until]`, a point in time being `date@commit`."""
    for line in text.split("\n"):
        if line.strip():
            number, name, since, *until = line.split()
            yield Meaning(int(number), name, program, since.replace("@", " "), "".join(until).replace("@", " "), source)
