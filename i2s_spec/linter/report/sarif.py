"""The report in SARIF 2.1.0, the form in which code hosts and dashboards take findings.

A binary file has no lines: a place is a region of bytes, with the bytes in it, and a logical location that names the
field. Hosts that require a line get line 1. Results come first, so that they can be written as files are checked; what
they refer to (rules, files, the end of the run) follows.

Offsets are numbers of any size, as the standard has it. From 2^31 on, programs that keep them in 32 bits cannot read the
log: Microsoft's Multitool 5.7.0 then says that its analysis completed, and has checked nothing.

SARIF 2.1.0, sections 3.14 run, 3.20 invocation, 3.27 result, 3.30 region, 3.33 logical location.
"""

from __future__ import annotations

import json
import re
from base64 import b64encode
from collections.abc import Mapping
from typing import Any

from i2s_spec._version import SITE, tool
from i2s_spec.draw.text import with_exact
from i2s_spec.linter.report import Format
from i2s_spec.linter.report.markdown import inert
from i2s_spec.linter.report.text import reading_words
from i2s_spec.linter.report_data import FileReport, Totals, elided_words
from i2s_spec.linter.rule import Fix, Rule, Severity
from i2s_spec.linter.rules import REGISTRY

SCHEMA = "https://docs.oasis-open.org/sarif/sarif/v2.1.0/errata01/os/schemas/sarif-schema-2.1.0.json"

#: The name of the fingerprint that identifies a result when the file changes (3.27.17).
FINGERPRINT = "i2sFinding/v1"

#: The texts that hosts require in a descriptor.
_DESCRIPTIONS = ("shortDescription", "fullDescription", "help")

#: The notifications of a run: identifier, name, description.
UNREADABLE, BUG, SKIPPED, ELIDED = "unreadable", "internal-error", "skipped", "more-findings"
READ, CONFIGURED = "what-was-read", "configured"
NOTIFICATIONS = (
    (UNREADABLE, "InputUnreadable", "An input could not be read, or is not a GGUF file."),
    (BUG, "InternalError", "i2s-spec itself failed on a file."),
    (SKIPPED, "FileSkipped", "A file was not checked, on request."),
    (ELIDED, "MoreFindings", "There are more findings of a rule than the report lists."),
    (READ, "WhatWasRead", "A part of the file was read, or it was read from a server."),
    (CONFIGURED, "ConfigurationFound", "A configuration file changes which findings are reported or fail a run."),
)


class Sarif(Format):
    """One log with one run."""

    def __init__(self, colour: bool = False, quiet: bool = False, fail_on: Severity | None = Severity.ERROR) -> None:
        super().__init__(colour, quiet, fail_on)
        self._rules: dict[str, int] = {}
        self._artifacts: dict[str, dict[str, Any]] = {}
        self._numbers: dict[str, int] = {}
        self._notifications: list[dict[str, Any]] = []
        self._first = True

    def begin(self) -> str:
        return f'{{"$schema":"{SCHEMA}","version":"2.1.0","runs":[{{"columnKind":"unicodeCodePoints","results":['

    def _file(self, file_report: FileReport) -> str:
        uri = file_report["uri"]
        location = {"uri": uri, "index": self._numbers.setdefault(uri, len(self._numbers))}
        self._artifacts.setdefault(uri, self._artifact(file_report))
        self._notify(file_report, location)
        text = ""
        seen: dict[tuple[str, str], int] = {}
        for finding in file_report["findings"]:
            key = finding["code"], finding["span"]["path"]
            number = seen[key] = seen.get(key, 0) + 1
            text += ("\n" if self._first else ",\n") + _dumps(self._result(finding, location, number))
            self._first = False
        return text

    def end(self, totals: Totals) -> str:
        invocation: dict[str, Any] = {
            "executionSuccessful": totals.exit_code < 3,
            "exitCode": totals.exit_code,
            "toolExecutionNotifications": self._notifications,
        }
        if totals.remarks:
            remarks = [
                {"descriptor": {"id": CONFIGURED}, "level": "note", "message": {"text": remark}}
                for remark in totals.remarks
            ]
            invocation["toolConfigurationNotifications"] = remarks
        driver = {
            **tool(),
            "fullName": f"i2s-spec {tool()['version']}: the linter of I2_S and its container",
            "semanticVersion": semantic_version(tool()["version"]),
            **({"informationUri": SITE} if SITE else {}),
            "rules": [_rule(REGISTRY[code]) for code in self._rules],
            "notifications": [
                {"id": name, "name": title, **{text: {"text": words} for text in _DESCRIPTIONS}}
                for name, title, words in NOTIFICATIONS
            ],
        }
        rest = {
            "tool": {"driver": driver},
            "artifacts": list(self._artifacts.values()),
            "invocations": [invocation],
        }
        return "\n]," + _dumps(rest)[1:-1] + "}]}\n"

    def _artifact(self, file_report: FileReport) -> dict[str, Any]:
        known = {} if file_report["size"] is None else {"length": file_report["size"]}
        return {
            "location": {"uri": file_report["uri"]},
            **known,
            "roles": ["analysisTarget"],
            "mimeType": "application/octet-stream",
            "properties": {
                "path": file_report["path"],
                **{k: file_report[k] for k in ("excused", "runtimes", "remote") if file_report.get(k)},
            },
        }

    def _notify(self, file_report: FileReport, location: Mapping[str, Any]) -> None:
        """Add notifications about a file that are not findings."""
        if not file_report["summary"]["readable"] and "skipped" not in file_report:
            words = file_report["findings"][0]["message"] if file_report["findings"] else "not readable"
            self._notification(UNREADABLE, "error", words, location)
        for bug in file_report["bugs"]:
            self._notification(BUG, "error", f"{bug['where']}: {bug['message']}", location)
        if "skipped" in file_report:
            self._notification(SKIPPED, "note", file_report["skipped"], location)
        for words in reading_words(file_report):
            self._notification(READ, "note", words, location)
        for _, words in elided_words(file_report):
            self._notification(ELIDED, "note", words, location)

    def _notification(self, name: str, level: str, words: str, location: Mapping[str, Any]) -> None:
        self._notifications.append(
            {
                "descriptor": {"id": name},
                "level": level,
                "message": {"text": words},
                "locations": [{"physicalLocation": {"artifactLocation": location}}],
            }
        )

    def _result(self, finding: Mapping[str, Any], location: Mapping[str, Any], number: int) -> dict[str, Any]:
        code, span = finding["code"], finding["span"]
        physical = {"artifactLocation": location, "region": _region(finding)}
        place: dict[str, Any] = {"physicalLocation": physical}
        if span["path"]:
            place["logicalLocations"] = [
                {"name": span["path"].rpartition(".")[2], "fullyQualifiedName": span["path"], "kind": "element"}
            ]
        return {
            "ruleId": code,
            "ruleIndex": self._rules.setdefault(code, len(self._rules)),
            "level": finding["severity"],
            "kind": "fail",
            "message": {"text": finding["message"]},
            "locations": [place],
            "partialFingerprints": {FINGERPRINT: f"{code}:{span['path']}:{number}"},
            "properties": {
                **with_exact({name: finding[name] for name in ("slug", "got", "want", "clause", "fix")}),
                **{name: text for name, text in with_exact(span).items() if name.endswith("_exact")},
            },
        }


def _region(finding: Mapping[str, Any]) -> dict[str, Any]:
    """Return the bytes of a span: their position, and as many of them as the report holds."""
    start, stop = finding["span"]["start"], finding["span"]["stop"]
    region: dict[str, Any] = {"startLine": 1, "byteOffset": start, "byteLength": stop - start}
    if finding["bytes"] is not None:
        first = finding["bytes"]["start"]
        if data := bytes.fromhex(finding["bytes"]["hex"])[start - first : stop - first]:
            region["snippet"] = {"binary": b64encode(data).decode("ascii")}
    return region


def _rule(rule: Rule) -> dict[str, Any]:
    """Return a rule as a reporting descriptor (section 3.49)."""
    sections = rule.sections
    clause = f"Clause {rule.clause} of the specification."
    repair = {
        Fix.SAFE: "`i2s fix` repairs it.",
        Fix.UNSAFE: "`i2s fix --unsafe` repairs it; review that.",
        Fix.NONE: "",
    }
    more = " ".join(
        filter(None, (repair[rule.fix], f"More, with a file before and after: `i2s explain {rule.code} --example`."))
    )
    tags = [rule.family, f"clause-{rule.clause}"]
    if rule.cwe is not None:
        tags.append(f"external/cwe/cwe-{rule.cwe}")
    return {
        "id": rule.code,
        "name": "".join(word.capitalize() for word in rule.slug.split("-")),
        "shortDescription": {"text": rule.title},
        "fullDescription": {"text": sections.get("Why", rule.title)},
        **({"helpUri": f"{SITE}rules/{rule.code}/"} if SITE else {}),
        "help": {
            "text": "\n\n".join([rule.title, *(f"{name}: {words}" for name, words in sections.items()), clause, more]),
            "markdown": "\n\n".join(
                [inert(rule.title), *(f"**{name}:** {inert(words)}" for name, words in sections.items()), clause, more]
            ),
        },
        "defaultConfiguration": {"level": rule.severity.value},
        "properties": {
            "tags": tags,
            "precision": "very-high" if rule.severity.rank else "high",
            "problem.severity": {"error": "error", "warning": "warning", "note": "recommendation"}[rule.severity.value],
            "provenance": list(rule.provenance),
        },
    }


def semantic_version(version: str) -> str:
    """Return a version of Python's packages as Semantic Versioning 2.0 writes it: `0.2.0.dev0` is `0.2.0-dev.0`
    (3.19.12).
    """
    release, name, number, local = re.fullmatch(  # type: ignore[union-attr]
        r"(\d+(?:\.\d+)*)(?:\.?(a|b|rc|dev|post)(\d+))?(?:\+(.*))?", version
    ).groups()
    numbers = [*release.split("."), "0", "0"][:3]
    return ".".join(numbers) + (f"-{name}.{number}" if name else "") + (f"+{local}" if local else "")


def _dumps(value: Any) -> str:
    return json.dumps(value, ensure_ascii=True, allow_nan=False, separators=(",", ":"))
