"""This module defines the text reports: each finding with its bytes, or one line for each; then the verdict and its
basis, the number of findings of each code, which of them `i2s fix` repairs, and what to type next.

    model.gguf:0x1a40..0x1a44: error: I104 tail-missing: the file ends inside the tail of ...
      1a40  12 34 56 78 ...

The place is a byte range of the file that can be given to `i2s dump`.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from i2s_spec.errors import counted
from i2s_spec.linter.analysis.conditions import runtimes_requested
from i2s_spec.linter.report import Format
from i2s_spec.linter.report.examined import examined, sentence
from i2s_spec.linter.report_data import FileReport, Totals, ok_words
from i2s_spec.linter.rule import REGISTRY, Severity

#: Columns of a dump of 16 bytes with an address of up to eight digits.
WIDE = 80

#: The number of findings above which repeated ones are counted instead of listed.
MANY = 8

#: The terminal's escape codes for colors.
_SGR = {"red": 31, "green": 32, "yellow": 33, "cyan": 36}
_COLOURS = {"error": "red", "warning": "yellow", "note": "cyan"}


class Text(Format):
    """Lines of text; colors only on a terminal. The first finding of each code is shown with its bytes. If findings say
    the same of many tensors, the first ones are listed and the others counted.

    With `quiet`, only findings, each with its bytes, and verdicts are written; files without findings are not mentioned.
    """

    details = staticmethod(examined)  # type: ignore[assignment]  # a function of a module, found on the class
    bytes_shown = True
    plain_text = True

    def __init__(self, colour: bool = False, quiet: bool = False, fail_on: Severity | None = Severity.ERROR) -> None:
        super().__init__(colour, quiet, fail_on)
        self._brief = quiet
        self._paths: list[str] = []  # kept for the first files; it only matters whether there is more than one
        self._codes: dict[str, int] = {}
        self._ranks: dict[str, int] = {}
        self._command = ""

    def _file(self, file_report: FileReport) -> str:
        self._paths[1:] = [file_report["path"]]
        return "".join(line + "\n" for line in self._lines(file_report))

    def _lines(self, file_report: FileReport) -> Iterator[str]:
        path, silent, shown = file_report["path"], True, set()
        if file_report["findings"]:
            from i2s_spec.linter.next_step import repair_words
            from i2s_spec.linter.report.proof import proof
        unlisted, listed = self._unlisted(file_report["findings"]), dict[str, int]()
        for place, finding in enumerate(file_report["findings"]):
            silent, code = False, finding["code"]
            if not self._brief and _in_table(finding, file_report):
                continue
            if place in unlisted:
                listed[code] = listed.get(code, 0) + 1
                continue
            mark = "" if self._brief else repair_words(code)
            yield self._finding(path, finding) + (self._dim(f" [{mark}]") if mark else "")
            if self.bytes_shown and (self._quiet or code not in shown):
                yield from (self._dim("  " + line) for line in proof(finding, file_report["size"], self._row()))
            shown.add(code)
        for code, count in listed.items():
            yield f"{path}: {counted(count, 'more finding')} of {code} like these; --format concise lists them"
        for code, count in file_report["summary"]["elided"].items():
            yield f"{path}: {counted(count, 'more finding')} of {code}"
        for bug in file_report["bugs"]:
            advice = "this is a bug in i2s-spec; run again with I2S_DEBUG=1 for the traceback"
            yield f"{path}: {self._styled('internal error:', 'red')} {bug['where']}: {bug['message']} ({advice})"
            silent = False
        for suppressed in () if self._quiet else file_report["excused"]:
            count = suppressed["findings"]
            yield f"{path}: {counted(count, 'finding')} of {suppressed['code']} suppressed: {suppressed['reason']}"
        if file_report.get("runtimes"):
            from i2s_spec.linter.report.runtime_table import text_table

            yield from text_table(file_report, self.columns)
        if not silent or not self._quiet:
            if "sampled" in file_report or "remote" in file_report:
                from i2s_spec.linter.report.reading_words import reading_words

                yield from (f"{path}: {words}" for words in reading_words(file_report))
            yield f"{path}: {self._verdict(file_report)}{'' if self._brief else self._basis(file_report)}"
        if not self._brief:
            yield from self._summary(file_report)

    def _unlisted(self, findings: Sequence[Mapping[str, Any]]) -> set[int]:
        """The positions of findings that repeat for another tensor what was said before."""
        if self._brief or len(findings) < MANY:
            return set()
        from i2s_spec.linter.report.repeated import repeated

        return repeated(findings)

    def _row(self) -> int:
        """Bytes in a row of a dump: 16, or 8 if a terminal is too narrow for 16."""
        return 16 if self.columns is None or self.columns >= WIDE else 8

    def _basis(self, file_report: FileReport) -> str:
        """The basis of a verdict, and what it leaves out."""
        known = file_report["summary"].get("baseline")
        words = f"; {known:,} more in the baseline" if known else ""
        if "skipped" not in file_report and "rules" in (about := file_report.get("details") or {}):
            words = f": {sentence(about)}{words}"
        return words

    def _summary(self, file_report: FileReport) -> Iterator[str]:
        """The number of findings of each code, if there is more than one code."""
        if not file_report["findings"]:
            return
        from i2s_spec.linter.next_step import other_command, repair_words

        elided = file_report["summary"]["elided"]
        first: dict[str, Mapping[str, Any]] = {}
        counts: dict[str, int] = {}
        for finding in file_report["findings"]:
            if _in_table(finding, file_report):
                continue
            code = finding["code"]
            first.setdefault(code, finding)
            self._command = self._command or other_command(code, finding["got"], "{path}")
            counts[code] = counts.get(code, elided.get(code, 0)) + 1
        for code in sorted(counts, key=lambda code: (-Severity(first[code]["severity"]).rank, -counts[code], code)):
            severity, count, mark = first[code]["severity"], counts[code], repair_words(code)
            self._codes[code] = self._codes.get(code, 0) + count
            self._ranks[code] = Severity(severity).rank
            if sum(counts.values()) > 1:
                words = self._styled(counted(count, severity), _COLOURS[severity])
                yield f"  {words}: {code} {first[code]['slug']}" + (f", {mark}" if mark else "")

    def end(self, totals: Totals) -> str:
        configuration = "".join(f"configuration: {remark}\n" for remark in totals.remarks)
        return configuration + self._sums(totals) + ("" if self._brief else self._next())

    def _next(self) -> str:
        """What to type next, in one line; empty if there was no finding."""
        if not self._codes:
            return ""
        from i2s_spec.linter.next_step import on_command_line, repair_step

        path = on_command_line(self._paths[0]) if len(self._paths) == 1 else "FILE"
        worst_first = sorted(self._codes.items(), key=lambda item: -self._ranks[item[0]])
        explain = f"i2s explain {worst_first[0][0]}"
        step = repair_step(worst_first, path)
        if self._command:
            return f"next: {self._command.replace('{path}', path)}, {explain}\n"
        if step is None:
            return f"next: {explain}\n"
        count = sum(self._codes.values())
        some = f" (has repairs for {step.findings:,} of {counted(count, 'finding')})" if count > 1 else ""
        return f"next: {step.command}{some}, {explain}\n"

    def _sums(self, totals: Totals) -> str:
        if totals["files"] < 2 or self._quiet:
            return ""
        sound = "without errors in a sample" if totals["sampled"] else "ok"
        words = [f"{totals['ok'] - totals['skipped']:,} {sound}", f"{totals['files'] - totals['ok']:,} not"]
        words += [f"{totals['skipped']:,} skipped"] if totals["skipped"] else []
        counts = _counts(totals)
        return f"{counted(totals['files'], 'file')}: {', '.join(words)}" + (f"; {counts}" if counts else "") + "\n"

    def _finding(self, path: str, finding: Mapping[str, Any]) -> str:
        span = finding["span"]
        place = f"{path}:0x{span['start']:x}..0x{span['stop']:x}:" if span["stop"] else f"{path}:"
        severity = self._styled(finding["severity"] + ":", _COLOURS[finding["severity"]])
        return f"{place} {severity} {self._styled(finding['code'] + ' ' + finding['slug'] + ':')} {finding['message']}"

    def _verdict(self, file_report: FileReport) -> str:
        if "skipped" in file_report:
            return f"skipped: {file_report['skipped']}"
        counts = _counts(file_report["summary"])
        if not self._brief and (listed := sum(_in_table(finding, file_report) for finding in file_report["findings"])):
            counts += f", {listed:,} in the table"
        if file_report["bugs"]:
            return self._styled("not checked to the end" + (f" ({counts})" if counts else ""), "red")
        if file_report["ok"]:
            return self._styled(ok_words(file_report), "green") + (f" ({counts})" if counts else "")
        return self._styled(counts, "red")

    def _styled(self, text: str, colour: str | None = None) -> str:
        if not self._colour:
            return text
        begin = "" if colour is None else f"\x1b[{_SGR[colour]}m"
        return f"{begin}\x1b[1m{text}\x1b[0m"

    def _dim(self, text: str) -> str:
        return f"\x1b[2m{text}\x1b[0m" if self._colour else text


class Concise(Text):
    """A line for each finding, and the verdict; nothing else."""

    details = None  # type: ignore[assignment]
    bytes_shown = False

    def __init__(self, colour: bool = False, quiet: bool = False, fail_on: Severity | None = Severity.ERROR) -> None:
        super().__init__(colour, quiet, fail_on)
        self._brief = True


def _in_table(finding: Mapping[str, Any], file_report: FileReport) -> bool:
    """Whether the table of runtimes repeats a finding."""
    if finding["severity"] != "note" or not file_report.get("runtimes"):
        return False
    rule = REGISTRY.get(finding["code"])
    return rule is not None and rule.when is runtimes_requested


def _counts(counts: Mapping[str, int] | Totals) -> str:
    """How many findings there are, by severity: `2 errors, 1 note`."""
    return ", ".join(counted(count, severity) for severity in Severity if (count := counts[f"{severity}s"]))
