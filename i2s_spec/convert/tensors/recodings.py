"""This module chooses how a tensor is converted: with one scale for all its weights, or with those of its groups."""

from __future__ import annotations

from collections.abc import Iterator

from i2s_spec.codec.form import FLOAT_WORDS, Form
from i2s_spec.codec.ternary_types import BLOCK_TYPES
from i2s_spec.codec.trits import Trits
from i2s_spec.convert.tensors.encode import Recoding
from i2s_spec.convert.tensors.group_conversion import GroupConversion
from i2s_spec.errors import FormatError, quote

AnyRecoding = Recoding | GroupConversion


def keeps_groups(source: str, target: str) -> bool:
    """Whether a conversion keeps a scale for each group, or weights that include it."""
    return source in BLOCK_TYPES and (target in BLOCK_TYPES or target in FLOAT_WORDS)


def recoding_of(source: Trits, form: Form, threads: int = 1) -> AnyRecoding:
    """A tensor in another form of the same shape; its bytes are made, and proved, during iteration.

    :raises ValueError: as the classes do
    """
    if not keeps_groups(source.form.type, form.type):
        return Recoding(source, form, threads)
    return GroupConversion(source, form, threads)


def named_bytes(name: str, recoding: AnyRecoding) -> Iterator[bytes]:
    """The bytes of a tensor; errors contain its name."""
    try:
        yield from recoding
    except FormatError:
        raise
    except ValueError as error:
        raise ValueError(f"tensor {quote(name)}: {error}") from error
