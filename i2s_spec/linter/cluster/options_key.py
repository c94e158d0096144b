"""This module makes the key of the rules and options of a record: a record is valid only for these.

It holds the version of the package, the rules in force with their severities, and every option that changes a report.
Options that change only the speed do not count.
"""

from __future__ import annotations

import json
import os
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
        "profile": options.profile,
        "rules": sorted((code, level.value) for code, level in options.levels.items()),
        "payload": options.reading,
        "limits": sorted(options.limits.items()),
        "runtimes": options.runtimes,
        "suppressed": sorted(options.suppressed.items()),
        "suppressions": [list(suppression) for suppression in options.suppressions],
        "skip_lfs": options.skip_lfs,
        "reference": _reference(options.reference),
        "details": getattr(options.details, "__qualname__", None),
    }
    return sha256(json.dumps(counted, sort_keys=True, default=str).encode()).hexdigest()[:16]


def _reference(reference: Reference | None) -> list[Any] | None:
    """The reference by its path, its dialects and the state of its files."""
    if reference is None:
        return None
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
    return options.replaced(suppressions=suppressions, reference=reference)
