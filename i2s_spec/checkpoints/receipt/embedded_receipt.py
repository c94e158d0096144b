"""This module writes a receipt to a key of its own file, and reads it from there.

The key `i2s.receipt` holds the receipt as JSON without the file's own size and hash, which a file cannot contain. It
says what was checked when the file was made, for users who have only the file; but anyone who changes the file can also
change the receipt.
"""

from __future__ import annotations

import json
import os
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any, Final

from i2s_spec.convert.container.rewrite import Value, rewrite
from i2s_spec.errors import FormatError, Span, TrustedText
from i2s_spec.gguf.reader import open as open_file
from i2s_spec.schema import faults
from i2s_spec.schema.types import ValueType

if TYPE_CHECKING:
    from i2s_spec.gguf.reader import File

#: The key that holds a receipt.
KEY: Final = "i2s.receipt"


def embed(receipt: Mapping[str, Any], path: str | os.PathLike[str]) -> None:
    """Write a receipt to the key of its file, replacing an existing one; after an error the file is unchanged.

    :raises FormatError, OSError: as `rewrite` does
    """
    name = os.fsdecode(path)
    text = json.dumps({**receipt, "file": {"name": receipt["file"]["name"]}}, separators=(",", ":"), allow_nan=False)
    beside = f"{name}.receipt"
    with open_file(name) as file:
        rewrite(file, beside, set={KEY: Value(ValueType.STRING, text)})
    try:
        os.replace(beside, name)
    except BaseException:
        os.unlink(beside)
        raise


def embedded(file: File) -> dict[str, Any]:
    """The receipt in the key.

    :raises FormatError: H105 if there is no such key, or it does not hold a JSON object
    """
    text = file.metadata.get(KEY)
    if not isinstance(text, str):
        raise _refused(f"the file has no text under the key {KEY}; --receipt names a receipt")
    try:
        found = json.loads(text)
    except (ValueError, RecursionError) as error:
        raise _refused(f"the key {KEY} is not JSON ({type(error).__name__})") from None
    if not isinstance(found, dict):
        raise _refused(f"the key {KEY} is not a JSON object")
    return found


def _refused(reason: str) -> FormatError:
    return FormatError(faults.RECEIPT_MALFORMED, Span(0, 0), reason=TrustedText(reason))
