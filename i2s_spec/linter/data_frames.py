"""This module converts findings to tables of pandas and pyarrow, if these are installed."""

from __future__ import annotations

from collections.abc import Sequence
from importlib import import_module
from typing import Any, Final

from i2s_spec.errors import quote
from i2s_spec.linter.rule import Finding

#: The text columns, and the columns of byte positions, in their order.
COLUMNS: Final = ("code", "slug", "severity", "message", "start", "stop", "path", "clause", "fix")
NUMBERS: Final = ("start", "stop")


def columns(findings: Sequence[Finding]) -> dict[str, list[Any]]:
    """The findings by column; text from the file is escaped."""
    rows = [
        (
            each.code, each.rule.slug, each.severity.value, each.message, each.span.start, each.span.stop,
            quote(each.span.path, bare=True), each.rule.clause, each.rule.fix.value,
        )
        for each in findings
    ]  # fmt: skip
    return {name: [row[i] for row in rows] for i, name in enumerate(COLUMNS)}


def to_pandas(findings: Sequence[Finding]) -> Any:
    """A DataFrame: texts are objects, `start` and `stop` int64, even if there are no findings.

    :raises ImportError: where pandas is not installed
    """
    frame = _required("pandas").DataFrame(columns(findings), columns=list(COLUMNS))
    return frame.astype(dict.fromkeys(NUMBERS, "int64"))


def to_arrow(findings: Sequence[Finding]) -> Any:
    """A table: texts are strings, `start` and `stop` int64, even if there are no findings.

    :raises ImportError: where pyarrow is not installed
    """
    arrow = _required("pyarrow")
    kinds = [(name, arrow.int64() if name in NUMBERS else arrow.string()) for name in COLUMNS]
    return arrow.table(columns(findings), schema=arrow.schema(kinds))


def _required(library: str) -> Any:
    try:
        return import_module(library)
    except ImportError as error:
        raise ImportError(f"the table needs {library}: pip install {library}") from error
