"""This module reads the JSON and text files of a checkpoint as plain data: the size is limited, and a name may occur
only once.

A file is named by a path or, on a hub, by its address.
"""

from __future__ import annotations

import json
import os
import re
from collections.abc import Callable
from typing import Any, Final

from i2s_spec.errors import FormatError, Span, TrustedText, counted, quote
from i2s_spec.gguf.regular_file import open_regular
from i2s_spec.gguf.source import Source, is_address, source_of
from i2s_spec.schema import faults

#: Most bytes of a configuration, and of a tokenizer (Gemma's has 33 MB).
MOST_CONFIG: Final = 1 << 20
MOST_TOKENIZER: Final = 1 << 26
#: A function that is called with the source of an address before it is closed.
Closing = Callable[[Source], object]

#: Most digits of a number; longer ones are too large for a float and cannot be compared with one.
_MOST_DIGITS: Final = 300
#: An escape of a surrogate, which is valid only in a pair.
_SURROGATE: Final = re.compile(r"\\u[dD][89a-fA-F]")


def refused(reason: str, path: str | os.PathLike[str] | None = None) -> FormatError:
    """H104: the checkpoint cannot be used.

    :param reason: a sentence in which text from the checkpoint is quoted
    """
    error = FormatError(faults.CHECKPOINT_REFUSED, Span(0, 0), reason=TrustedText(reason))
    return error if path is None else error.of_file(path)


def read_bytes(path: str, most: int, closing: Closing | None = None) -> bytes:
    """A whole small file.

    :param path: a path, or the address of a file on a hub
    :param closing: called with the source of an address before it is closed
    :raises FormatError: H104 for more bytes than `most`, before any of them is read (on servers beyond the first range)
    :raises OSError: if it is not a regular file: reading a FIFO could block forever
    """
    if is_address(path):
        return _read_address(path, most, closing)
    with open_regular(path) as file:
        size = os.fstat(file.fileno()).st_size
        if size > most:
            raise _too_large(path, size, most)
        data = file.read(most + 1)
    if len(data) > most:
        raise refused(f"{quote(os.path.basename(path))} has more than {counted(most, 'byte')}", path)
    return data


def _read_address(address: str, most: int, closing: Closing | None) -> bytes:
    source = source_of(address)
    try:
        if source.size > most:
            raise _too_large(address, source.size, most)
        return source.read(0, source.size)
    except FormatError as error:
        raise error.of_file(address) from None
    finally:
        if closing is not None:
            closing(source)
        source.close()


def _too_large(path: str, size: int, most: int) -> FormatError:
    return refused(f"{quote(os.path.basename(path))} has {counted(size, 'byte')}; the limit is {most:,}", path)


def read_text(path: str, most: int, closing: Closing | None = None) -> str:
    """A whole small file as UTF-8."""
    try:
        return read_bytes(path, most, closing).decode("utf-8")
    except UnicodeDecodeError as error:
        raise refused(f"{quote(os.path.basename(path))} is not UTF-8 at byte {error.start:,}", path) from None


def read_object(path: str, most: int = MOST_CONFIG, closing: Closing | None = None) -> dict[str, Any]:
    """A JSON file whose outermost value is an object.

    :raises FormatError: H104 for invalid JSON, for a name that occurs twice, for NaN and infinities
    """
    name = quote(os.path.basename(path))
    text = read_text(path, most, closing)
    try:
        found = json.loads(text, parse_int=_whole, object_pairs_hook=_unique, parse_constant=_refuse_constant)
    except (ValueError, RecursionError) as error:
        raise refused(f"{name} is not JSON: {_reason(error)}", path) from None
    if not isinstance(found, dict):
        raise refused(f"{name} is not a JSON object", path)
    if _SURROGATE.search(text):
        try:
            json.dumps(found, ensure_ascii=False).encode()
        except UnicodeEncodeError:
            raise refused(f"{name} contains a lone surrogate, which UTF-8 cannot encode", path) from None
    return found


def _unique(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    found = dict(pairs)
    if len(found) != len(pairs):
        raise ValueError("a name occurs twice")
    return found


def _whole(digits: str) -> int:
    if len(digits) > _MOST_DIGITS:
        raise ValueError(f"a number has {counted(len(digits), 'digit')}")
    return int(digits)


def _refuse_constant(word: str) -> None:
    raise ValueError(f"{word} is not a number in JSON")


def _reason(error: Exception) -> str:
    if isinstance(error, json.JSONDecodeError):
        return f"{error.msg} at character {error.pos:,}"
    return "it is nested too deeply" if isinstance(error, RecursionError) else str(error)[:200]
