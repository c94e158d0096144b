"""This module writes the results of a run as one Parquet table: a row for each address, its last record.

Text of files is escaped, so that every column is valid UTF-8. Rows can be added while a run goes on: they are written a
group at a time.
"""

from __future__ import annotations

import os
from types import TracebackType
from typing import Any, Final

from i2s_spec.errors import MissingExtra, quote
from i2s_spec.gguf.atomic_file import OutputFile
from i2s_spec.linter.cluster.check_entry import Record

#: Most rows in memory at a time.
ROWS: Final = 10_000

#: Columns and their types.
COLUMNS: Final = (
    ("url", "text"), ("etag", "text"), ("size", "count"), ("sha256", "text"), ("same_as", "text"), ("rules", "text"),
    ("ok", "flag"), ("readable", "flag"), ("skipped", "flag"), ("bugs", "count"), ("errors", "count"),
    ("warnings", "count"), ("notes", "count"), ("codes", "texts"), ("architecture", "text"), ("producer", "text"),
    ("layout", "text"), ("loads", "texts"), ("seconds", "float"),
)  # fmt: skip


class ResultsTable:
    """A table that grows with a run: at most `ROWS` rows are in memory, the others are in the file.

    As a context manager it gives the file its name when the block ends, and leaves no file if the block fails.

    :raises MissingExtra: without the extra [dask]
    :raises OSError: if no file of that name can be made
    """

    def __init__(self, path: str | os.PathLike[str]) -> None:
        try:
            import pyarrow
            from pyarrow import parquet
        except ImportError:
            raise MissingExtra("a Parquet table", "dask") from None
        kinds = {
            "text": pyarrow.string(), "texts": pyarrow.list_(pyarrow.string()), "count": pyarrow.int64(),
            "flag": pyarrow.bool_(), "float": pyarrow.float64(),
        }  # fmt: skip
        self._arrow = pyarrow
        self._schema = pyarrow.schema([(name, kinds[kind]) for name, kind in COLUMNS])
        #: The number of rows.
        self.rows = 0
        self._waiting: list[tuple[Any, ...]] = []
        self._output = OutputFile(path, force=True)
        try:
            self._sink = _Sink(self._output)
            self._writer = parquet.ParquetWriter(self._sink, self._schema)
        except BaseException:
            self._output.discard()
            raise

    def add(self, record: Record) -> None:
        """Append the row of a record."""
        self._waiting.append(_row(record))
        self.rows += 1
        if len(self._waiting) == ROWS:
            self._flush()

    def _flush(self) -> None:
        """Write the rows in memory as a row group."""
        arrays = [
            self._arrow.array(values, field.type)
            for values, field in zip(zip(*self._waiting, strict=True), self._schema, strict=True)
        ]
        self._writer.write_batch(self._arrow.RecordBatch.from_arrays(arrays, schema=self._schema))
        self._waiting.clear()

    def __enter__(self) -> ResultsTable:
        self._output.__enter__()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if kind is not None:
            self._sink.is_open = False
            self._output.__exit__(kind, error, trace)
            self._writer.close()  # a writer that is not closed would write its footer when it is garbage-collected
            return
        try:
            with self._output:
                if self._waiting:
                    self._flush()
                self._writer.close()
        except BaseException:
            self._sink.is_open = False
            raise


def _row(record: Record) -> tuple[Any, ...]:
    """The values of a record in the order of `COLUMNS`; None for values of another type, as in results of other
    programs."""
    get, report, facts = record.get, record["report"], record["facts"] or {}
    summary, findings, elided = report["summary"], report["findings"], report["summary"]["elided"]
    codes = sorted({_text(code) or "" for code in (*(finding["code"] for finding in findings), *elided)})
    runtimes = report.get("runtimes", ())
    size, seconds = get("size"), get("seconds")
    return (
        _text(get("url")), _text(get("etag")), _count(report.get("size") if size is None else size), _text(get("sha256")),
        _text(get("same_as")), _text(get("rules")), report["ok"], bool(summary.get("readable")), "skipped" in report,
        len(report["bugs"]), *[_count(summary[name]) for name in ("errors", "warnings", "notes")], codes,
        _text(facts.get("architecture")), _text(facts.get("producer")), _text(facts.get("layout")),
        _loaders(runtimes) if runtimes else [],
        seconds if isinstance(seconds, float) else _count(seconds),
    )  # fmt: skip


def _loaders(runtimes: Any) -> list[str | None]:
    """The runtimes that load a file."""
    found = (each for each in runtimes if isinstance(each, dict)) if isinstance(runtimes, list) else ()
    return [_text(each.get("runtime")) for each in found if each.get("loads") == "yes"]


def _count(value: Any) -> int | None:
    """A number that fits the table's columns of counts."""
    return value if isinstance(value, int) and not isinstance(value, bool) and -1 << 63 <= value < 1 << 63 else None


def _text(value: Any) -> str | None:
    return quote(value, limit=4096, bare=True) if isinstance(value, str) else None


class _Sink:
    """The output for Arrow: a file that gets its name when it is complete."""

    closed = False

    def __init__(self, output: OutputFile) -> None:
        self._output, self._length = output, 0
        #: Whether data is still written; not after the file was given up.
        self.is_open = True

    def write(self, data: Any) -> int:
        if self.is_open:
            self._output.write(data)
        length = memoryview(data).nbytes
        self._length += length
        return length

    def tell(self) -> int:
        return self._length

    def flush(self) -> None:
        """Do nothing: nothing is buffered."""

    def close(self) -> None:
        """Do nothing: the context manager closes the file."""

    def writable(self) -> bool:
        return True

    def readable(self) -> bool:
        return False

    def seekable(self) -> bool:
        return False
