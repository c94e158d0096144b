"""This module reads the JSON and text files of a checkpoint: of bounded size, each name once, no more than plain data."""

from __future__ import annotations

import json
import os
from typing import Any, Final

from i2s_spec.errors import FormatError, Span, TrustedText, quote
from i2s_spec.schema import faults

#: Most bytes of a configuration, and of a tokenizer (Gemma's has 33 MB).
MOST_CONFIG: Final = 1 << 20
MOST_TOKENIZER: Final = 1 << 26


def refused(reason: str, path: str | os.PathLike[str] | None = None) -> FormatError:
    """H104: a checkpoint that is not imported.

    :param reason: a sentence in which what comes from the checkpoint is quoted
    """
    error = FormatError(faults.CHECKPOINT_REFUSED, Span(0, 0), reason=TrustedText(reason))
    return error if path is None else error.of_file(path)


def read_bytes(path: str, most: int) -> bytes:
    """A whole small file.

    :raises FormatError: H104 for more bytes than `most`, before any of them is read
    """
    with open(path, "rb") as file:
        size = os.fstat(file.fileno()).st_size
        if size > most:
            raise refused(f"{quote(os.path.basename(path))} has {size:,} bytes, and {most:,} are the limit", path)
        data = file.read(most + 1)
    if len(data) > most:
        raise refused(f"{quote(os.path.basename(path))} has more than {most:,} bytes", path)
    return data


def read_text(path: str, most: int) -> str:
    """A whole small file as UTF-8."""
    try:
        return read_bytes(path, most).decode("utf-8")
    except UnicodeDecodeError as error:
        raise refused(f"{quote(os.path.basename(path))} is not UTF-8 at byte {error.start:,}", path) from None


def read_object(path: str, most: int = MOST_CONFIG) -> dict[str, Any]:
    """A JSON file whose outermost value is an object.

    :raises FormatError: H104 for what is no such file, for a name that occurs twice, for NaN and infinities
    """
    name = quote(os.path.basename(path))
    try:
        found = json.loads(read_text(path, most), object_pairs_hook=_unique, parse_constant=_refuse_constant)
    except (ValueError, RecursionError) as error:
        if isinstance(error, FormatError):
            raise
        raise refused(f"{name} is not JSON: {_reason(error)}", path) from None
    if not isinstance(found, dict):
        raise refused(f"{name} is not a JSON object", path)
    return found


def _unique(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    found = dict(pairs)
    if len(found) != len(pairs):
        raise ValueError("a name occurs twice")
    return found


def _refuse_constant(word: str) -> None:
    raise ValueError(f"{word} is not a number in JSON")


def _reason(error: Exception) -> str:
    if isinstance(error, json.JSONDecodeError):
        return f"{error.msg} at character {error.pos:,}"
    return "it is nested too deeply" if isinstance(error, RecursionError) else str(error)[:200]
