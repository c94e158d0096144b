"""This module decides which batch of files is next, and handles batches that succeeded or failed.

It is independent of engine and clock: its caller asks for batches, reports the result of each, and gets the records. A
batch whose worker died is checked again in a separate process beside a worker; if that process dies, this is the result
of the file that it was checking. So one bad file costs neither the others nor the run.

If a manifest does not give the etag of an address, a record of an earlier run is valid as long as the server still
gives the etag in the record.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Iterable, Iterator, Mapping
from functools import partial
from typing import Any, Final, Literal, NamedTuple

from i2s_spec.errors import quote
from i2s_spec.linter.cluster.check_entry import Record, died, is_short, wait_asked
from i2s_spec.linter.cluster.host_rates import HostRates, Rate
from i2s_spec.linter.cluster.manifest import Entry
from i2s_spec.linter.cluster.results_log import ResultsLog, key_of
from i2s_spec.linter.cluster.same_content import SameContent
from i2s_spec.linter.options import Options
from i2s_spec.linter.report_data import uri_of
from i2s_spec.remote.policy import Policy
from i2s_spec.schema import faults

#: Files and bytes of a batch: enough that an engine's overhead for a task, some milliseconds, does not matter. Servers
#: answer more slowly than disks, and a digest takes a hundredth of the time of a check.
BATCH_FILES: Final = 512
BATCH_ADDRESSES: Final = 64
BATCH_DIGESTS: Final = 4096
BATCH_BYTES: Final = 32 << 20

#: Assumed bytes of a file of unknown size.
UNKNOWN_SIZE: Final = 64 << 20

#: Default limit of the bytes of files that workers are checking or have queued.
IN_FLIGHT: Final = 4 << 30

#: How often a file waits for a server that asks for it.
WAITS: Final = 6

#: How often a worker may die although the files are checked in a separate process, for example if workers are killed.
ATTEMPTS: Final = 3

#: Findings that are not about the file: its server did not give it, or gave parts of several versions.
_NOT_GIVEN: Final = faults.REMOTE | {faults.CHANGED.code}

Kind = Literal["check", "ends", "whole", "alone", "look"]


class Batch(NamedTuple):
    """The files of one task: to check, to digest (ends or all bytes), to check in a separate process beside the worker,
    or to ask their servers whether the content is unchanged."""

    kind: Kind
    entries: tuple[Entry, ...]
    size: int
    attempt: int = 1


class Coordinator:
    """The state of a run.

    :param entries: the entries to check; entries with a record in the log are not checked again
    :param log: the log that holds earlier records and gets new ones
    :param rates: requests by host
    :param in_flight: most bytes in progress at a time; one batch is always allowed
    :param tasks: most batches in progress at a time
    """

    def __init__(
        self,
        entries: Iterable[Entry],
        options: Options,
        key: str,
        log: ResultsLog,
        rates: Mapping[str, Rate] | None = None,
        in_flight: int = IN_FLIGHT,
        tasks: int = 8,
    ) -> None:
        self._options, self._key, self._log = options, key, log
        self._rates = HostRates(rates or {})
        self._most_bytes, self.tasks = in_flight, tasks
        self._out: dict[Batch, None] = {}
        self._bytes_out = 0
        self._waiting: dict[tuple[Kind, str], deque[Entry]] = {}
        self._retries: deque[Batch] = deque()
        #: How often a file waited because its server answered that it gets too many requests.
        self._waits: dict[str, int] = {}
        self._followers: dict[str, list[Entry]] = {}
        #: Checked files whose digest is known, by address: further files with the same content get a copy of the record.
        self._done: dict[str, bytes] = {}
        #: Records that are known and not yet returned; those of earlier runs by their keys.
        self._ready: deque[Record | bytes] = deque()
        self.total = self.reused = 0
        #: The record that is valid if the server still gives its etag, by address.
        self._remembered: dict[str, bytes] = {}
        known = []
        for entry in entries:
            self.total += 1
            place = key_of(entry.url, entry.etag, key)
            if entry.has_no_identity:
                newest = log.newest(entry.url, key)
                if newest is None or not _holds(log[newest], entry):
                    known.append(entry)
                else:
                    self._remembered[entry.url] = newest
                    self._queue("look", entry)
                continue
            if not _may_be_reused(entry) or place not in log or not _holds(log[place], entry):
                known.append(entry)
                continue
            self.reused += 1
            self._ready.append(place)
            record = log[place]
            if isinstance(record.get("sha256"), str):
                known.append(entry._replace(sha256=record["sha256"]))
                self._done[entry.url] = key_of(entry.url, entry.etag, self._key)
        self.recorded, self.looked_at = self.reused, len(self._remembered)
        self._same = SameContent(known, self._judge, self._digest, self._follow, self._context)

    # --- entries ------------------------------------------------------------------------------------------------------

    def _context(self, entry: Entry) -> str:
        return repr(sorted(self._options.suppressed_in(entry.url).items())) if self._options.suppressions else ""

    def _judge(self, entry: Entry) -> None:
        if entry.url not in self._done:
            self._queue("check", entry)

    def _digest(self, entry: Entry, whole: bool) -> None:
        self._queue("whole" if whole else "ends", entry)

    def _queue(self, kind: Kind, entry: Entry) -> None:
        self._waiting.setdefault((kind, entry.host), deque()).append(entry)

    def _follow(self, entry: Entry, first: str) -> None:
        if entry.url in self._done:
            return
        place = self._done.get(first)
        if place is None:
            self._followers.setdefault(first, []).append(entry)
        else:
            self._keep([_copied(self._log[place], entry)])

    # --- batches ------------------------------------------------------------------------------------------------------

    @property
    def finished(self) -> bool:
        """Whether every entry has its record."""
        return not self._out and not self._retries and not any(self._waiting.values())

    def records(self) -> Iterator[Record]:
        """Records that are known and were not yet returned."""
        while self._ready:
            following = self._ready.popleft()
            yield self._log[following] if isinstance(following, bytes) else following

    def next(self, now: float) -> Batch | None:
        """The next batch; None if none may start now.

        :param now: seconds of a clock that only goes forward
        """
        if len(self._out) >= self.tasks:
            return None
        if self._retries:
            return self._given(self._retries.popleft()) if self._has_room(self._retries[0].size) else None
        left = sum(map(len, self._waiting.values()))
        share = max(1, left // (2 * self.tasks))
        # Digests come first: files of equal size wait for them.
        for kind, host in sorted(self._waiting, key=lambda place: place[0] == "check"):
            queue = self._waiting[kind, host]
            most = BATCH_DIGESTS if kind in ("ends", "whole") else BATCH_ADDRESSES if host else BATCH_FILES
            if queue and (batch := self._batch(kind, host, queue, min(most, share), now)) is not None:
                return batch
        return None

    def _batch(self, kind: Kind, host: str, queue: deque[Entry], files: int, now: float) -> Batch | None:
        most = self._rates.available(host, now)
        entries: list[Entry] = []
        size = requests = 0.0
        for entry in queue:
            more = _weight(kind, entry)
            cost = _requests(kind, entry)
            too_many = most is not None and requests + cost > most
            if entries and (len(entries) == files or size + more > BATCH_BYTES or too_many):
                break
            entries.append(entry)
            size, requests = size + more, requests + cost
        if not self._has_room(int(size)) or not self._rates.take(host, requests, now):
            return None
        for _ in entries:
            queue.popleft()
        if not queue:
            del self._waiting[kind, host]
        return self._given(Batch(kind, tuple(entries), int(size)))

    def _has_room(self, size: int) -> bool:
        return not self._out or self._bytes_out + size <= self._most_bytes

    def _given(self, batch: Batch) -> Batch:
        self._out[batch] = None
        self._bytes_out += batch.size
        return batch

    @property
    def bytes_out(self) -> int:
        """Bytes of the files in progress."""
        return self._bytes_out

    def wait(self, now: float) -> float | None:
        """Seconds until a host may be asked again; None if nothing waits for that."""
        times = [
            self._rates.wait(host, _requests(kind, queue[0]), now)
            for (kind, host), queue in self._waiting.items()
            if queue
        ]
        return min((time for time in times if time > 0), default=None)

    def done(self, batch: Batch, answer: Any, now: float = 0.0) -> None:
        """Take the result of a task: records, one record, digests, or identities.

        :param now: seconds of the clock of `next`
        """
        self._back(batch)
        if batch.kind == "look":
            for entry, found in zip(batch.entries, answer, strict=True):
                self._seen(entry, found)
            return
        if batch.kind in ("ends", "whole"):
            for entry, digest in zip(batch.entries, answer, strict=True):
                self._same.digested(entry, digest, batch.kind == "whole")
            return
        self._take(
            [each for each in map(partial(self._asked_again, now=now), batch.entries, answer) if each is not None]
        )

    def _asked_again(self, entry: Entry, record: Record | None, now: float) -> Record | None:
        """Take a record; None if the server asked to wait: then no worker asks it before that time, and the file waits."""
        seconds = 0.0 if record is None else wait_asked(record)
        if seconds is None:
            return record
        if record is not None:
            waits = self._waits[entry.url] = self._waits.get(entry.url, 0) + 1
            most = (self._options.remote or Policy()).wait
            if waits > WAITS or seconds > most:
                return record
            self._rates.pause(entry.host, now + max(seconds, 2.0 ** (waits - 1)))
        self._queue("check", entry)
        return None

    def died(self, batch: Batch, words: str) -> None:
        """A worker died during this batch, or during another batch that it had."""
        self._back(batch)
        if batch.kind == "look":
            for entry in batch.entries:
                self._seen(entry, None)
        elif batch.kind in ("ends", "whole"):
            for entry in batch.entries:
                self._same.digested(entry, None, batch.kind == "whole")
        elif batch.kind == "check":
            self._retries.append(batch._replace(kind="alone"))
        elif batch.attempt < ATTEMPTS:
            self._retries.append(batch._replace(attempt=batch.attempt + 1))
        elif len(batch.entries) > 1:
            for entry in batch.entries:
                self._retries.append(Batch("alone", (entry,), _weight("alone", entry)))
        else:
            self._take([died(batch.entries[0], self._key, f"worker died: {quote(words, bare=True)}")])

    def _seen(self, entry: Entry, found: tuple[str, int | None] | None) -> None:
        """Take the etag that a server gives now: the earlier record is valid, or the file is checked."""
        place = self._remembered.pop(entry.url)
        record = self._log[place]
        if found is None or found[0] != record["etag"] or found[1] not in (None, record["size"]):
            self._judge(entry)
            return
        self.reused += 1
        self.recorded += 1
        self._ready.append(place)

    def _back(self, batch: Batch) -> None:
        del self._out[batch]
        self._bytes_out -= batch.size

    def _take(self, records: list[Record]) -> None:
        """Store records, and the records of files with equal content."""
        known: list[Record] = []
        for record in records:
            known.append(record)
            for follower in self._followers.pop(record["url"], ()):
                if len(known) >= BATCH_FILES:  # any number of files may have the same content
                    self._keep(known)
                    known = []
                known.append(_copied(record, follower))
        self._keep(known)

    def _keep(self, records: list[Record]) -> None:
        self._log.append(records)
        self._ready.extend(records)
        self.recorded += len(records)
        for record in records:
            if record["sha256"] is not None:
                self._done[record["url"]] = key_of(record["url"], record["etag"], self._key)


def _may_be_reused(entry: Entry) -> bool:
    """Whether a record of the same key is valid: a path without an etag could not be read, and is checked again."""
    return not entry.problem and not (entry.etag is None and entry.is_local)


def _holds(record: Record, entry: Entry) -> bool:
    """Whether a record is about this content of the file, and not about a server that did not give it."""
    if any(finding["code"] in _NOT_GIVEN for finding in record["report"]["findings"]):
        return False
    if entry.has_no_identity:
        return record["etag"] is not None
    return entry.is_local or entry.sha256 is None or record["sha256"] in (None, entry.sha256)


def _requests(kind: Kind, entry: Entry) -> float:
    """The requests that a task makes to the host of a file."""
    return 1 if kind == "look" else entry.requests


def _weight(kind: Kind, entry: Entry) -> int:
    """Most bytes that a task reads of a file."""
    if kind == "look":
        return 1
    size = UNKNOWN_SIZE if entry.size is None else entry.size
    return 1 << 17 if kind == "ends" and not is_short(size) else size


def _copied(record: Record, entry: Entry) -> Record:
    """The record of a file with the same content as another one."""
    path = quote(entry.url, limit=4096, bare=True)
    report = {**record["report"], "path": path, "uri": uri_of(entry.url)}
    own = {"url": entry.url, "etag": entry.etag, "size": entry.size, "sha256": entry.sha256, "seconds": 0.0}
    return {**record, **own, "same_as": record["url"], "report": report}
