"""This module explains a changed tensor: it is another tensor of the file, or the same one in another layout."""

from __future__ import annotations

from collections.abc import Iterator
from functools import cached_property
from typing import TYPE_CHECKING, Final

from i2s_spec.errors import FormatError
from i2s_spec.gguf.reader import File, Tensor
from i2s_spec.schema.dialect import parse
from i2s_spec.schema.types import I2_S

if TYPE_CHECKING:
    from i2s_spec.inspect.compare.tensor_rows import Rows
    from i2s_spec.schema.dialect import Dialect

#: How often, for all of these together, a tensor is compared with another one of its shape: small files hold thousands.
OTHERS: Final = 1 << 13


class OtherTensors:
    """The tensors of a file by shape, for whoever asks which of them another one is; `OTHERS` are given in all."""

    def __init__(self, file: File, dialect: str | Dialect) -> None:
        self.file = file
        self.dialect = dialect
        self._left = OTHERS

    @cached_property
    def _places(self) -> dict[tuple[int, ...], list[int]]:
        places: dict[tuple[int, ...], list[int]] = {}
        for tensor in self.file.tensors.values():
            places.setdefault(tensor.shape, []).append(tensor.index)
        return places

    def than(self, tensor: Tensor) -> Iterator[tuple[str, Rows]]:
        """Those of a tensor's shape under another name."""
        from i2s_spec.inspect.compare.tensor_rows import rows_of

        for place in self._places.get(tensor.shape, ()):
            other = self.file.tensors.by_index(place)
            if other.name == tensor.name:
                continue
            if not self._left:
                return
            self._left -= 1
            try:
                yield other.name, rows_of(self.file, other, self.dialect)
            except (FormatError, ValueError):
                continue


def what_it_is(others: OtherTensors, ours: Tensor, b: File, theirs: Tensor, dialect_b: str | Dialect) -> str:
    """What B's tensor is, in words; empty where nothing explains it."""
    from i2s_spec.inspect.compare.explanation import explanation
    from i2s_spec.inspect.compare.tensor_rows import rows_of

    try:
        right, wrong = rows_of(others.file, ours, others.dialect), rows_of(b, theirs, dialect_b)
        for side, file, odd, read_as, known in (
            ("B", b, theirs, dialect_b, right),
            ("A", others.file, ours, others.dialect, wrong),
        ):
            if odd.type is I2_S and (packed := _packed_as(file, odd, parse(read_as), known)):
                return f"{side} is packed as {packed}"
        return explanation(wrong, right, lambda: others.than(ours))
    except (FormatError, ValueError):  # types that hold neither trits nor floats
        return ""


def _packed_as(file: File, tensor: Tensor, read_as: Dialect, known: Rows) -> str:
    """The other layout or code map in which an I2_S tensor has the trits that are known; empty where none has them."""
    from i2s_spec.inspect.identify.reference import matched, rows_compared

    if known.tolerance:  # floats
        return ""
    best = matched(file, tensor, known.read(0, rows_compared(tensor)), None).decided
    if best is None:
        return ""
    if best.dialect.layout != read_as.layout:
        return f"{best.dialect}: another layout"
    return f"{best.dialect}: another code map" if best.dialect.code_map != read_as.code_map else ""
