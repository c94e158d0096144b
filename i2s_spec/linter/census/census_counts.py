"""This module counts the records of a run: verdicts and findings by code, producer, layout, architecture and runtime.

The records come from an untrusted file: names are bounded in number and length, and counted as text.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping
from typing import Any, Final

from i2s_spec.errors import quote

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
        """Count one record, in the form that `results_log.latest` gives."""
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
        """The counts as plain data, the most frequent first."""
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
    """The verdict on a file: the worst one of `VERDICTS` that applies."""
    summary = report["summary"]
    if report["bugs"]:
        return "failed"
    if not summary.get("readable") and "skipped" not in report:
        return "unreadable"
    if summary["errors"] or not report["ok"]:
        return "errors"
    return "warnings" if summary["warnings"] else "ok"


def by_count(counts: Counter[str]) -> list[tuple[str, int]]:
    """Names with their counts, the most frequent first, then by name."""
    return sorted(counts.items(), key=lambda item: (-item[1], item[0]))


def ordered(names: Mapping[str, Counter[str]]) -> list[tuple[str, Counter[str]]]:
    """Names with their counters, those with the most files first."""
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
    """A count or a time; 0 for anything else."""
    is_number = isinstance(value, int | float) and not isinstance(value, bool)
    return value if is_number and 0 <= value < 1 << 60 else 0
