"""The results of a run: records as JSON Lines, the same as a Parquet table, and counts over them.

Each record is appended whole to the results as soon as it is known (`ResultsLog`). A run that is killed loses at most
its current line: the next run removes an incomplete last line and continues. Records are found by address, etag and key
of the options, so a changed file, or other rules, get a new record. Only one run at a time appends to a file.

Whoever can write a log decides verdicts with it, and a log may lie in a folder that somebody else made. So each line has
a seal, made with a key in the user's cache: of a log that nobody named, only records of this user count.

`ResultsTable` writes the last record of each address as a row of a table; `Census` counts the records, and
`census_page` shows the counts.
"""

from __future__ import annotations

import hmac
import io
import json
import os
import secrets
from base64 import b64encode
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from functools import lru_cache
from hashlib import blake2b, sha256
from html import escape
from importlib.resources import files
from pathlib import Path
from types import TracebackType
from typing import Any, BinaryIO, Final, Literal

from i2s_spec._version import __version__
from i2s_spec.draw.chart import BarRow, Share, bar_rows, strip
from i2s_spec.draw.text import size_words, visible
from i2s_spec.errors import MissingExtra, RecordError, SettingError, counted, quote
from i2s_spec.gguf.atomic_file import OutputFile, hold
from i2s_spec.gguf.source import open_regular
from i2s_spec.linter.cluster.check import RECORD_VERSION, Record

#: Longest line; a report lists a bounded number of findings.
LONGEST_LINE: Final = 1 << 26

#: How every line begins.
BEGINNING: Final = b'{"schema_version": '

#: Bytes that are read at a time to find the end of the last whole line.
STEP: Final = 1 << 16


def key_of(url: str, etag: str | None, rules: str) -> bytes:
    """Return the key of a record, as sixteen bytes."""
    raw = [part.encode("utf-8", "surrogatepass") for part in (url, etag or "", rules)]
    lengths = b"%d,%d;" % (len(raw[0]), len(raw[1]))
    return blake2b(b"".join((lengths, *raw)), digest_size=16).digest()


#: Which records of a log count: all, those with the seal of this user, or none.
Reuse = Literal["all", "own", "none"]

#: How a line ends: a seal of 32 hexadecimal digits.
SEAL: Final = b', "seal": "%b"}\n'
_SEALED: Final = len(SEAL % bytes(32))


def seal_key() -> bytes | None:
    """Return the key of the user's seals, from the user's cache; None where none can be stored."""
    place = Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache") / "i2s-spec" / "results.key"
    try:
        place.parent.mkdir(parents=True, exist_ok=True)
        with suppress(FileExistsError), open(os.open(place, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600), "wb") as made:
            made.write(secrets.token_bytes(32))
        with open_regular(place) as stream:
            key = stream.read(33)
    except (OSError, RuntimeError):  # there is no home, or nothing can be written there
        return None
    return key if len(key) == 32 else None


def sealed(line: bytes, key: bytes | None) -> bytes:
    """Return a line of JSON with its seal."""
    if key is None:
        return line + b"\n"
    return line[:-1] + SEAL % hmac.digest(key, line, "sha256").hex()[:32].encode()


def has_seal(line: bytes, key: bytes | None) -> bool:
    """Whether a line has the seal that this key gives it."""
    return key is not None and hmac.compare_digest(sealed(line[:-_SEALED] + b"}", key), line)


class ResultsLog:
    """The records of earlier runs, and those of this one.

    :param path: a file of results; it is created if there is none
    :param reuse: which records of earlier runs count
    :raises SettingError: if the file is not a file of results, or another run appends to it
    :raises OSError: if it cannot be opened or written
    """

    def __init__(self, path: str | os.PathLike[str], reuse: Reuse = "all") -> None:
        self.path = os.path.realpath(path)
        self._reuse, self._key = reuse, seal_key()
        shown = quote(os.fspath(path), 4096, bare=True)
        if os.path.lexists(self.path):
            with open_regular(self.path) as stream:
                beginning = stream.read(len(BEGINNING))
            if beginning not in (b"", BEGINNING):
                raise SettingError(f"{shown} is not a file of results; nothing is appended to it")
        flags = os.O_RDWR | os.O_CREAT | os.O_APPEND | getattr(os, "O_CLOEXEC", 0) | getattr(os, "O_BINARY", 0)
        self._fd = os.open(self.path, flags, 0o666)
        try:
            if not hold(self._fd, self.path):
                raise SettingError(f"another run appends to {shown}")
            #: Bytes of an incomplete last line that were removed.
            self.repaired = self._repair()
            #: Where the last record of each key is.
            self._places: dict[bytes, tuple[int, int]] = {}
            #: The key of the last record of each address and its rules, whatever its etag.
            self._newest: dict[bytes, bytes] = {}
            #: Lines that are not records, and records that do not count.
            self.damaged = self.ignored = 0
            self._end = self._index()
        except BaseException:
            self.close()
            raise

    def _repair(self) -> int:
        """Remove the incomplete last line of a killed run."""
        size = end = os.fstat(self._fd).st_size
        while end > 0:
            start = max(0, end - STEP)
            found = self._read(start, end - start).rfind(b"\n")
            if found >= 0:
                end = start + found + 1
                break
            end = start
        if end < size:
            os.ftruncate(self._fd, end)
        return size - end

    def _read(self, start: int, length: int) -> bytes:
        if hasattr(os, "pread"):
            return os.pread(self._fd, length, start)
        os.lseek(self._fd, start, os.SEEK_SET)  # appended lines go to the end in any case
        return os.read(self._fd, length)

    def _index(self) -> int:
        at = 0
        with open_regular(self.path) as stream:
            for line in _lines(stream):
                record = parsed(line)
                if record is None:
                    self.damaged += 1
                elif self._reuse == "none" or (self._reuse == "own" and not has_seal(line, self._key)):
                    self.ignored += 1
                else:
                    self._place(record, at, len(line))
                at += len(line)
        return at

    def _place(self, record: Record, start: int, length: int) -> None:
        url, etag, rules = record["url"], record["etag"], record["rules"]
        self._places[key := key_of(url, etag, rules)] = start, length
        if "://" in url:
            self._newest[key_of(url, None, rules)] = key

    def newest(self, url: str, rules: str) -> bytes | None:
        """Return the key of the last record of an address, whatever its etag; None if there is none."""
        return self._newest.get(key_of(url, None, rules))

    def __contains__(self, key: bytes) -> bool:
        return key in self._places

    def __len__(self) -> int:
        return len(self._places)

    def __getitem__(self, key: bytes) -> Record:
        start, length = self._places[key]
        found = parsed(self._read(start, length))
        if found is None:
            raise SettingError(f"{quote(self.path, 4096, bare=True)} was changed by another program")
        return found

    def append(self, records: Iterable[Record]) -> None:
        """Write records; each is complete in the file before the next one begins.

        :raises OSError: if the disk is full; then none of these records is in the file
        """
        written = [(record, sealed(json.dumps(record).encode(), self._key)) for record in records]
        left = memoryview(b"".join(line for _, line in written))
        try:
            while left:
                left = left[os.write(self._fd, left) :]
        except OSError as error:
            with suppress(OSError):
                os.ftruncate(self._fd, self._end)
            raise OSError(error.errno, error.strerror, self.path) from None
        for record, line in written:
            self._place(record, self._end, len(line))
            self._end += len(line)

    def sync(self) -> None:
        """Sync the file to disk."""
        os.fsync(self._fd)

    def close(self) -> None:
        fd, self._fd = self._fd, -1
        if fd >= 0:
            os.close(fd)

    def __enter__(self) -> ResultsLog:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()


def _lines(stream: BinaryIO) -> Iterator[bytes]:
    """Yield lines with their ends; a line that is longer than any record comes in pieces, which are not records."""
    while line := stream.readline(LONGEST_LINE):
        yield line


def parsed(line: bytes) -> Record | None:
    """Return the record of a line, if it has all fields that readers rely on; else None."""
    try:
        found = json.loads(line)
    except (ValueError, RecursionError):
        return None
    if type(found) is not dict or found.get("schema_version") != RECORD_VERSION or not line.endswith(b"\n"):
        return None
    texts = type(found.get("url")) is str and type(found.get("rules")) is str
    if not texts or type(found.get("etag", 0)) not in _TEXT or not _is_report(found.get("report")):
        return None
    found.pop("seal", None)
    return found if type(found.setdefault("facts", None)) in _TABLE else None


#: The types that JSON gives for optional values.
_TEXT: Final = (str, type(None))
_TABLE: Final = (dict, type(None))


def _is_report(report: Any) -> bool:
    """Whether a JSON value is a report; the types of JSON values are exact."""
    if type(report) is not dict or type(report.get("ok")) is not bool:
        return False
    summary, findings = report.get("summary"), report.get("findings")
    lists = type(findings) is list and type(report.get("bugs")) is list and type(report.get("excused")) is list
    if not lists or type(summary) is not dict or type(summary.get("elided")) is not dict:
        return False
    if not all(isinstance(summary.get(name), int) for name in ("errors", "warnings", "notes")):
        return False
    return not findings or all(type(each) is dict and type(each.get("code")) is str for each in findings)


def latest(path: str | os.PathLike[str]) -> Iterator[Record]:
    """Yield the last record of each address in a file of results, in the order of the file; damaged lines are skipped.

    :raises RecordError: if the file has no record
    :raises OSError: if it cannot be read
    """
    last: dict[bytes, int] = {}
    with open_regular(path) as stream:
        for number, line in enumerate(_lines(stream)):
            if (record := parsed(line)) is not None:
                last[key_of(record["url"], None, "")] = number
        if not last:
            raise RecordError(
                f"{quote(os.fspath(path), 4096, bare=True)} holds no results of a run over many files; "
                "`i2s lint --engine dask` and `i2s_spec.check` make them; other reports of `i2s lint` do not count"
            )
        wanted = set(last.values())
        last.clear()
        stream.seek(0)
        for number, line in enumerate(_lines(stream)):
            if number in wanted and (record := parsed(line)) is not None:
                yield record


# --- one Parquet table -----------------------------------------------------------------------------------------------
# A row for each address, its last record. Text of files is escaped, so that every column is valid UTF-8. Rows can be
# added while a run goes on: they are written a group at a time.

#: Most rows in memory at a time.
BATCH_ROWS: Final = 10_000

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
        if len(self._waiting) == BATCH_ROWS:
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


def is_table(path: str | os.PathLike[str]) -> bool:
    """Whether a file is a table of results, of this version or an earlier one: its columns are named at its end."""
    with open_regular(path) as stream:
        size = os.fstat(stream.fileno()).st_size
        stream.seek(max(0, size - 8))
        length = int.from_bytes(stream.read(4), "little")
        if stream.read(4) != b"PAR1" or not 0 < length <= min(size, 1 << 20):
            return False
        stream.seek(max(0, size - 8 - length))
        names = stream.read(length)
    return all(name in names for name in (b"url", b"etag", b"rules", b"codes"))


def _row(record: Record) -> tuple[Any, ...]:
    """Return the values of a record in the order of `COLUMNS`; None for values of another type, as in results of other
    programs."""
    get, report, facts = record.get, record["report"], record["facts"] or {}
    summary, findings, elided = report["summary"], report["findings"], report["summary"]["elided"]
    codes = sorted({_text(code) or "" for code in (*(finding["code"] for finding in findings), *elided)})
    runtimes = report.get("runtimes", ())
    size, seconds = get("size"), get("seconds")
    return (
        _text(get("url")), _text(get("etag")), _column_count(report.get("size") if size is None else size),
        _text(get("sha256")), _text(get("same_as")), _text(get("rules")), report["ok"],
        bool(summary.get("readable")), "skipped" in report, len(report["bugs"]),
        *[_column_count(summary[name]) for name in ("errors", "warnings", "notes")], codes,
        _text(facts.get("architecture")), _text(facts.get("producer")), _text(facts.get("layout")),
        _loaders(runtimes) if runtimes else [],
        seconds if isinstance(seconds, float) else _column_count(seconds),
    )  # fmt: skip


def _loaders(runtimes: Any) -> list[str | None]:
    """Return the runtimes that load a file."""
    found = (each for each in runtimes if isinstance(each, dict)) if isinstance(runtimes, list) else ()
    return [_text(each.get("runtime")) for each in found if each.get("loads") == "yes"]


def _column_count(value: Any) -> int | None:
    """Return a number that fits the table's columns of counts."""
    return value if isinstance(value, int) and not isinstance(value, bool) and -1 << 63 <= value < 1 << 63 else None


def _text(value: Any) -> str | None:
    return quote(value, limit=4096, bare=True) if isinstance(value, str) else None


class _Sink(io.RawIOBase):
    """The output for Arrow: a file that gets its name when it is complete."""

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

    def writable(self) -> bool:
        return True


# --- counts ----------------------------------------------------------------------------------------------------------
# Verdicts and findings by code, producer, layout, architecture and runtime. The records come from an untrusted file:
# names are bounded in number and length, and counted as text.

SCHEMA_VERSION: Final = 1

#: Verdicts on a file from the best to the worst.
VERDICTS: Final = ("ok", "warnings", "errors", "unreadable", "failed")

#: The meaning of each verdict, in words.
MEANINGS: Final = {
    "ok": "neither errors nor warnings",
    "warnings": "warnings, no errors",
    "errors": "errors",
    "unreadable": "unreadable, or not GGUF",
    "failed": "not checked: a bug in i2s-spec, or a worker that died",
}

#: Most names of one kind that are counted separately; further ones are `OTHERS`.
MOST_NAMES: Final = 1000
OTHERS: Final = "(others)"

#: The name for a fact that was not gathered or that the file does not have.
UNKNOWN: Final = "(not known)"

#: How many codes are counted by producer.
CODES_BY_PRODUCER: Final = 8


class Census:
    """Counts over records, added one by one; their size is bounded."""

    def __init__(self) -> None:
        self.files = self.copies = self.bytes = self.findings = 0
        self.seconds = 0.0
        self.rules: Counter[str] = Counter()
        self.verdicts: Counter[str] = Counter()
        #: Verdicts by the names of each kind.
        self.by: dict[str, dict[str, Counter[str]]] = {"producer": {}, "layout": {}, "architecture": {}}
        #: Files and findings of each code, and its description.
        self.code_files: Counter[str] = Counter()
        self.code_findings: Counter[str] = Counter()
        self.about: dict[str, tuple[str, str]] = {}
        self.codes_by_producer: dict[str, Counter[str]] = {}
        #: Verdicts of runtimes on files, if they were requested: `loads` and `computes`.
        self.loads: dict[str, Counter[str]] = {}
        self.computes: dict[str, Counter[str]] = {}

    def add(self, record: Mapping[str, Any]) -> None:
        """Count one record, in the form that `latest` gives."""
        report, facts = record["report"], record["facts"] or {}
        verdict = verdict_of(report)
        self.files += 1
        self.copies += "same_as" in record
        self.bytes += _number(report.get("size"))
        self.seconds += _number(record.get("seconds"))
        _count(self.rules, record["rules"])
        self.verdicts[verdict] += 1
        producer = UNKNOWN
        for kind, names in self.by.items():
            name = _name(facts.get(kind)) or UNKNOWN
            if kind == "producer":
                producer = name
            _nested(names, name)[verdict] += 1
        self._add_findings(report, producer)
        runtimes = report.get("runtimes")
        for each in runtimes if isinstance(runtimes, list) else ():
            if isinstance(each, Mapping) and (runtime := _name(each.get("runtime"))):
                _count(_nested(self.loads, runtime), _name(each.get("loads")) or UNKNOWN)
                _count(_nested(self.computes, runtime), _name(each.get("computes")) or UNKNOWN)

    def _add_findings(self, report: Mapping[str, Any], producer: str) -> None:
        found: Counter[str] = Counter()
        for finding in report["findings"]:
            code = _name(finding["code"])
            found[code] += 1
            if len(self.about) < MOST_NAMES:
                self.about.setdefault(code, (_name(finding.get("slug")), _name(finding.get("severity"))))
        for code, elided in report["summary"]["elided"].items():
            found[_name(code)] += int(_number(elided))
        for code, findings in found.items():
            _count(self.code_files, code)
            _count(self.code_findings, code, findings)
            _count(_nested(self.codes_by_producer, producer), code)
            self.findings += findings

    def as_dict(self) -> dict[str, Any]:
        """Return the counts as plain data, the most frequent first."""
        return {
            "schema_version": SCHEMA_VERSION,
            "files": self.files,
            "copies": self.copies,
            "bytes": self.bytes,
            "seconds": round(self.seconds, 3),
            "findings": self.findings,
            "rules": dict(self.rules.most_common()),
            "verdicts": {verdict: self.verdicts[verdict] for verdict in VERDICTS},
            "codes": [
                {"code": code, "slug": slug, "severity": severity, "files": files, "findings": self.code_findings[code]}
                for code, files in by_count(self.code_files)
                for slug, severity in [self.about.get(code, ("", ""))]
            ],
            **{
                f"{kind}s": {name: _verdicts(counts) for name, counts in ordered(names)}
                for kind, names in self.by.items()
            },
            "codes_by_producer": {
                name: dict(by_count(counts)[:CODES_BY_PRODUCER]) for name, counts in ordered(self.codes_by_producer)
            },
            "runtimes": {
                name: {"loads": dict(by_count(counts)), "computes": dict(by_count(self.computes[name]))}
                for name, counts in sorted(self.loads.items())
            },
        }


def census_of(records: Iterable[Mapping[str, Any]]) -> Census:
    """Count records."""
    census = Census()
    for record in records:
        census.add(record)
    return census


def verdict_of(report: Mapping[str, Any]) -> str:
    """Return the verdict on a file: the worst one of `VERDICTS` that applies."""
    summary = report["summary"]
    if report["bugs"]:
        return "failed"
    if not summary.get("readable") and "skipped" not in report:
        return "unreadable"
    if summary["errors"] or not report["ok"]:
        return "errors"
    return "warnings" if summary["warnings"] else "ok"


def by_count(counts: Counter[str]) -> list[tuple[str, int]]:
    """Return names with their counts, the most frequent first, then by name."""
    return sorted(counts.items(), key=lambda item: (-item[1], item[0]))


def ordered(names: Mapping[str, Counter[str]]) -> list[tuple[str, Counter[str]]]:
    """Return names with their counters, those with the most files first."""
    return sorted(names.items(), key=lambda item: (-item[1].total(), item[0]))


def _verdicts(counts: Counter[str]) -> dict[str, int]:
    return {verdict: counts[verdict] for verdict in VERDICTS if counts[verdict]}


def _count(counts: Counter[str], name: str, times: int = 1) -> None:
    counts[name if name in counts or len(counts) < MOST_NAMES else OTHERS] += times


def _nested(names: dict[str, Counter[str]], name: str) -> Counter[str]:
    return names.setdefault(name if name in names or len(names) < MOST_NAMES else OTHERS, Counter())


def _name(value: Any) -> str:
    return quote(value, bare=True) if isinstance(value, str) else ""


def _number(value: Any) -> Any:
    """Return a count or a time; 0 for anything else."""
    is_number = isinstance(value, int | float) and not isinstance(value, bool)
    return value if is_number and 0 <= value < 1 << 60 else 0


# --- the page of a census --------------------------------------------------------------------------------------------
# One self-contained HTML file, with light and dark colors. It has no script, and a Content-Security-Policy blocks all
# scripts. Every text of the records is escaped.

#: Most rows of a plot; the JSON form has all of them.
PAGE_ROWS: Final = 40

#: The class of each verdict and severity.
_STYLES: Final = {"error": "errors", "warning": "warnings", "note": "notes"}

#: The class of each verdict of a runtime.
_ANSWERS: Final = {"yes": "ok", "no": "errors"}


def census_page(census: Census, source: str) -> str:
    """Return the page.

    :param source: the name of the results, which the page shows
    """
    return "".join(_pieces(census, source))


def _pieces(census: Census, source: str) -> Iterator[str]:
    style = _style()
    policy = f"default-src 'none'; style-src '{_hash(style)}'; base-uri 'none'; form-action 'none'"
    yield (
        '<!DOCTYPE html>\n<html lang="en"><head><meta charset="utf-8">\n'
        f'<meta http-equiv="Content-Security-Policy" content="{policy}">\n'
        '<meta name="viewport" content="width=device-width, initial-scale=1">\n'
        '<meta name="color-scheme" content="light dark"><meta name="referrer" content="no-referrer">\n'
        f"<title>Census of {counted(census.files, 'file')}</title>\n<style>{style}</style></head>\n"
        f"<body><header><p>i2s census of <code>{escape(visible(source, 4096, bare=True))}</code></p>"
        f"<h1>{counted(census.files, 'file')}</h1></header>\n<main>\n"
    )
    yield _totals(census)
    yield _section(
        "Findings by code", _codes(census), "Files in which a rule has findings, by the severity of the rule."
    )
    kinds = {
        "producer": "Files by the program that wrote their metadata, as <code>i2s identify</code> reports it.",
        "layout": "Files with I2_S tensors by their layout, if weights or other evidence show it.",
        "architecture": "Files by general.architecture.",
    }
    for kind, about in kinds.items():
        names = ordered(census.by[kind])
        yield _section(f"Files by {kind}", _by_verdict(names, kind), about)
    yield _section(
        "Findings by producer",
        _matrix(census),
        "How many files of each producer have findings of the most frequent rules.",
    )
    yield _section("Files by runtime", _runtimes(census), _about_runtimes(census))
    yield f"</main>\n<footer><p>i2s-spec {escape(__version__)}</p></footer></body></html>\n"


def _totals(census: Census) -> str:
    shares = [
        Share(census.verdicts[verdict], verdict, f"{MEANINGS[verdict]}: {census.verdicts[verdict]:,}")
        for verdict in VERDICTS
    ]
    legend = "".join(
        f'<li><span class="key {verdict}"></span>{escape(MEANINGS[verdict])}: {census.verdicts[verdict]:,}'
        f" ({census.verdicts[verdict] / max(1, census.files):.1%})</li>"
        for verdict in VERDICTS
    )
    facts = [
        ("bytes of files", size_words(census.bytes)),
        ("findings", f"{census.findings:,}"),
        ("copies of another file", f"{census.copies:,}"),
        ("seconds of work", f"{census.seconds:,.0f}"),
        ("sets of rules and options", f"{len(census.rules):,}"),
    ]
    listed = "".join(f"<div><dt>{name}</dt><dd>{escape(value)}</dd></div>" for name, value in facts)
    mixed = ""
    if len(census.rules) > 1:
        mixed = (
            '<p class="remark">The results come from several sets of rules, so counts of codes are not comparable.</p>'
        )
    return (
        f'{strip(shares, "Verdicts on all files", 900, 22)}<ul class="legend">{legend}</ul><dl>{listed}</dl>{mixed}\n'
    )


def _section(heading: str, body: str, about: str) -> str:
    return f"<section><h2>{escape(heading)}</h2><p>{about}</p>{body}</section>\n" if body else ""


def _codes(census: Census) -> str:
    rows = []
    for code, count in by_count(census.code_files)[:PAGE_ROWS]:
        slug, severity = census.about.get(code, ("", ""))
        style = _STYLES.get(severity, "notes")
        title = (
            f"{code} {slug}: {severity}, {counted(census.code_findings[code], 'finding')} in {counted(count, 'file')}"
        )
        rows.append(BarRow(f"{code} {slug}", (Share(count, style, title),), f"{count:,}"))
    if not rows:
        return "<p>There are no findings.</p>"
    return bar_rows(rows, "Files by code of finding", _more(len(census.code_files)))


def _by_verdict(names: Sequence[tuple[str, Counter[str]]], kind: str) -> str:
    rows = []
    for name, counts in names[:PAGE_ROWS]:
        shares = [
            Share(counts[verdict], verdict, f"{MEANINGS[verdict]}: {counts[verdict]:,}")
            for verdict in VERDICTS
            if counts[verdict]
        ]
        rows.append(BarRow(name, shares, f"{counts.total():,}"))
    return bar_rows(rows, f"Files by {kind} and verdict", _more(len(names))) if rows else ""


def _matrix(census: Census) -> str:
    producers = [(name, counts) for name, counts in ordered(census.codes_by_producer) if name != OTHERS][:PAGE_ROWS]
    codes = [code for code, _ in by_count(census.code_files)[:CODES_BY_PRODUCER]]
    if not producers:
        return ""
    head = "".join(f'<th scope="col">{escape(code)}</th>' for code in codes)
    body = "".join(
        f'<tr><th scope="row">{escape(name)}</th>'
        + "".join(f"<td>{counts[code]:,}</td>" if counts[code] else "<td></td>" for code in codes)
        + "</tr>"
        for name, counts in producers
    )
    head = f'<thead><tr><th scope="col">producer</th>{head}</tr></thead>'
    return f'<div class="wide"><table>{head}<tbody>{body}</tbody></table></div>'


def _runtimes(census: Census) -> str:
    if not census.loads:
        return ""
    drawings = []
    for verb, by_runtime in (("load", census.loads), ("compute", census.computes)):
        rows = [
            BarRow(name, tuple(_answers(counts, verb)), _words(counts)) for name, counts in sorted(by_runtime.items())
        ]
        drawings.append(
            f"<h3>Files that they {verb}</h3>" + bar_rows(rows[:PAGE_ROWS], f"Files that runtimes {verb}", "")
        )
    return "".join(drawings)


def _answers(counts: Mapping[str, int], verb: str) -> Iterable[Share]:
    for answer, count in sorted(
        counts.items(), key=lambda item: ("yes", "no").index(item[0]) if item[0] in _ANSWERS else 2
    ):
        yield Share(count, _ANSWERS.get(answer, "notes"), f"{verb}: {answer}: {counted(count, 'file')}")


def _words(counts: Mapping[str, int]) -> str:
    return f"{counts.get('yes', 0):,} of {sum(counts.values()):,}"


def _about_runtimes(census: Census) -> str:
    most = max((counts.total() for counts in census.loads.values()), default=0)
    return f"What <code>--runtimes</code> says of {counted(most, 'file')}: yes, no, or not tried."


def _more(count: int) -> str:
    return f"The {PAGE_ROWS} most frequent of {count:,}." if count > PAGE_ROWS else ""


@lru_cache(maxsize=1)
def _style() -> str:
    return files("i2s_spec.linter.cluster").joinpath("census.css").read_text(encoding="utf-8")


def _hash(text: str) -> str:
    return f"sha256-{b64encode(sha256(text.encode()).digest()).decode()}"
