"""The text reports: each finding with its bytes (`Text`), one line for each (`Concise`), or counts (`Statistics`).

    model.gguf:0x1a40..0x1a44: error: I104 tail-missing: the file ends inside the tail of ...
      1a40  12 34 56 78 ...

The place is a byte range of the file that can be given to `i2s dump`. Then follow the verdict and its basis, the number
of findings of each code, which of them `i2s fix` repairs, and what to type next.

The parts come first, and other formats use them, too: the bytes that prove a finding, which parts of a file were read,
which findings only repeat others, the table of runtimes, and what was examined.
"""

from __future__ import annotations

import re
import textwrap
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Any, Final

from i2s_spec.draw.text import digits_for, rows, size_words, visible
from i2s_spec.errors import counted
from i2s_spec.gguf.split_set import part_name
from i2s_spec.linter.analysis.conditions import runtimes_requested
from i2s_spec.linter.analysis.context import LintContext, split_set
from i2s_spec.linter.analysis.coverage import CONTENTS, unchecked
from i2s_spec.linter.analysis.layout import query_order, weight_layout
from i2s_spec.linter.report import Format
from i2s_spec.linter.report_data import (
    FileReport,
    Totals,
    elided_words,
    ok_of_totals,
    ok_words,
    on_command_line,
    other_command,
    repair_option,
    repair_step,
    repair_words,
    repairs_of,
    severity_words,
    split_of,
    suppressed_words,
)
from i2s_spec.linter.rule import Severity
from i2s_spec.linter.rules import REGISTRY
from i2s_spec.schema import kinds
from i2s_spec.schema.types import I2_S, RETIRED

if TYPE_CHECKING:
    from typing import TypeVar

    T = TypeVar("T")

    from i2s_spec.inspect.survey import Survey


# --- the bytes that prove a finding ----------------------------------------------------------------------------------
# Rows of a hex dump, with carets under the bytes of the finding's span.

#: The marks under a byte of the finding, and between two such bytes.
CARETS = "^^"
BETWEEN = "~"


def proof(finding: Mapping[str, Any], size: int | None, width: int = 16) -> Iterator[str]:
    """Yield the lines of a finding's excerpt, in printable ASCII; empty if the report holds no bytes.

    :param finding: a finding as plain data
    :param size: size of the file, which decides the width of addresses
    :param width: bytes in a row
    """
    excerpt = finding["bytes"]
    if excerpt is None:
        return
    data = bytes.fromhex(excerpt["hex"])
    start, stop = finding["span"]["start"], finding["span"]["stop"]
    digits = digits_for(size or excerpt["start"] + len(data))
    for row in rows(data, excerpt["start"], width):
        yield f"{row.address:0{digits}x}  {row.hex}  |{row.ascii}|"
        first, last = max(start - row.address, row.first), min(max(stop, start + 1) - row.address, width)
        if first < last:
            yield (" " * (digits + 2 + 3 * first) + BETWEEN.join([CARETS] * (last - first))).rstrip()
        elif start == stop == row.address + width:  # the span is empty and begins at the end of the row
            yield " " * (digits + 2 + 3 * width) + CARETS
    hidden = stop - (excerpt["start"] + len(data))
    if hidden > 0:
        yield " " * (digits + 2) + f"... {counted(hidden, 'more byte')}"


# --- which parts of a file were read ---------------------------------------------------------------------------------


def reading_words(report: FileReport) -> list[str]:
    """Say which parts of a file were read and examined, in sentences; empty for a local file of which everything was."""
    words = _read_words(report)
    left = report.get("unchecked")
    return [*words, f"not checked: {'; '.join(left)}"] if left else words


def _read_words(report: FileReport) -> list[str]:
    words = []
    if "sampled" in report:
        skipped, partly = ", ".join(report["not_evaluated"]), len(report["evaluated_in_part"])
        part = "at most a part of each tensor was read; "
        if "scales" in report:
            part = (
                f"{report['scales']['read']:,} of {counted(report['scales']['of'], 'scale')} and "
                f"the codes before them were read, "
                "since the server gives one range at a time; --remote-limit sample=N allows more requests; "
            )
        clauses = [f"not evaluated: {skipped}" if skipped else "every rule was evaluated"]
        if partly:
            clauses.append(f"{counted(partly, 'rule')} on payloads saw only the sample")
        elif not skipped:
            clauses.append("no tensor is larger than its sample")
        words.append(f"sampled: {part}{'; '.join(clauses)}")
    if "remote" in report:
        remote = report["remote"]
        version = f"version {remote['version']}" if remote["version"] else "the server gives no version"
        words.append(
            f"from a server: {counted(remote['requests'], 'request')}, {counted(remote['bytes'], 'byte')}; {version}"
        )
    return words


# --- repeated findings -----------------------------------------------------------------------------------------------
# They differ only in the tensor: the report lists only the first of them.

#: How many of them are listed, and the smallest rest that is counted instead of listed.
LISTED: Final = 5
LEFT: Final = 3

#: Quoted names of tensors, and numbers.
_NAME: Final = re.compile(r"'[^']*'")
_NUMBER: Final = re.compile(r"\d[\d,.]*")


def repeated(findings: Sequence[Mapping[str, Any]]) -> set[int]:
    """Return the positions of findings that need not be listed: the rule said the same of five tensors before.

    Two messages are the same if they differ only in tensor names and numbers.
    """
    places: dict[tuple[str, str], list[int]] = {}
    for place, finding in enumerate(findings):
        if finding["span"]["path"].startswith("data["):
            message = _NUMBER.sub("0", _NAME.sub("''", finding["message"], count=1))
            places.setdefault((finding["code"], message), []).append(place)
    left = (same[LISTED:] for same in places.values())
    return {place for rest in left if len(rest) >= LEFT for place in rest}


# --- the table of runtimes -------------------------------------------------------------------------------------------
# One row for each runtime, as text or Markdown.

#: Fewest columns for the reasons beside the other cells, and for a paragraph.
NARROWEST = 40


def table_of(report: FileReport) -> list[list[str]]:
    """Return the rows of the table, the first with the names of the columns; no rows if runtimes were not requested."""
    if not report.get("runtimes"):
        return []
    from i2s_spec.linter.runtimes.verdicts import table

    return table(report["runtimes"])


def text_table(report: FileReport, available: int | None = None) -> Iterator[str]:
    """Yield the table as lines of text with aligned columns; on a narrow terminal, one paragraph for each runtime.

    :param available: columns of the terminal; None if lines may have any length
    """
    rows = table_of(report)
    if not rows:
        return
    widths = [max(len(cell) for cell in column) for column in zip(*rows, strict=True)]
    before = 2 + sum(width + 2 for width in widths[:-1])
    if available is not None and available < before + NARROWEST:
        yield from _paragraphs(rows[1:], max(available, NARROWEST))
        return
    for row in rows:
        first = "  " + "".join(f"{cell:<{width}}  " for cell, width in zip(row[:-1], widths[:-1], strict=True))
        if available is None:
            yield (first + row[-1]).rstrip()
        else:
            yield from textwrap.wrap(row[-1], available, initial_indent=first, subsequent_indent=" " * before) or [
                first
            ]


def _paragraphs(rows: list[list[str]], available: int) -> Iterator[str]:
    for title, loads, computes, where, why in rows:
        words = f"loads: {loads}" + (f", computes: {computes}" if computes != "-" else "")
        words += f" ({where})" if where else ""
        yield from textwrap.wrap(f"{title}: {words}", available, initial_indent="  ", subsequent_indent="    ")
        yield from textwrap.wrap(why, available, initial_indent="      ", subsequent_indent="      ")


def markdown_table(report: FileReport, escaped: Callable[[str], str]) -> Iterator[str]:
    """Yield the table as lines of Markdown."""
    for number, row in enumerate(table_of(report)):
        yield "| " + " | ".join(escaped(cell) for cell in row) + " |"
        if number == 0:
            yield "|---" * len(row) + "|"


# --- the basis of a verdict ------------------------------------------------------------------------------------------
# What the file is, how many rules were checked, how much was read.

#: Most tensor types that are named; tensors of further types are counted together.
NAMED: Final = 3


def examined(subject: LintContext) -> dict[str, Any] | None:
    """Return what was examined, as plain data; nothing more is read for it.

    :returns: `architecture`, `kind` (what the file is; None if its header cannot be read to its end), `version`,
    `byte_order`, `size`; `tensors` and `types`, the number of tensors, in all and of each type, the most frequent first;
    `split`, as a `Split`, of a part of a split model, and then `tensors` and `types` are those of all parts if it is
    complete; `rules`, how many were checked, and `ignored`, how many of the profile were not; `reading`, how much of the
    weights was requested, and `read`, how many bytes of the file were read, None if the header ends too early; `layout`,
    whether the weights decide it: `decided`, `undecided`, or None if no rule examined it; `row_order`, the same of the
    order of the rows of queries and keys that are stored as floats; `unchecked`, what no rule examined.
    None for a file that is not GGUF
    """
    if subject.file.version is None:
        return None
    file, tensor = subject.file, subject.file.index.tensor
    numbers = Counter(tensor(i).type for i in range(file.index.tensors))
    types = Counter({_type(subject, number): count for number, count in numbers.items()})
    whole = split_set(subject)
    split = None if whole is None or whole.number is None else split_of(whole)
    if whole is not None and split is not None and split.complete:
        types = Counter(tensor.type or f"type {tensor.number}" for tensor in whole.tensors)
    # Use only cached results, which rules have asked for already.
    survey = vars(subject).get("survey")
    return {
        "architecture": visible(subject.architecture, bare=True),
        "kind": None if subject.kind is None else subject.kind.as_dict(),
        "version": file.version,
        "byte_order": file.index.byte_order,
        "size": file.size,
        "tensors": types.total(),
        "types": dict(types.most_common()),
        "rules": subject.rules_checked,
        "reading": subject.reading.mode,
        "ignored": subject.rules_skipped,
        "read": None if file.infos_end is None else _read(subject, file.infos_end, survey),
        "layout": _layout(subject) if survey is not None and I2_S.number in numbers else None,
        "row_order": _row_order(subject),
        "unchecked": [each for each in unchecked(subject) if each != CONTENTS],
        **({} if split is None else {"split": split._asdict()}),
    }


def _read(subject: LintContext, header: int, survey: Survey | None) -> int:
    """Return how many bytes were read: all of them if every tensor was read, because rules also read the bytes between
    tensors."""
    if survey is None:
        return header
    every = len(survey) + len(survey.others) == subject.file.index.tensors
    return subject.file.size if every and survey.mode == "full" else min(subject.file.size, header + survey.read)


def _type(subject: LintContext, number: int) -> str:
    known = subject.file.tensors.common_type(number)
    return known.name if known is not None else RETIRED.get(number, f"type {number}")


def _layout(subject: LintContext) -> str | None:
    """Whether the weights decided their layout, if a rule examined it."""
    found = _if_made(subject, weight_layout)
    return None if found is None else "undecided" if found.usual is None else "decided"


def _row_order(subject: LintContext) -> str | None:
    """Whether floats decided which rows are rotated together, if a rule examined it."""
    found = _if_made(subject, query_order) if _if_made(subject, weight_layout) is None else None
    return None if found is None else "undecided" if found.order is None else "decided"


def _if_made(subject: LintContext, make: Callable[[LintContext], T]) -> T | None:
    """Return the result of an analysis that a rule has asked for; nothing is computed for it."""
    return subject.analyses.get(make.__wrapped__)  # type: ignore[attr-defined]


def what(about: Mapping[str, Any]) -> str:
    """Describe the file in a few words: `bitnet-b1.58, 24 tensors (14 I2_S, 10 F32)`."""
    kind, split = about["kind"], about.get("split")
    words = [about["architecture"] or ("no architecture" if split is None else "")]
    if split is not None and split["complete"]:
        words[0] = f"{words[0] or 'no architecture'} in {counted(split['of'], 'part')}"
    elif split is not None:
        part = f"part {split['part']:,} of {split['of']:,} of a split model"
        words = [part, *filter(None, words)]
    elif kind is not None and kind["name"] != kinds.MODEL:
        words = [kind["title"]] if kind["title"] else []
    if about["version"] != 3:
        words.append(f"GGUF version {about['version']}")
    if about["byte_order"] != "little":
        words.append(f"{about['byte_order']}-endian")
    if about["read"] is None:
        return ", ".join(words)
    count = about["tensors"]
    types = [f"{number:,} {name}" for name, number in about["types"].items()]
    if len(types) > NAMED:
        types[NAMED:] = [f"{count - sum(list(about['types'].values())[:NAMED]):,} of other types"]
    words.append(counted(count, "tensor") + (f" ({', '.join(types)})" if types else ""))
    return ", ".join(words)


def sentence(about: Mapping[str, Any]) -> str:
    """Say what was examined, in one line."""
    rules = f"{counted(about['rules'], 'rule')} checked" + (
        f" and {about['ignored']:,} left out" if about["ignored"] else ""
    )
    if about["read"] is None:
        return f"{what(about)}; {rules}, the header cannot be read to its end"
    read, size = size_words(about["read"]), size_words(about["size"])
    how = "" if read == size else {"none": " (header only)", "sample": " (weights sampled)"}.get(about["reading"], "")
    amount = f"all {size}" if read == size else f"{read} of {size}"
    doubt = "; the weights do not show their layout" if about["layout"] == "undecided" else ""
    if about.get("row_order") == "undecided":  # records of runs before it lack it
        doubt += "; the weights do not show in which order the rows of attn_q and attn_k are"
    left = f"; not checked: {'; '.join(about['unchecked'])}" if about["unchecked"] else ""
    return f"{what(about)}; {rules}, {amount} read{how}{doubt}{left}"


# --- the formats -----------------------------------------------------------------------------------------------------

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
    A split model of which all parts are reported, the first one first, gets one verdict after the last part; a part with
    findings has its own as well.
    """

    details = staticmethod(examined)  # type: ignore[assignment]  # a function of a module, found on the class
    bytes_shown = True
    plain_text = True
    #: Leave out repairs, what was examined, counts by code and the next step.
    brief = False

    def __init__(self, colour: bool = False, quiet: bool = False, fail_on: Severity | None = Severity.ERROR) -> None:
        super().__init__(colour, quiet, fail_on)
        self._brief = quiet or self.brief
        self._paths: list[str] = []  # kept for the first files; it only matters whether there is more than one
        self._codes: dict[str, int] = {}
        self._ranks: dict[str, int] = {}
        self._repairs: dict[str, dict[str, int]] = {}
        self._command = ""
        self._parts: list[FileReport] = []  # of one split model, from the first part on
        self._held: list[str] = []  # verdicts of parts without findings, until the last part

    def _file(self, file_report: FileReport) -> str:
        self._paths[1:] = [file_report["path"]]
        lines = [] if self._is_next_part(file_report) else [*self._released()]
        if self._parts or file_report.get("split", {}).get("complete"):
            self._parts.append(file_report)
        lines += self._lines(file_report)
        if self._parts and len(self._parts) == file_report["split"]["of"]:
            lines += self._released()
        return "".join(line + "\n" for line in lines)

    def _is_next_part(self, file_report: FileReport) -> bool:
        """Whether a report is about the part that follows the last one."""
        if not self._parts or "split" not in file_report:
            return False
        name, first = (part_name(each["path"]) for each in (file_report, self._parts[0]))
        return name is not None and first is not None and name == first._replace(number=len(self._parts))

    def _released(self) -> Iterator[str]:
        """Yield the verdict on a split model of which all parts were reported, else those that were held."""
        parts, held = self._parts, self._held
        self._parts, self._held = [], []
        repeats = self._brief and len(held) < len(parts)  # a part has its own verdict, which the one line would repeat
        if not parts or len(parts) < parts[0]["split"]["of"] or repeats:
            yield from held
        elif not self._quiet:
            whole = _as_one(parts)
            yield f"{whole['path']}: {self._verdict(whole)}{'' if self._brief else self._basis(whole)}"

    def _lines(self, file_report: FileReport) -> Iterator[str]:
        path, silent, shown = file_report["path"], True, set()
        unlisted, listed = self._unlisted(file_report["findings"]), dict[str, int]()
        for place, finding in enumerate(file_report["findings"]):
            silent, code = False, finding["code"]
            if not self._brief and _in_table(finding, file_report):
                continue
            if place in unlisted:
                listed[code] = listed.get(code, 0) + 1
                continue
            option = None if self._brief else repair_option(code, finding["fix"])
            mark = "" if option is None else repair_words(option)
            yield self._finding(path, finding) + (self._dim(f" [{mark}]") if mark else "")
            if self.bytes_shown and (self._quiet or code not in shown):
                yield from (self._dim("  " + line) for line in proof(finding, file_report["size"], self._row()))
            shown.add(code)
        for code, count in listed.items():
            yield f"{path}: {counted(count, 'more finding')} of {code} like these; --format concise lists them"
        yield from (f"{path}: {words}" for _, words in elided_words(file_report))
        for bug in file_report["bugs"]:
            advice = "this is a bug in i2s-spec; run again with I2S_DEBUG=1 for the traceback"
            yield f"{path}: {self._styled('internal error:', 'red')} {bug['where']}: {bug['message']} ({advice})"
            silent = False
        if not self._quiet:
            yield from (f"{path}: {words}" for words in suppressed_words(file_report))
        if file_report.get("runtimes"):
            yield from text_table(file_report, self.columns)
        if not silent or not self._quiet:
            if "sampled" in file_report or "remote" in file_report:
                yield from (f"{path}: {words}" for words in _read_words(file_report))
            verdict = f"{path}: {self._verdict(file_report)}{'' if self._brief else self._basis(file_report)}"
            if silent and self._parts:
                self._held.append(verdict)
            else:
                yield verdict
        if not self._brief:
            yield from self._summary(file_report)

    def _unlisted(self, findings: Sequence[Mapping[str, Any]]) -> set[int]:
        """Return the positions of findings that repeat for another tensor what was said before."""
        if self._brief or len(findings) < MANY:
            return set()

        return repeated(findings)

    def _row(self) -> int:
        """Return the bytes in a row of a dump: 16, or 8 if a terminal is too narrow for 16."""
        return 16 if self.columns is None or self.columns >= WIDE else 8

    def _basis(self, file_report: FileReport) -> str:
        """Return the basis of a verdict, and what it leaves out."""
        known = file_report["summary"].get("baseline")
        words = f"; {known:,} more in the baseline" if known else ""
        if "skipped" not in file_report and "rules" in (about := file_report.get("details") or {}):
            words = f": {sentence(about)}{words}"
        return words

    def _summary(self, file_report: FileReport) -> Iterator[str]:
        """Yield the number of findings of each code, if there is more than one code."""
        if not file_report["findings"]:
            return
        elided = file_report["summary"]["elided"]
        unlike = [each for each in file_report["findings"] if not _in_table(each, file_report)]
        repairs = repairs_of(((each["code"], each["fix"]) for each in unlike), elided)
        first: dict[str, Mapping[str, Any]] = {}
        counts: dict[str, int] = {}
        for finding in unlike:
            code = finding["code"]
            first.setdefault(code, finding)
            self._command = self._command or other_command(code, finding["got"], "{path}")
            counts[code] = counts.get(code, elided.get(code, 0)) + 1
        for code in sorted(counts, key=lambda code: (-Severity(first[code]["severity"]).rank, -counts[code], code)):
            severity, count, options = first[code]["severity"], counts[code], repairs.get(code, {})
            self._codes[code] = self._codes.get(code, 0) + count
            self._ranks[code] = Severity(severity).rank
            repairs_of_code = self._repairs.setdefault(code, {})
            for option, number in options.items():
                repairs_of_code[option] = repairs_of_code.get(option, 0) + number
            mark = ", ".join(repair_words(option, 0 if n == count else n) for option, n in options.items())
            if sum(counts.values()) > 1:
                words = self._styled(counted(count, severity), _COLOURS[severity])
                yield f"  {words}: {code} {first[code]['slug']}" + (f", {mark}" if mark else "")

    def end(self, totals: Totals) -> str:
        configuration = "".join(f"configuration: {remark}\n" for remark in totals.remarks)
        held = "".join(line + "\n" for line in self._released())
        return held + configuration + self._sums(totals) + ("" if self._brief else self._next())

    def _next(self) -> str:
        """Say what to type next, in one line; empty if there was no finding."""
        if not self._codes:
            return ""
        path = on_command_line(self._paths[0]) if len(self._paths) == 1 else "FILE"
        worst_first = sorted(self._codes.items(), key=lambda item: -self._ranks[item[0]])
        explain = f"i2s explain {worst_first[0][0]}"
        step = repair_step((pair for code, _ in worst_first for pair in self._repairs[code].items()), path)
        if self._command:
            return f"next: {self._command.replace('{path}', path)}, {explain}\n"
        if step is None:
            return f"next: {explain}\n"
        count = sum(self._codes.values())
        some = f" (has repairs for {step.findings:,} of {counted(count, 'finding')})" if count > 1 else ""
        return f"next: {step.command}{some}, {explain}\n"

    def _sums(self, totals: Totals, least: int = 2) -> str:
        if totals["files"] < least or self._quiet:
            return ""
        words = [ok_of_totals(totals), f"{totals['files'] - totals['ok'] - totals['skipped']:,} not"]
        words += [f"{totals['skipped']:,} skipped"] if totals["skipped"] else []
        counts = severity_words(totals)
        return f"{counted(totals['files'], 'file')}: {', '.join(words)}" + (f"; {counts}" if counts else "") + "\n"

    def _finding(self, path: str, finding: Mapping[str, Any]) -> str:
        span = finding["span"]
        place = f"{path}:0x{span['start']:x}..0x{span['stop']:x}:" if span["stop"] else f"{path}:"
        severity = self._styled(finding["severity"] + ":", _COLOURS[finding["severity"]])
        return f"{place} {severity} {self._styled(finding['code'] + ' ' + finding['slug'] + ':')} {finding['message']}"

    def _verdict(self, file_report: FileReport) -> str:
        if "skipped" in file_report:
            return f"skipped: {file_report['skipped']}"
        counts = severity_words(file_report["summary"])
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
    brief = True


class Statistics(Text):
    """A line for each rule with findings, the most frequent first: how many findings, and in how many files."""

    details = None  # type: ignore[assignment]
    bytes_shown = False

    def _file(self, file_report: FileReport) -> str:
        for code in {finding["code"] for finding in file_report["findings"]}:
            self._codes[code] = self._codes.get(code, 0) + 1
        bugs = [f"{file_report['path']}: {self._verdict(file_report)}\n"] if file_report["bugs"] else []
        return "".join(bugs)

    def end(self, totals: Totals) -> str:
        counts = sorted(totals.codes.items(), key=lambda item: (-item[1], item[0]))
        width = max((len(f"{count:,}") for _, count in counts), default=0)
        lines = [
            f"{count:>{width},}  {code} {REGISTRY[code].slug if code in REGISTRY else ''}".rstrip()
            + f", in {counted(self._codes[code], 'file')}\n"
            for code, count in counts
        ]
        if totals["sampled"]:
            lines.append(f"{counted(totals['sampled'], 'file is', 'files are')} sampled: not every byte was read\n")
        return (
            "".join(lines) + "".join(f"configuration: {remark}\n" for remark in totals.remarks) + self._sums(totals, 1)
        )


def _as_one(parts: Sequence[FileReport]) -> dict[str, Any]:
    """Return the reports on all parts of a split model as the report on one file, without its findings."""
    first, summaries = parts[0], [part["summary"] for part in parts]
    names = [name for name, value in first["summary"].items() if type(value) is int]
    summary = {**first["summary"], **{name: sum(each[name] for each in summaries) for name in names}}
    whole = {
        **first,
        "ok": all(part["ok"] for part in parts),
        "findings": [],
        "bugs": [bug for part in parts for bug in part["bugs"]],
        "summary": summary,
    }
    whole["unchecked"] = _left_of(parts, [part.get("unchecked", ()) for part in parts])
    about = [part.get("details") or {} for part in parts]
    if all("rules" in each for each in about):
        known = all(each["read"] is not None for each in about)
        whole["details"] = {
            **about[0],
            "size": sum(each["size"] for each in about),
            "read": sum(each["read"] for each in about) if known else None,
            "layout": "undecided" if any(each["layout"] == "undecided" for each in about) else about[0]["layout"],
            "unchecked": _left_of(parts, [each["unchecked"] for each in about]),
        }
    return whole


def _left_of(parts: Sequence[FileReport], unchecked: Sequence[Sequence[str]]) -> list[str]:
    """Return what no rule examined of parts that were all given: not that the others were not looked at."""
    others = {part["split"]["unread"] for part in parts if "split" in part}
    return list(dict.fromkeys(words for each in unchecked for words in each if words not in others))


def _in_table(finding: Mapping[str, Any], file_report: FileReport) -> bool:
    """Whether the table of runtimes repeats a finding."""
    if finding["severity"] != "note" or not file_report.get("runtimes"):
        return False
    rule = REGISTRY.get(finding["code"])
    return rule is not None and rule.when is runtimes_requested
