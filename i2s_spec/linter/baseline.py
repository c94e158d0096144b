"""The baseline of a run: known findings, which are not reported again.

A run with a baseline reports only new findings. An entry is a file, a code and the path of a field, not a byte
position, so it stays valid when bytes move. An entry whose finding no longer occurs fails the run until it is removed:
the baseline only gets shorter, and never hides a finding that comes back.

    {"schema_version": 1, "files": {"old/model.gguf": {"P101": {"tensor_infos[3].offset": 1}}}}

Paths are relative to the folder of the baseline. Entries of files that a run does not check, and of rules that do not
apply in it, are left unchanged.
"""

from __future__ import annotations

import json
import os
from collections.abc import Collection, Iterator, Mapping
from typing import Any

from i2s_spec.errors import SettingError, counted, quote
from i2s_spec.gguf.source import read_regular
from i2s_spec.linter.report_data import FileReport
from i2s_spec.linter.selection import seen_from
from i2s_spec.schema.faults import NO_INPUT

SCHEMA_VERSION = 1

#: The field name for findings that a report counts but does not list.
ELIDED = "..."

#: Findings of one file: code, field, count. No baseline is larger.
LARGEST = 1 << 27

Entries = dict[str, dict[str, int]]


class Baseline:
    """The entries of a baseline, and how a run uses them.

    :param path: the path of the baseline
    :param rules: codes of the active rules; entries of other rules are not expected to occur
    """

    def __init__(self, path: str, rules: Collection[str], files: Mapping[str, Entries] | None = None) -> None:
        self.path = path
        self._rules = rules
        self._files = dict(files or {})
        self._seen: dict[str, Entries] = {}
        self._stale: list[str] = []
        #: Files of the run whose findings are never recorded: they cannot be read, or are not GGUF.
        self.unreadable = 0

    @classmethod
    def read(cls, path: str, rules: Collection[str]) -> Baseline:
        """Read a baseline.

        :raises SettingError: where the file cannot be read or is not a baseline
        """
        try:
            document = json.loads(read_regular(path, LARGEST))
        except OSError as error:
            reason = error.strerror or type(error).__name__
            raise SettingError(f"{_shown(path)}: {reason}; --write-baseline makes a baseline") from None
        except (ValueError, RecursionError) as error:
            raise SettingError(f"{_shown(path)}: this is not a baseline: {quote(str(error), bare=True)}") from None
        if not _is_baseline(document):
            raise SettingError(f"{_shown(path)}: this is not a baseline of schema_version {SCHEMA_VERSION}")
        return cls(path, rules, document["files"])

    def apply(self, path: str, report: FileReport, write: bool = False) -> FileReport:
        """Return a report without the findings in the baseline; they are counted in `summary.baseline`.

        :param write: whether the baseline is to be written: then record all findings and remove none
        """
        occurring = _entries(report)
        known = self._files.get(key := self._key(path), {})
        self._seen[key] = occurring
        if any(finding["code"] in NO_INPUT for finding in report["findings"]):
            self.unreadable += 1
        if write:
            return report
        left = {code: dict(fields) for code, fields in known.items()}
        findings = [finding for finding in report["findings"] if not _taken(left, finding["code"], _field(finding))]
        elided = {
            code: rest
            for code, count in report["summary"]["elided"].items()
            if (rest := max(0, count - left.get(code, {}).get(ELIDED, 0)))
        }
        if report["summary"]["readable"] and not report["bugs"] and "skipped" not in report:
            self._expect(key, known, occurring)
        return _without(report, findings, elided)

    def _expect(self, key: str, known: Entries, occurring: Entries) -> None:
        """Record the entries of a file that no longer occur."""
        for code, fields in known.items():
            if code not in self._rules:
                continue
            for field, count in fields.items():
                now = occurring.get(code, {}).get(field, 0)
                if now < count:
                    times = f" {counted(count - now, 'time')} fewer" if now else ""
                    self._stale.append(f"{_shown(key)}: {code} at {quote(field, bare=True)} no longer occurs{times}")

    def stale(self) -> Iterator[str]:
        """Yield entries that no longer occur, in words; including those of missing files."""
        yield from self._stale
        folder = os.path.dirname(self.path)
        for key in self._files:
            if key not in self._seen and not os.path.lexists(os.path.join(folder, key)):
                yield f"{_shown(key)}: the file no longer exists"

    def write(self) -> int:
        """Write the findings of this run, and return the number of entries; those of files that it did not check stay.

        :raises OSError: where it cannot be written
        """
        from i2s_spec.gguf.atomic_file import OutputFile

        folder = os.path.dirname(self.path)
        remaining = {key: known for key, known in self._files.items() if os.path.lexists(os.path.join(folder, key))}
        files = {}
        for key, entries in {**remaining, **self._seen}.items():
            silent = {code: fields for code, fields in remaining.get(key, {}).items() if code not in self._rules}
            if merged := {**silent, **entries}:
                files[key] = merged
        document = {"schema_version": SCHEMA_VERSION, "files": files}
        text = json.dumps(document, indent=2, sort_keys=True, ensure_ascii=True) + "\n"
        with OutputFile(self.path, force=True) as output:
            output.write(text.encode("ascii"))
        return sum(len(fields) for entries in files.values() for fields in entries.values())

    def _key(self, path: str) -> str:
        return seen_from(os.path.dirname(self.path), path)


def _field(finding: Mapping[str, Any]) -> str:
    field: str = finding["span"]["path"]
    return field


def _entries(report: FileReport) -> Entries:
    """Return the findings of a report as entries, without findings that say that there was nothing to check."""
    entries: Entries = {}
    for finding in report["findings"]:
        if finding["code"] not in NO_INPUT:
            fields = entries.setdefault(finding["code"], {})
            fields[_field(finding)] = fields.get(_field(finding), 0) + 1
    for code, count in report["summary"]["elided"].items():
        entries[code][ELIDED] = count
    return entries


def _taken(left: Entries, code: str, field: str) -> bool:
    """Whether an entry is left for a finding; if so, use it up."""
    if code in NO_INPUT or left.get(code, {}).get(field, 0) < 1:
        return False
    left[code][field] -= 1
    return True


def _without(report: FileReport, findings: list[Mapping[str, Any]], elided: dict[str, int]) -> dict[str, Any]:
    """Return a report with only these findings left, its counts adjusted."""
    before, summary = report["summary"], dict(report["summary"])
    level = {finding["code"]: finding["severity"] for finding in report["findings"]}
    for name in ("error", "warning", "note"):
        summary[f"{name}s"] = sum(finding["severity"] == name for finding in findings) + sum(
            count for code, count in elided.items() if level[code] == name
        )
    summary["elided"] = elided
    summary["baseline"] = sum(before[name] - summary[name] for name in ("errors", "warnings", "notes"))
    ok = summary["errors"] == 0 and not report["bugs"]
    return {**report, "ok": ok, "findings": findings, "summary": summary}


def _is_baseline(document: Any) -> bool:
    if not isinstance(document, dict) or document.get("schema_version") != SCHEMA_VERSION:
        return False
    files = document.get("files")
    return isinstance(files, dict) and all(
        isinstance(entries, dict)
        and all(
            isinstance(fields, dict) and all(type(count) is int and count > 0 for count in fields.values())
            for fields in entries.values()
        )
        for entries in files.values()
    )


def _shown(path: str) -> str:
    return quote(path, limit=4096, bare=True)
