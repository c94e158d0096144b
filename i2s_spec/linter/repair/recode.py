"""This module converts I2_S tensors from the dialect that a caller names to the canonical one.

The file does not state its dialect, so this is done only on request. A second run on the result would be wrong: it is
canonical already.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from i2s_spec.convert.container.rewrite import Replacement, rewrite
from i2s_spec.errors import FormatError, quote
from i2s_spec.schema.dialect import CANONICAL, Dialect
from i2s_spec.schema.types import I2_S

if TYPE_CHECKING:
    from i2s_spec.convert.tensors.encode import Recoding
    from i2s_spec.gguf.atomic_file import Target
    from i2s_spec.gguf.reader import File
    from i2s_spec.gguf.writer import Progress


def recodings(file: File, dialect: Dialect, threads: int = 1) -> dict[str, Recoding]:
    """The I2_S tensors of a file by name, each converted to the canonical dialect.

    :raises ValueError: for a tensor that the dialect cannot hold
    """
    from i2s_spec.codec.form import Form
    from i2s_spec.convert.tensors.encode import Recoding

    made = {}
    for tensor in file.tensors.rows if dialect != CANONICAL else ():
        if tensor.type is I2_S:
            try:
                form = Form("I2_S", tensor.shape, CANONICAL, file.byte_order)
                made[tensor.name] = Recoding(tensor.ternary(dialect), form, threads)
            except FormatError:
                raise
            except ValueError as error:
                raise ValueError(f"tensor {quote(tensor.raw_name)}: {error}") from error
    return made


def write_recoded(
    file: File, recoded: dict[str, Recoding], target: Target, force: bool, progress: Progress | None
) -> int:
    """Write a file with its I2_S tensors in the canonical dialect, laid out anew; every window is checked on the way.

    :returns: bytes of the file
    :raises ValueError, FormatError, OSError: as `rewrite` does
    """
    replace = {name: Replacement("I2_S", each.__iter__) for name, each in recoded.items()}
    return rewrite(file, target, replace=replace, force=force, progress=progress)
