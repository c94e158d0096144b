"""This module keeps the records of a run as JSON Lines; each is appended whole as soon as it is known.

A run that is killed loses at most its current line: the next run removes an incomplete last line and continues. Records
are found by address, etag and key of the options, so a changed file, or other rules, get a new record. Only one run at
a time appends to a file.
"""

from __future__ import annotations

import json
import os
from collections.abc import Iterable, Iterator
from hashlib import blake2b
from typing import Any, BinaryIO, Final

from i2s_spec.errors import SettingError, quote
from i2s_spec.gguf.regular_file import open_regular
from i2s_spec.gguf.unfinished import hold
from i2s_spec.linter.cluster.check_entry import Record
from i2s_spec.linter.cluster.options_key import RECORD_VERSION

#: Longest line; a report lists a bounded number of findings.
LONGEST_LINE: Final = 1 << 26

#: How every line begins.
BEGINNING: Final = b'{"schema_version": '

#: The beginning of a line up to the address.
ADDRESS: Final = BEGINNING + b'%d, "url": ' % RECORD_VERSION

#: Bytes that are read at a time to find the end of the last whole line.
STEP: Final = 1 << 16


def key_of(url: str, etag: str | None, rules: str) -> bytes:
    """The key of a record, as sixteen bytes."""
    raw = [part.encode("utf-8", "surrogatepass") for part in (url, etag or "", rules)]
    lengths = b"%d,%d;" % (len(raw[0]), len(raw[1]))
    return blake2b(b"".join((lengths, *raw)), digest_size=16).digest()


class ResultsLog:
    """The records of earlier runs, and those of this one.

    :param path: a file of results; it is created if there is none
    :raises SettingError: if the file is not a file of results, or another run appends to it
    :raises OSError: if it cannot be opened or written
    """

    def __init__(self, path: str | os.PathLike[str]) -> None:
        self.path = os.path.realpath(path)
        shown = quote(os.fspath(path), 4096, bare=True)
        if os.path.lexists(self.path):
            with open_regular(self.path) as stream:
                beginning = stream.read(len(BEGINNING))
            if beginning != BEGINNING[: len(beginning)]:
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
            #: Lines that are not records.
            self.damaged = 0
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
        """The key of the last record of an address, whatever its etag; None if there is none."""
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
        """Write records; each is complete in the file before the next one begins."""
        written = [(record, json.dumps(record).encode() + b"\n") for record in records]
        left = memoryview(b"".join(line for _, line in written))
        while left:
            left = left[os.write(self._fd, left) :]
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
    """Lines with their ends; a line that is longer than any record comes in pieces, which are not records."""
    while line := stream.readline(LONGEST_LINE):
        yield line


def parsed(line: bytes) -> Record | None:
    """The record of a line, if it has all fields that readers rely on; else None."""
    try:
        found = json.loads(line)
    except (ValueError, RecursionError):
        return None
    if type(found) is not dict or found.get("schema_version") != RECORD_VERSION or not line.endswith(b"\n"):
        return None
    texts = type(found.get("url")) is str and type(found.get("rules")) is str
    if not texts or type(found.get("etag", 0)) not in _TEXT or not _is_report(found.get("report")):
        return None
    return found if type(found.get("facts")) in _TABLE else None


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


_DECODER: Final = json.JSONDecoder()


def _url_of(line: bytes) -> str:
    """The address of a line that is known to be a record; lines that were written here begin with it."""
    if line.startswith(ADDRESS):
        url, _ = _DECODER.raw_decode(line.decode("utf-8", "surrogatepass"), len(ADDRESS))
    else:
        url = json.loads(line)["url"]
    return str(url)


def latest(path: str | os.PathLike[str], sound: bool = False) -> Iterator[Record]:
    """The last record of each address in a file of results, in the order of the file; damaged lines are skipped.

    :param sound: every line is known to be a record, as after a `ResultsLog` that found no damaged one
    :raises SettingError: if the file has no record
    :raises OSError: if it cannot be read
    """
    last: dict[bytes, int] = {}
    with open_regular(path) as stream:
        for number, line in enumerate(_lines(stream)):
            if sound:
                last[key_of(_url_of(line), None, "")] = number
            elif (record := parsed(line)) is not None:
                last[key_of(record["url"], None, "")] = number
        if not last:
            raise SettingError(
                f"{quote(os.fspath(path), 4096, bare=True)} holds no results of a run over many files; "
                "`i2s lint --engine dask` and `i2s_spec.check` make them; other reports of `i2s lint` do not count"
            )
        wanted = set(last.values())
        last.clear()
        stream.seek(0)
        for number, line in enumerate(_lines(stream)):
            if number in wanted and (record := parsed(line)) is not None:
                yield record
