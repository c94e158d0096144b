"""This module parses citations: the source of a fact about a runtime, as data.

run PROGRAM/FILE                        a record of a run (`run_records`)
OWNER/REPOSITORY#N, ... discussion N    a thread of a public repository
OWNER/REPOSITORY@COMMIT:PATH[:LINE]     a place in public source
PACKAGE VERSION PATH[:LINE]             a place in a published package
tests/oracle/PATH                       bytes, numbers or messages that a program built from source gave
"""

from __future__ import annotations

import re
from typing import Any, Final

from i2s_spec.linter.runtimes.run_records import RUN_PREFIX, RunRecord, records

_FORMS: Final = (
    ("thread", r"(?P<repository>[\w.-]+/[\w.-]+)(?:#| discussion )(?P<number>\d+)"),
    ("source", r"(?P<repository>[\w.-]+/[\w.-]+)@(?P<commit>[0-9a-f]{7,40}):(?P<path>[^: ]+)(?::(?P<line>\d+))?"),
    ("package", r"(?P<package>[@\w./-]+) (?P<version>\d[\w.]*) (?P<path>[^: ]+)(?::(?P<line>\d+))?"),
    ("vectors", r"(?P<path>tests/oracle/[^: ]+)"),
)


def citation(source: str) -> dict[str, Any] | None:
    """The parsed citation: `kind`, and the fields of that kind; None for an empty source, if something was not tried.

    :raises ValueError: for a source of another form, or a run without a record
    """
    if not source:
        return None
    if source.startswith(RUN_PREFIX):
        try:
            return _run(records()[source.removeprefix(RUN_PREFIX)])
        except KeyError:
            raise ValueError(f"there is no record of {source!r}") from None
    for kind, form in _FORMS:
        found = re.fullmatch(form, source)
        if found is not None:
            parts = {name: value for name, value in found.groupdict().items() if value is not None}
            return {"kind": kind} | {
                name: int(value) if name in ("number", "line") else value for name, value in parts.items()
            }
    raise ValueError(f"{source!r} is not a citation")


def _run(record: RunRecord) -> dict[str, Any]:
    return {
        "kind": "run", "record": record.id, "program": record.program, "version": record.version, "date": record.date,
        "commands": list(record.file.commands), "sha256": record.file.sha256, "loads": record.loads, "end": record.end,
        "printed": list(record.printed), "shown": record.shown,
        "computed": [one._asdict() for one in record.computed],
    }  # fmt: skip
