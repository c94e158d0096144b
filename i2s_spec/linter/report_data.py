"""The results of a lint: a `Report`, the same as plain data, and the totals of a run.

Only plain data leave the process; every text from the file is escaped in them. Besides the report there are its exit
code and verdict in words, its findings as tables of pandas and pyarrow (`to_pandas`, `to_arrow`), and the next step
after findings (`repair_step`, `other_command`).
"""

from __future__ import annotations

import os
import shlex
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from importlib import import_module
from typing import TYPE_CHECKING, Any, Final, NamedTuple

from i2s_spec.errors import EXIT_BUG, EXIT_FINDINGS, EXIT_INPUT, EXIT_REMOTE, ROWS, counted, line, quote, table
from i2s_spec.gguf.source import is_address
from i2s_spec.linter.analysis.coverage import CONTENTS
from i2s_spec.linter.rule import Finding, Fix, Severity
from i2s_spec.linter.rules import REGISTRY
from i2s_spec.schema import faults

if TYPE_CHECKING:
    from i2s_spec.gguf.split_set import SplitSet

#: Characters that an address keeps: all that are printable, without those that no URI has.
_IN_ADDRESSES: Final = "".join(c for c in map(chr, range(0x21, 0x7F)) if c not in '"<>\\^`{|}')

#: A report as plain data, in the form that `lint --format json` gives for each file.
FileReport = Mapping[str, Any]


class Suppressed(NamedTuple):
    """Findings of one rule that are suppressed, with the reason that was given for it."""

    code: str
    findings: int
    reason: str


class Bug(NamedTuple):
    """A bug in i2s-spec that a file triggered: the code of the rule or the part of the program, and the exception."""

    where: str
    message: str


class Sample(NamedTuple):
    """What a report does not cover because only a part of each tensor was read: rules that skip tensors that were not
    read whole, and rules that judged only the sample. Both are empty if the sample was the whole file.

    `scales` exists if a server gives only one range per request: how many scales were read, and of how many.
    """

    not_evaluated: tuple[str, ...]
    in_part: tuple[str, ...]
    scales: tuple[int, int] | None = None


class Remote(NamedTuple):
    """The requests and bytes that a file took from its server; `version` is its ETag or commit, None if the server
    gives none.

    `etag` is the server's ETag of the content, which on a hub differs from the commit; None if there is none.
    """

    version: str | None
    requests: int
    bytes: int
    etag: str | None = None


class Split(NamedTuple):
    """Which part of a split model a file is, from 1, and of how many.

    `complete` says whether the whole set was checked with it: it is the first part, the others are beside it in their
    order, and their headers were read. `tensors` is then the number of tensors of all parts, else that of the file.
    `unread` says what was not looked at, in words.
    """

    part: int
    of: int
    complete: bool
    tensors: int
    unread: str


def split_of(whole: SplitSet) -> Split:
    """Return what a report states of the model that a file is a part of."""
    assert whole.number is not None
    return Split(whole.number + 1, whole.count, whole.complete, sum(1 for _ in whole.tensors), whole.unread)


@dataclass(frozen=True, repr=False)
class Report:
    """The result of linting one file: its findings in the order of the bytes, at most `FINDINGS_PER_RULE` of each rule.

    `elided` counts the findings beyond that number, by code. `size` is the size of the file in bytes, or None if it
    could not be opened. `runtimes` has the verdicts on loading and computing, and `details` the additional data of a
    report format; both exist only if they were requested. `unchecked` says which parts of the file no rule examined.
    `sampled` exists if a sample was requested, `remote` if the file is on a server, and `split` if it is a part of a
    split model. A report is immutable; `replaced` makes a changed copy.
    """

    path: str
    findings: tuple[Finding, ...]
    elided: dict[str, int]
    size: int | None = None
    suppressed: tuple[Suppressed, ...] = ()
    bugs: tuple[Bug, ...] = ()
    runtimes: tuple[Any, ...] = ()
    details: Any = None
    sampled: Sample | None = None
    remote: Remote | None = None
    unchecked: tuple[str, ...] = ()
    split: Split | None = None

    @property
    def ok(self) -> bool:
        """Whether there is no error, and no rule failed."""
        return self.count(Severity.ERROR) == 0 and not self.bugs

    @property
    def readable(self) -> bool:
        """Whether the input could be read and is a GGUF file."""
        return not any(finding.code in faults.NO_INPUT for finding in self.findings)

    def count(self, severity: Severity) -> int:
        """Count the findings of this severity, including those in `elided`."""
        level = {finding.code: finding.severity for finding in self.findings}
        remaining = sum(finding.severity is severity for finding in self.findings)
        return remaining + sum(n for code, n in self.elided.items() if level[code] is severity)

    def exit_code(self, fail_on: Severity | None = Severity.ERROR) -> int:
        """Return the exit code of a run over this file alone; see `exit_code`."""
        remote = any(finding.code in faults.REMOTE for finding in self.findings)
        return _exit_code(bool(self.bugs), self.readable, remote, self.count, fail_on)

    def replaced(self, **changes: Any) -> Report:
        """Return a copy with other values for some fields."""
        return replace(self, **changes)

    def __repr__(self) -> str:
        return line("Report", self.path, self.words)

    def __str__(self) -> str:
        """Return the report in a line, and its first findings in one each."""
        lines = [repr(self), *(f"  {finding!r}" for finding in self.findings[:ROWS])]
        left = len(self.findings) + sum(self.elided.values()) - ROWS
        return "\n".join([*lines, *([f"  and {left:,} more"] if left > 0 else [])])

    def _repr_html_(self) -> str:
        """Return the report for a notebook: the counts, and the first findings."""
        rows = ((each.code, each.severity.value, each.span, each.message) for each in self.findings)
        total = len(self.findings) + sum(self.elided.values())
        facts = [("internal error", f"{bug.where}: {bug.message}") for bug in self.bugs]
        return table(f"{self.path}: {self.words}", facts, ("code", "severity", "bytes", "message"), rows, total)

    @property
    def words(self) -> str:
        """The result in a few words: `ok`, or the counts by severity."""
        if not self.readable:
            return "not a readable GGUF file"
        counts = [(self.count(level), level.value) for level in Severity]
        found = [counted(number, word) for number, word in counts if number]
        hidden = sum(each.findings for each in self.suppressed)
        found += [f"{hidden:,} suppressed"] if hidden else []
        found += [counted(len(self.bugs), "internal error")] if self.bugs else []
        unread = "" if self.split is None else self.split.unread
        good = _IN_PART if examined_in_part(self.unchecked, unread) else _OK
        return ", ".join([*([good] if self.ok else []), *found])

    def to_pandas(self) -> Any:
        """Return the findings as a `pandas.DataFrame`, a row for each; columns as `to_arrow`.

        :raises ImportError: where pandas is not installed
        """

        return to_pandas(self.findings)

    def to_arrow(self) -> Any:
        """Return the findings as a `pyarrow.Table`, a row for each.

        Columns: code, slug, severity, message, start, stop (of the bytes), path (of the field), clause, fix. Text from the
        file is escaped in them.

        :raises ImportError: where pyarrow is not installed
        """

        return to_arrow(self.findings)

    def as_dict(self) -> dict[str, Any]:
        """Return the report as plain data, in the form that `lint --format json` gives for each file."""
        more: dict[str, Any] = {}
        if self.sampled is not None:
            more["sampled"] = True
            more["not_evaluated"] = list(self.sampled.not_evaluated)
            more["evaluated_in_part"] = list(self.sampled.in_part)
            if self.sampled.scales is not None:
                more["scales"] = dict(zip(("read", "of"), self.sampled.scales, strict=True))
        if self.remote is not None:
            names = {"version": self.remote.version, "etag": self.remote.etag}
            shown = {key: None if name is None else quote(name, 512, bare=True) for key, name in names.items()}
            more["remote"] = {**self.remote._asdict(), **shown}
        if self.split is not None:
            more["split"] = self.split._asdict()
        if self.runtimes:
            more["runtimes"] = [verdict.as_dict() for verdict in self.runtimes]
        if self.details is not None:
            more["details"] = self.details
        return {
            "path": quote(self.path, limit=4096, bare=True),
            "uri": uri_of(self.path),
            "size": self.size,
            "ok": self.ok,
            "findings": [finding_dict(finding) for finding in self.findings],
            "excused": [suppressed._asdict() for suppressed in self.suppressed],
            "bugs": [bug._asdict() for bug in self.bugs],
            "unchecked": list(self.unchecked),
            **more,
            "summary": {
                "readable": self.readable,
                **{f"{severity.value}s": self.count(severity) for severity in Severity},
                "elided": dict(sorted(self.elided.items())),
            },
        }


def finding_dict(finding: Finding) -> dict[str, Any]:
    """Return a finding as plain data; text and bytes from the file are escaped."""
    return {
        "code": finding.code,
        "slug": finding.rule.slug,
        "severity": finding.severity.value,
        "message": finding.message,
        "span": finding.span.as_dict(),
        "got": _plain(finding.got),
        "want": _plain(finding.want),
        "clause": finding.rule.clause,
        "fix": finding.fix.value,
        "bytes": {"start": excerpt.start, "hex": excerpt.data.hex()} if (excerpt := finding.excerpt) else None,
    }


def _plain(value: Any) -> Any:
    """Return a value of a finding in a form that JSON can hold."""
    if value is None or isinstance(value, bool | int):
        return value
    if isinstance(value, float):
        return value if value - value == 0 else str(value)  # JSON has no NaN and no infinities
    if isinstance(value, str | bytes):
        return quote(value, bare=True)
    if isinstance(value, list | tuple):
        return [_plain(item) for item in value]
    return str(value)


def uri_of(path: str) -> str:
    """Return a path as a URI reference (RFC 3986), without loss: bytes that are not unreserved characters become
    `%NN`.
    """
    from urllib.parse import quote as quote_uri  # imports `ipaddress`, and few reports have addresses

    if is_address(path):
        return quote_uri(path, safe=_IN_ADDRESSES, errors="surrogateescape")
    if path.startswith("/"):
        return "file://" + quote_uri(os.fsencode(path))
    return quote_uri(os.fsencode(without_dot(path)))


def without_dot(path: str) -> str:
    """Return a relative path without a leading `./`, as code hosts name the files of a repository.

    >>> without_dot("./models/a.gguf"), without_dot("../a.gguf"), without_dot("./")
    ('models/a.gguf', '../a.gguf', './')
    """
    while path.startswith("./") and path.strip("./"):
        path = path[2:].lstrip("/")
    return path


def exit_code(report: FileReport, fail_on: Severity | None = Severity.ERROR) -> int:
    """4 if i2s-spec failed on a file, 5 if a server did not give it, 3 if there was nothing to check, 1 if a finding is
    at or above `fail_on`, else 0; a skipped file counts as a file without findings."""
    summary = report["summary"]
    readable = summary["readable"] or "skipped" in report
    remote = any(finding["code"] in faults.REMOTE for finding in report["findings"])
    return _exit_code(bool(report["bugs"]), readable, remote, lambda level: int(summary[f"{level.value}s"]), fail_on)


def _exit_code(
    bugs: bool, readable: bool, remote: bool, count: Callable[[Severity], int], fail_on: Severity | None
) -> int:
    if bugs:
        return EXIT_BUG
    if not readable:
        return EXIT_REMOTE if remote else EXIT_INPUT
    failed = fail_on is not None and any(count(level) for level in Severity if level.rank >= fail_on.rank)
    return EXIT_FINDINGS if failed else 0


def ok_words(report: FileReport) -> str:
    """Return the words for a file without errors: `ok`, or a phrase that says so if only a part was read or
    examined.
    """
    if "sampled" in report:
        return "sampled, no error in what was read"
    return _IN_PART if _only_in_part(report) else _OK


#: The words for files without errors.
_OK: Final = "ok"
_IN_PART: Final = "no error in what was checked"


def examined_in_part(unchecked: Sequence[str], unread: str = "") -> bool:
    """Whether something was not examined besides the contents of tensors, which a run on headers leaves out, and what is
    `unread` of other parts."""
    return any(each not in (CONTENTS, unread) for each in unchecked)


def _only_in_part(report: FileReport) -> bool:
    return examined_in_part(report.get("unchecked", ()), report["split"]["unread"] if "split" in report else "")


def severity_words(counts: Mapping[str, int] | Totals) -> str:
    """Return how many findings there are by severity, in words: `2 errors, 1 note`; empty if there are none."""
    return ", ".join(counted(count, severity) for severity in Severity if (count := counts[f"{severity}s"]))


def ok_of_totals(totals: Totals) -> str:
    """Return how many files are without errors, and how many of these were not checked whole: `3 ok (1 of them checked in
    part)`."""
    sound = "without errors in a sample" if totals["sampled"] else "ok"
    part = f" ({totals['in part']:,} of them checked in part)" if totals["in part"] else ""
    return f"{totals['ok']:,} {sound}{part}"


def elided_words(report: FileReport, code: Callable[[str], str] = str) -> Iterator[tuple[str, str]]:
    """Yield each code that has more findings than the report lists, and a sentence that says how many.

    :param code: how a code is written in the sentence
    """
    for each, count in report["summary"]["elided"].items():
        yield each, f"{counted(count, 'more finding')} of {code(each)}"


def suppressed_words(
    report: FileReport, code: Callable[[str], str] = str, reason: Callable[[str], str] = str
) -> Iterator[str]:
    """Yield a sentence for each code with findings that are suppressed.

    :param code: how a code is written in the sentence
    :param reason: how the reason is written, which is the user's own text
    """
    for each in report["excused"]:
        words = f"{counted(each['findings'], 'finding')} of {code(each['code'])} suppressed"
        yield f"{words}: {reason(each['reason'])}"


#: Exit codes from the worst to the best: our bug, unreadable, not given by a server, findings, nothing.
WORST = (EXIT_BUG, EXIT_INPUT, EXIT_REMOTE, EXIT_FINDINGS, 0)


class Totals:
    """Counts over the files of a run; their size does not grow with the number of files."""

    def __init__(
        self, fail_on: Severity | None = Severity.ERROR, configuration: tuple[tuple[str, tuple[str, ...]], ...] = ()
    ) -> None:
        self._fail_on = fail_on
        #: Each configuration file that changes what is found or what fails the run, with the keys that do it.
        self.configuration = configuration
        self._counts = {
            "files": 0,
            "ok": 0,
            "unreadable": 0,
            **{f"{severity.value}s": 0 for severity in Severity},
            "excused": 0,
            "baseline": 0,
            "skipped": 0,
            "bugs": 0,
        }
        self._sampled = self._in_part = 0
        self.codes: dict[str, int] = {}
        self.exit_code = 0

    def add(self, report: FileReport) -> None:
        """Count one file."""
        counts, summary = self._counts, report["summary"]
        counts["files"] += 1
        good = bool(report["ok"]) and "skipped" not in report  # nothing is known of a skipped file
        counts["ok"] += good
        counts["unreadable"] += not summary["readable"]
        for severity in Severity:
            counts[f"{severity.value}s"] += summary[f"{severity.value}s"]
        counts["excused"] += sum(suppressed["findings"] for suppressed in report["excused"])
        counts["baseline"] += summary.get("baseline", 0)
        counts["skipped"] += "skipped" in report
        counts["bugs"] += len(report["bugs"])
        self._sampled += "sampled" in report
        self._in_part += good and _only_in_part(report)
        for finding in report["findings"]:
            self.codes[finding["code"]] = self.codes.get(finding["code"], 0) + 1
        for code, elided in summary["elided"].items():
            self.codes[code] = self.codes.get(code, 0) + elided
        self.fail(exit_code(report, self._fail_on))

    def fail(self, code: int) -> None:
        """Count an exit code; the worst one is kept."""
        self.exit_code = min(self.exit_code, code, key=WORST.index)

    def __getitem__(self, name: str) -> int:
        more = {"sampled": self._sampled, "in part": self._in_part}
        return more[name] if name in more else self._counts[name]

    @property
    def remarks(self) -> list[str]:
        """What configuration files set, as sentences."""
        return [f"{place} sets {', '.join(keys)}" for place, keys in self.configuration]

    def as_dict(self) -> dict[str, Any]:
        """Return the counts by name, in a fixed order; and the configuration files that change what is found, if
        there are any.
        """
        files = [{"file": place, "sets": list(keys)} for place, keys in self.configuration]
        sampled = {"sampled": self._sampled} if self._sampled else {}
        return {**self._counts, **sampled, **({"configuration": files} if files else {})}


# --- tables of pandas and pyarrow ------------------------------------------------------------------------------------
# Both libraries are optional.

#: The text columns, and the columns of byte positions, in their order.
COLUMNS: Final = ("code", "slug", "severity", "message", "start", "stop", "path", "clause", "fix")
NUMBERS: Final = ("start", "stop")


def columns(findings: Sequence[Finding]) -> dict[str, list[Any]]:
    """Return the findings by column; text from the file is escaped."""
    rows = [
        (
            each.code, each.rule.slug, each.severity.value, each.message, each.span.start, each.span.stop,
            quote(each.span.path, bare=True), each.rule.clause, each.fix.value,
        )
        for each in findings
    ]  # fmt: skip
    return {name: [row[i] for row in rows] for i, name in enumerate(COLUMNS)}


def to_pandas(findings: Sequence[Finding]) -> Any:
    """Return a DataFrame: texts are objects, `start` and `stop` int64, even if there are no findings.

    :raises ImportError: where pandas is not installed
    """
    frame = _required("pandas").DataFrame(columns(findings), columns=list(COLUMNS))
    return frame.astype(dict.fromkeys(NUMBERS, "int64"))


def to_arrow(findings: Sequence[Finding]) -> Any:
    """Return a table: texts are strings, `start` and `stop` int64, even if there are no findings.

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


# --- the next step after findings ------------------------------------------------------------------------------------
# Which findings `i2s fix` repairs, with which option, and what to type.

#: Characters of a value that needs no quotes on a command line.
_PLAIN: Final = frozenset("ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789/._-")
#: Characters that the escaped form of a path changes, so that it cannot be used on a command line.
_ESCAPED: Final = frozenset({"\\", "\x7f", *map(chr, range(32))})


class RepairStep(NamedTuple):
    """A command that shows how findings can be repaired, without changing anything, and how many of them."""

    command: str
    findings: int


def repair_option(code: str, fix: str) -> str | None:
    """Return the option of `i2s fix` that a repair needs; empty if it needs none, None if there is no repair.

    :param fix: how a finding of the rule `code` is repaired in its file
    """
    if fix == Fix.NONE or code not in REGISTRY:
        return None
    return REGISTRY[code].fix_with or ("" if fix == Fix.SAFE else "--unsafe")


def repair_words(option: str, some: int = 0) -> str:
    """Return the note after a finding: `repairable`, `repairable with --unsafe`; after several, with the number of
    `some`.
    """
    words = f"repairable with {option}" if option else "repairable"
    return f"{some:,} {words}" if some else words


def repairs_of(findings: Iterable[tuple[str, str]], elided: Mapping[str, int]) -> dict[str, dict[str, int]]:
    """Count the findings of each code that each option of `i2s fix` repairs.

    Findings that are not listed are counted as the listed ones of their code, if these are all repaired alike.

    :param findings: code and repair of each listed finding
    """
    counts: dict[str, dict[str | None, int]] = {}
    for code, fix in findings:
        options = counts.setdefault(code, {})
        option = repair_option(code, fix)
        options[option] = options.get(option, 0) + 1
    for code, count in elided.items():
        if len(options := counts.get(code, {})) == 1:
            options[next(iter(options))] += count
    return {code: {o: n for o, n in options.items() if o is not None} for code, options in counts.items()}


def repair_step(repairs: Iterable[tuple[str, int]], path: str = "FILE") -> RepairStep | None:
    """Return what to type to repair findings; None if none of them has a repair.

    Repairs without an option come first, then those with the option that the first finding with a repair needs.

    :param repairs: options, each with a number of findings, the worst first
    :param path: one word for a shell
    """
    by_option: dict[str, int] = {}
    for option, count in repairs:
        by_option[option] = by_option.get(option, 0) + count
    if not by_option:
        return None
    option = "" if "" in by_option else next(iter(by_option))
    return RepairStep(f"i2s fix {path}{' ' if option else ''}{option} --dry-run", by_option[option])


def other_command(code: str, got: Any, path: str = "FILE") -> str:
    """Return the command that repairs a finding that `i2s fix` does not repair; empty if its rule declares none.

    :param got: the value that the finding reports, such as the name of a dialect
    :param path: one word for a shell
    """
    rule = REGISTRY.get(code)
    return rule.command.format(path=path, got=got) if rule is not None and _is_plain(str(got)) else ""


def _is_plain(text: str) -> bool:
    """Whether a word has no characters that a shell interprets."""
    return bool(text) and _PLAIN.issuperset(text)


def on_command_line(path: str) -> str:
    """Return an escaped path (`errors.quote`, bare) as one word for a shell; FILE if escaping changed the path."""
    if not path or not _ESCAPED.isdisjoint(path):
        return "FILE"
    if _is_plain(path) and not path.startswith("-"):
        return path
    return shlex.quote("./" + path if path.startswith("-") else path)
