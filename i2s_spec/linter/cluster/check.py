"""The check of one entry of a manifest: `check` returns a record, both plain data. Every engine maps it.

It can be pickled, keeps no state between calls, and never raises for a file; Dask, Ray, Spark and process pools can use
it directly:

    check({"url": "/models/a.gguf"}, profile="security")

`check_in_child` does the same in a child, which may die.
`check_batch` and `check_alone` are the tasks of an engine. `options_key` is the key for which a record is valid, and
`SameContent` finds files of equal bytes, so that each content is checked once.
"""

from __future__ import annotations

import hashlib
import json
import os
import pickle
import re
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import fields, replace
from functools import lru_cache, partial
from hashlib import sha256
from time import perf_counter
from typing import TYPE_CHECKING, Any, Final, NamedTuple

from i2s_spec._version import __version__
from i2s_spec.compare import Reference
from i2s_spec.compare.header_record import HeaderRecord
from i2s_spec.errors import quote
from i2s_spec.gguf.source import CHUNK, open_regular
from i2s_spec.linter.cluster.manifest import Entry, WithFacts, entry_of
from i2s_spec.linter.engine import open_reference
from i2s_spec.linter.options import Options, either
from i2s_spec.linter.paths import Folders, Input, failed, report_on
from i2s_spec.schema import faults

if TYPE_CHECKING:
    from i2s_spec.compare.known_weights import ReferenceWeights

#: One checked file as plain data: the entry, the key of the options, facts about the file's origin, and the report.
Record = dict[str, Any]

#: Bytes at each end of a file that its short digest covers.
ENDS: Final = 1 << 16

#: How often a file is checked whose process died: others may have killed the first one.
TRIES: Final = 2

#: Longest wait, in seconds, that a worker of a cluster makes itself if a server asks for it.
SHORT_WAIT: Final = 1


def check(
    entry: str | Mapping[str, Any], options: Options | None = None, *, folders: Folders | None = None, **keywords: Any
) -> Record:
    """Check one file; the result is always a record, even if the check fails.

    :param entry: an address, or a line of a manifest: `url`, and `etag`, `size`, `sha256` if they are known
    :param options: which rules apply, and how files are read
    :param folders: checks folders of safetensors, such as `lint_folder` of `i2s_spec.checkpoints`
    :param keywords: the fields of `Options`, in place of `options`
    :returns: `url`, `etag`, `size`, `sha256` of the entry (if an address comes without etag and size, those that the
    server gave), `rules` (the key of the options), `facts` (architecture, producer, layout; None if nothing could be
    read), `seconds`, and `report` as `lint --format json` gives it
    :raises ValueError: for an entry without a url, and for options that do not exist
    """
    options = either(options, keywords)
    return _record(entry_of(entry), _work(pickle.dumps(options, pickle.HIGHEST_PROTOCOL)), None, folders)


class _Work(NamedTuple):
    """Options, the same options with facts about the origin in the details, and the key of both."""

    options: Options
    with_facts: Options
    key: str


@lru_cache(maxsize=8)
def _work(options: bytes) -> _Work:
    """Return the results of pickled options, computed once for all files of a process."""
    found: Options = pickle.loads(options)
    return _Work(found, replace(found, details=WithFacts(found.details)), options_key(found))


def _record(
    entry: Entry, work: _Work, weights: ReferenceWeights | None = None, folders: Folders | None = None
) -> Record:
    started = perf_counter()
    if entry.checkpoint:  # a checkpoint has no facts about a GGUF file
        report = report_on(Input(entry.url, entry.problem, True), work.options, None, weights, folders)
    else:
        report = report_on(Input(entry.url, entry.problem), work.with_facts, None, weights)
    facts = None
    if "details" in report:
        found = report["details"]
        facts = found["facts"]
        report = {name: value for name, value in report.items() if name != "details"}
        if work.options.details is not None:
            report["details"] = found["details"]
    return record_of(_named(entry, report), work.key, report, facts, perf_counter() - started)


def _named(entry: Entry, report: Mapping[str, Any]) -> Entry:
    """Return an entry with the identity that its server gave while the file was read, if the manifest had none."""
    if not entry.has_no_identity or "remote" not in report:
        return entry
    remote = report["remote"]
    return entry._replace(etag=remote["version" if entry.checkpoint else "etag"], size=report["size"])


def record_of(
    entry: Entry, key: str, report: Mapping[str, Any], facts: Mapping[str, Any] | None = None, seconds: float = 0
) -> Record:
    """Return a record, made from its parts."""
    return {
        "schema_version": RECORD_VERSION,
        "url": entry.url,
        "etag": entry.etag,
        "size": entry.size,
        "sha256": entry.sha256,
        "rules": key,
        "seconds": round(seconds, 6),
        "facts": facts,
        "report": report,
    }


def died(entry: Entry, key: str, words: str) -> Record:
    """Return the record of a file on which processes died: a result like others, with an internal error in its
    report.
    """
    return record_of(entry, key, failed(entry.url, words))


class WrongVersion(RuntimeError):
    """A worker has other rules than the process that started the run."""


def check_batch(
    entries: Sequence[Entry], options: bytes, key: str, folders: Folders | None = None
) -> list[Record | None]:
    """Check files one after another: this is one task of an engine.

    If a server asks for a longer wait than `SHORT_WAIT`, the other files of its host are skipped: the coordinator makes
    all workers wait for that host, and this worker continues with other hosts.

    :param options: the options, pickled: a worker reads them only once
    :param key: the key of the options in the process that started the run
    :param folders: as for `check`
    :returns: records; None for a file that was skipped because its host had asked to wait
    :raises WrongVersion: if the options have another key here: this worker has another version of the package
    """
    # Set before NumPy is imported: threads of matrix products would compete with those of the other workers.
    os.environ.setdefault("OPENBLAS_NUM_THREADS", "1")
    work = _checked(options, key)
    if not all(entry.is_local for entry in entries):
        work = _impatient(work)
    found: list[Record | None] = []
    limited: set[str] = set()
    with open_reference(work.options) as weights:
        for entry in entries:
            found.append(None if entry.host in limited else _record(entry, work, weights, folders))
            if found[-1] is not None and wait_asked(found[-1]) is not None:
                limited.add(entry.host)
    return found


def wait_asked(record: Record) -> float | None:
    """Return the seconds that a server asked to wait, if it refused the file for that reason."""
    for finding in record["report"]["findings"]:
        if finding["code"] == faults.REMOTE_RATE_LIMITED.code:
            seconds = finding.get("got")
            return float(seconds) if isinstance(seconds, int | float) else 0.0
    return None


def _impatient(work: _Work) -> _Work:
    """Return the same options; for files on servers, with short waits."""
    from i2s_spec.remote.policy import Policy

    policy = work.options.remote or Policy()
    short = policy._replace(wait=min(SHORT_WAIT, policy.wait))
    return work._replace(with_facts=replace(work.with_facts, remote=short))


def _checked(options: bytes, key: str) -> _Work:
    work = _work(options)
    if work.key != key:
        raise WrongVersion(
            f"a worker has other rules: it has i2s-spec {__version__}; install the same version everywhere"
        )
    return work


def check_in_child(
    entries: Iterable[str | Mapping[str, Any]],
    options: Options | None = None,
    *,
    folders: Folders | None = None,
    **keywords: Any,
) -> Iterator[Record]:
    """Check files one after another in a child of this process, so that a file that kills its reader costs only itself.

    This is for engines whose workers must not die: a file whose child dies is checked again in a new one, `TRIES` times
    in all; then its record has that as an internal error. The children end with this process.

    :param entries: what `check` takes
    :param options: as for `check`, as are the other parameters
    :returns: the record of each entry, in order, as soon as it is known
    """
    options = either(options, keywords)
    raw = pickle.dumps(options, pickle.HIGHEST_PROTOCOL)
    return _in_child(map(entry_of, entries), raw, _work(raw).key, folders)


def check_alone(entries: Sequence[Entry], options: bytes, key: str, folders: Folders | None = None) -> list[Record]:
    """Check files in a child, as `check_in_child` does: this is one task of an engine."""
    _checked(options, key)
    return list(_in_child(entries, options, key, folders))


def _in_child(entries: Iterable[Entry], options: bytes, key: str, folders: Folders | None) -> Iterator[Record]:
    from i2s_spec.linter.process_pool import Died, in_order

    function = partial(_one, options=options, key=key, folders=folders)
    for entry, answer in in_order(function, entries, 1):
        last = answer
        for _ in range(TRIES - 1):
            if isinstance(last, Died):
                [(_, last)] = in_order(function, [entry], 1)
        yield died(entry, key, f"worker died: {last}") if isinstance(last, Died) else last


def _one(entry: Entry, options: bytes, key: str, folders: Folders | None) -> Record:
    record = check_batch([entry], options, key, folders)[0]
    assert record is not None  # it is the first file
    return record


def identities(entries: Sequence[Entry], options: bytes, key: str) -> list[tuple[str, int | None] | None]:
    """Return the current etags and sizes of files on servers; None if a server does not give them.

    For a checkpoint on a hub, the etag is the commit, and the size is not known.

    :param options: as for `check_batch`; they say which networks may be reached, and how much may be read
    """
    from i2s_spec.remote.policy import using

    with using(_checked(options, key).options.remote):
        return [_identity(entry) for entry in entries]


def _identity(entry: Entry) -> tuple[str, int | None] | None:
    try:
        if entry.checkpoint:
            from i2s_spec.remote.open import pinned_folder

            return pinned_folder(entry.url).commit, None
        from i2s_spec.remote.open import identity_of

        found = identity_of(entry.url)
    except Exception:  # the check of the file reports the reason
        return None
    return None if found is None else (quote(found.etag, 512, bare=True), found.size)


def digests(entries: Sequence[Entry], whole: bool) -> list[str | None]:
    """Return digests of files: of all bytes, or of the two ends of a longer file; None for a file that cannot be read."""
    return [_digest(entry, whole) for entry in entries]


def is_short(size: int) -> bool:
    """Whether the short digest covers all bytes of a file of this size."""
    return size <= 2 * ENDS


def _digest(entry: Entry, whole: bool) -> str | None:
    digest = hashlib.sha256()
    try:
        with open_regular(entry.url) as stream:
            size = os.fstat(stream.fileno()).st_size
            if whole or is_short(size):
                step = min(CHUNK, size + 1)  # a larger buffer would be allocated and freed for every file
                while chunk := stream.read(step):
                    digest.update(chunk)
                return digest.hexdigest()
            digest.update(stream.read(ENDS))
            stream.seek(size - ENDS)
            digest.update(stream.read(ENDS))
            return f"ends:{digest.hexdigest()}"
    except (OSError, ValueError):
        return None


# --- the key of rules and options ------------------------------------------------------------------------------------
# A record is valid only for its key, which holds the version of the package, and every field of `Options` that changes a
# report, the rules in force among them.

#: Version of the form of a record.
RECORD_VERSION: Final = 1


def options_key(options: Options) -> str:
    """Return sixteen hexadecimal digits that are the same for options that give the same reports."""
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
    """Return the value of an option as JSON can hold it; a function by its name."""
    if isinstance(value, Reference):
        return _reference(value)
    if isinstance(value, HeaderRecord):
        return value.digest
    return getattr(value, "__qualname__", None) if callable(value) else value


def _reference(reference: Reference) -> list[Any]:
    """Return the reference by its path, its dialects and the state of its files."""
    origin = str(reference.origin)
    try:
        status = os.stat(origin)
        state = [status.st_size, status.st_mtime_ns]
    except (OSError, ValueError):
        state = []
    return [origin, reference.dialect, reference.expected, *state]


def portable(options: Options) -> Options:
    """Return the same options for a process in another folder: paths of suppressions and of the reference are
    absolute.
    """
    suppressions = tuple(each._replace(base=os.path.abspath(each.base)) for each in options.suppressions)
    reference = options.reference
    if reference is not None and isinstance(reference.origin, str | os.PathLike):
        reference = reference._replace(origin=os.path.abspath(reference.origin))
    return replace(options, suppressions=suppressions, reference=reference)


# --- files of equal bytes --------------------------------------------------------------------------------------------
# Only files of equal size can be equal: the others are never read for this. For files of equal size, the ends are
# digested, and all bytes only if the ends are the same. A part of a split model is always checked: its findings depend on
# the files beside it.

_PART: Final = re.compile(r".*-\d{5}-of-\d{5}\.gguf", re.DOTALL)


class _Group:
    """Files of one size, until the digest of the ends of each one is known."""

    def __init__(self) -> None:
        self.waiting = 0
        self.known: list[tuple[Entry, str]] = []


class SameContent:
    """Sorts entries: which to digest, which to check, and which have the content of another entry.

    :param check: called with an entry to check
    :param digest: called with an entry to digest, and whether to digest all its bytes
    :param follow: called with an entry and the first entry of the same content
    :param context: what a report depends on besides the content, such as suppressions by name
    """

    def __init__(
        self,
        entries: Iterable[Entry],
        check: Callable[[Entry], None],
        digest: Callable[[Entry, bool], None],
        follow: Callable[[Entry, str], None],
        context: Callable[[Entry], str] = lambda entry: "",
    ) -> None:
        self._check, self._digest, self._follow, self._context = check, digest, follow, context
        entries = list(entries)
        sizes = Counter(entry.size for entry in entries if entry.is_local and not _is_part(entry))
        known = {entry.size for entry in entries if entry.sha256 is not None}
        self._groups: dict[int, _Group] = {}
        self._first: dict[tuple[str, str], str] = {}
        for entry in entries:
            if entry.sha256 is not None and not _is_part(entry):
                self._met(entry, entry.sha256)
            elif entry.size is None or not _is_comparable(entry) or sizes[entry.size] == 1:
                self._check(entry)
            elif is_short(entry.size) or entry.size in known:
                self._digest(entry, True)
            else:
                self._groups.setdefault(entry.size, _Group()).waiting += 1
                self._digest(entry, False)

    def _met(self, entry: Entry, sha256: str) -> None:
        """Check the first entry of a content; the others get its result."""
        key = sha256, self._context(entry)
        first = self._first.setdefault(key, entry.url)
        named = entry._replace(sha256=sha256)
        if first == entry.url:
            self._check(named)
        else:
            self._follow(named, first)

    def digested(self, entry: Entry, digest: str | None, whole: bool) -> None:
        """Take a digest; None for a file that could not be read, which is then checked by itself."""
        if digest is None:
            self._check(entry)
        elif whole:
            self._met(entry, digest)
        if whole or entry.size is None:
            return
        group = self._groups[entry.size]
        group.waiting -= 1
        if digest is not None:
            group.known.append((entry, digest))
        if group.waiting:
            return
        del self._groups[entry.size]
        ends = Counter(each for _, each in group.known)
        for known, each in group.known:
            if ends[each] > 1:
                self._digest(known, True)
            else:
                self._check(known)


def _is_part(entry: Entry) -> bool:
    return _PART.fullmatch(os.path.basename(entry.url)) is not None


def _is_comparable(entry: Entry) -> bool:
    """Whether this file may be compared by its bytes: a file of this machine whose state could be read."""
    return entry.is_local and not entry.problem and not entry.checkpoint and not _is_part(entry)
