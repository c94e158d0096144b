"""This module makes the key of the rules and options of a record: a record is valid only for these.

It holds the version of the package, and every field of `Options` that changes a report, the rules in force among them.
"""

from __future__ import annotations

import json
import os
from dataclasses import fields, replace
from hashlib import sha256
from typing import Any, Final

from i2s_spec._version import __version__
from i2s_spec.linter.options import Options
from i2s_spec.linter.reference import Reference

#: Version of the form of a record.
RECORD_VERSION: Final = 1


def options_key(options: Options) -> str:
    """Sixteen hexadecimal digits that are the same for options that give the same reports."""
    counted = {
        "package": __version__,
        "record": RECORD_VERSION,
        **{
            each.name: _plain(getattr(options, each.name))
            for each in fields(options)
            if each.metadata.get("keyed", True)
        },
    }
    return sha256(json.dumps(counted, sort_keys=True, default=str).encode()).hexdigest()[:16]


def _plain(value: Any) -> Any:
    """The value of an option as JSON can hold it; a function by its name."""
    if isinstance(value, Reference):
        return _reference(value)
    return getattr(value, "__qualname__", None) if callable(value) else value


def _reference(reference: Reference) -> list[Any]:
    """The reference by its path, its dialects and the state of its files."""
    origin = str(reference.origin)
    try:
        status = os.stat(origin)
        state = [status.st_size, status.st_mtime_ns]
    except (OSError, ValueError):
        state = []
    return [origin, reference.dialect, reference.expected, *state]


def portable(options: Options) -> Options:
    """The same options for a process in another folder: paths of suppressions and of the reference are absolute."""
    suppressions = tuple(each._replace(base=os.path.abspath(each.base)) for each in options.suppressions)
    reference = options.reference
    if reference is not None and isinstance(reference.origin, str | os.PathLike):
        reference = reference._replace(origin=os.path.abspath(reference.origin))
    return replace(options, suppressions=suppressions, reference=reference)
