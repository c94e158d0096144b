"""This module writes the results of a run as one Parquet table: a row for each address, its last record.

Text of files is escaped, so that every column is valid UTF-8. Rows are written a group at a time.
"""

from __future__ import annotations

import os
from collections.abc import Iterable, Iterator
from typing import Any, Final

from i2s_spec.errors import MissingExtra, quote
from i2s_spec.gguf.atomic_file import OutputFile
from i2s_spec.linter.cluster.check_entry import Record

#: Rows that are in memory at a time.
ROWS: Final = 10_000


def write_parquet(records: Iterable[Record], path: str | os.PathLike[str]) -> int:
    """Write the table, whole or not at all; a table of that name is replaced.

    :returns: how many rows it has
    :raises MissingExtra: without the extra [dask]
    :raises OSError: as the disk gives it
    """
    try:
        import pyarrow
        from pyarrow import parquet
    except ImportError:
        raise MissingExtra("a Parquet table", "dask") from None
    text, texts, count = pyarrow.string(), pyarrow.list_(pyarrow.string()), pyarrow.int64()
    schema = pyarrow.schema(
        [("url", text), ("etag", text), ("size", count), ("sha256", text), ("same_as", text), ("rules", text),
         ("ok", pyarrow.bool_()), ("readable", pyarrow.bool_()), ("skipped", pyarrow.bool_()), ("bugs", count),
         ("errors", count), ("warnings", count), ("notes", count), ("codes", texts), ("architecture", text),
         ("producer", text), ("layout", text), ("loads", texts), ("seconds", pyarrow.float64())]
    )  # fmt: skip
    rows = 0
    with OutputFile(path, force=True) as output, parquet.ParquetWriter(_Sink(output), schema) as writer:
        for some in _groups(records):
            writer.write_table(pyarrow.Table.from_pylist([_row(record) for record in some], schema=schema))
            rows += len(some)
    return rows


def _groups(records: Iterable[Record]) -> Iterator[list[Record]]:
    group: list[Record] = []
    for record in records:
        group.append(record)
        if len(group) == ROWS:
            yield group
            group = []
    if group:
        yield group


def _row(record: Record) -> dict[str, Any]:
    report, facts = record["report"], record["facts"] or {}
    summary = report["summary"]
    codes = {finding["code"] for finding in report["findings"]} | set(summary["elided"])
    return {
        **{name: _text(record.get(name)) for name in ("url", "etag", "sha256", "same_as", "rules")},
        **{name: _text(facts.get(name)) for name in ("architecture", "producer", "layout")},
        "size": report.get("size") if record["size"] is None else record["size"],
        "ok": report["ok"],
        "readable": bool(summary.get("readable")),
        "skipped": "skipped" in report,
        "bugs": len(report["bugs"]),
        **{name: summary[name] for name in ("errors", "warnings", "notes")},
        "codes": sorted(codes),
        "loads": [_text(each.get("runtime")) for each in report.get("runtimes", ()) if each.get("loads") == "yes"],
        "seconds": record.get("seconds"),
    }


def _text(value: Any) -> str | None:
    return quote(value, limit=4096, bare=True) if isinstance(value, str) else None


class _Sink:
    """What Arrow writes to: a file that gets its name when it is complete."""

    closed = False

    def __init__(self, output: OutputFile) -> None:
        self._output, self._length = output, 0

    def write(self, data: Any) -> int:
        self._output.write(data)
        length = memoryview(data).nbytes
        self._length += length
        return length

    def tell(self) -> int:
        return self._length

    def flush(self) -> None:
        """Nothing is held back."""

    def close(self) -> None:
        """The file ends with its context."""

    def writable(self) -> bool:
        return True

    def readable(self) -> bool:
        return False

    def seekable(self) -> bool:
        return False
