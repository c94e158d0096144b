"""The linter: it never raises, gives the same report each time, points inside the file, escapes all text, and ends in
time.

Inputs are files, or differences from a valid model (see `overlay`), with settings: `profile`, `payload`, `format`,
`runtimes`, `select`, `ignore`, `severity`, `excused`, `limits`, `threads`; `name`, which writes the file to disk under
this name, with its zeros at the end as a hole; `reference`, a list of words for `references`, with `dialect` and
`expected`; `vanishes`, which removes the file after so many reads.
"""

from __future__ import annotations

import atexit
import inspect
import io
import json
import shutil
import tempfile
import time
from collections.abc import Iterator
from contextlib import suppress
from dataclasses import replace
from functools import cache, partial
from pathlib import Path
from typing import Any
from xml.etree import ElementTree

import overlay
import references
from harness import SIXTHS, broken, changed, replayed, sentence
from searching import search
from verb_runs import require_answers

from i2s_spec.compare.known_weights import Reference
from i2s_spec.errors import FormatError
from i2s_spec.gguf.reader import File
from i2s_spec.gguf.source import BufferSource
from i2s_spec.linter.analysis.context import Subject
from i2s_spec.linter.engine import lint
from i2s_spec.linter.options import Options
from i2s_spec.linter.paths import lint_path
from i2s_spec.linter.repair.fix import fix
from i2s_spec.linter.report import FORMATS, kind
from i2s_spec.linter.report_data import Report, Totals
from i2s_spec.linter.rule import Severity
from i2s_spec.linter.runtimes.verdicts import verdicts
from i2s_spec.linter.selection import PROFILES, Suppression
from i2s_spec.testing.differential import Vanishing

#: Processor seconds after which a run counts as hanging: a constant, and a part for each byte.
SECONDS, SECONDS_PER_BYTE = 20.0, 1e-4


@cache
def _folder() -> Path:
    folder = tempfile.mkdtemp(prefix="i2s-lint-")
    atexit.register(shutil.rmtree, folder, ignore_errors=True)
    return Path(folder)


def one_input(data: bytes) -> None:
    """Check the properties for any bytes; every exception is a failure."""
    file, settings = overlay.read(data)
    require_answers(data, "lint in.gguf --profile security", "lint in.gguf --runtimes --format json", in__gguf=file)
    form = settings.get("format")
    if form not in FORMATS:
        form = tuple(FORMATS)[len(data) // 2 % len(FORMATS)] if len(data) < 4096 else "json"
    origin: Any = _on_disk(file, str(settings["name"])) if "name" in settings else file
    options = dict(_options(settings, len(data)), details=kind(form).details)
    if isinstance(words := settings.get("reference"), list):
        weights = references.reference(words, overlay.base(settings), references.emptied(_folder() / "reference"))
        options["reference"] = Reference(
            weights, str(settings.get("dialect", "canonical")), str(settings.get("expected", "canonical"))
        )
    began = time.process_time()
    if "reference" not in settings and "dialect" in settings:
        options["details"] = partial(_verdicts, str(settings["dialect"]))
    try:
        report = lint(origin, **options)
    except (ValueError, FormatError) as error:
        if not any(name in settings for name in _CHOSEN):  # the settings may be invalid
            raise
        sentence(error)
        return
    assert time.process_time() - began < SECONDS + SECONDS_PER_BYTE * len(file)
    assert not report.bugs, report.bugs
    _require_sound(report, file, all(name not in settings for name in _CHOSEN))
    document = json.dumps(report.as_dict(), allow_nan=False)
    assert document.isascii()
    assert json.dumps(lint(origin, **options).as_dict()) == document
    if options["details"] is kind(form).details:
        _printed(report, form, len(data) % 3 == 0, len(data) % 5 == 0)
    assert [report.exit_code(level) for level in (*Severity, None)] in _CODES
    if "name" in settings:
        _checked(origin, options)
    if isinstance(left := settings.get("vanishes"), int):
        _vanishing(file, left, options)


#: Exit codes of a report, if `fail_on` is errors, warnings, notes, or never.
_CODES = ([3, 3, 3, 3], [0, 0, 0, 0], [0, 0, 1, 0], [0, 1, 1, 0], [1, 1, 1, 0])


def _verdicts(dialect: str, subject: Subject) -> list[Any]:
    try:
        return [verdict.as_dict() for verdict in verdicts(subject, dialect)]
    except ValueError as error:  # an unknown dialect
        return [sentence(error)]


def _checked(path: str, options: dict[str, Any]) -> None:
    """Another process gets the same report."""
    known = inspect.signature(Options).parameters.keys() - {"details"}
    named = {name: value for name, value in options.items() if name in known}
    for name in ("select", "ignore"):
        named[name] = tuple(named.get(name, ()))
    codes = named.pop("suppressed", {}) or options.get("excused", {})
    given = Options(**named, suppressions=(Suppression("*", tuple(codes) or ("P",), "because"),))
    for name in (path, path + "\0"):
        file_report = lint_path(name, given)
        json.dumps(file_report)
        assert not file_report["bugs"], file_report["bugs"]
    for wrong in ({"threads": 0}, {"payload": "odd"}, {"profile": "odd"}, {"limits": {"odd": 1}}):
        try:
            replace(given, **wrong)
        except (ValueError, FormatError) as error:
            sentence(error)
        else:
            raise AssertionError(f"{wrong} are options that nobody can follow")


def _vanishing(file: bytes, left: int, options: dict[str, Any]) -> None:
    """A file that changes during the run gives a finding, not an exception."""
    options = {name: value for name, value in options.items() if name != "reference"}
    for count in {left, *range(8), *range(8, 120, 7)}:
        source = Vanishing(file, count)
        report = lint(source, **options)
        assert not report.bugs, report.bugs
        assert not source.reported or not report.ok, "nobody noticed"
        with suppress(FormatError):
            fix(Vanishing(file, count), io.BytesIO())


#: Settings that may leave out rules or be invalid.
_CHOSEN = ("select", "ignore", "severity", "excused", "limits", "payload", "reference")


def _options(settings: dict[str, Any], size: int) -> Iterator[tuple[str, Any]]:
    profile = settings.get("profile")
    yield "profile", profile if profile in PROFILES else tuple(PROFILES)[size % len(PROFILES)]
    yield "runtimes", settings.get("runtimes", size % 2 == 0) is True
    if "payload" in settings:
        yield "payload", settings["payload"]
    if isinstance(threads := settings.get("threads"), int) and threads < 4:
        yield "threads", threads
    for name in ("select", "ignore"):
        if isinstance(given := settings.get(name), list):
            yield name, given
    for name in ("severity", "excused", "limits"):
        if isinstance(given := settings.get(name), list):
            pairs = dict(item.split("=", 1) for item in given if "=" in item)
            numbers = {key: int(value) for key, value in pairs.items() if value.isdecimal() and value.isascii()}
            yield name, numbers if name == "limits" else pairs


def _on_disk(file: bytes, name: str) -> str:
    """The file under a name in an empty folder; zeros at its end are a hole if the file system supports holes."""
    for path in _folder().iterdir():
        path.unlink() if path.is_file() else shutil.rmtree(path)
    safe = "".join(char for char in name if char.isprintable() and char not in "/\0")[:80].strip(".") or "input"
    path = _folder() / safe.encode("utf-8", "replace").decode()
    with path.open("wb") as stream:
        stream.write(file.rstrip(b"\0"))
        stream.truncate(len(file))
    return str(path)


def _require_sound(report: Report, file: bytes, whole: bool) -> None:
    fault = File(BufferSource(file)).fault
    assert not whole or fault is None or fault.code in {finding.code for finding in report.findings}
    for finding in report.findings:
        assert 0 <= finding.span.start <= finding.span.stop <= len(file), finding
        assert finding.message.isprintable(), finding


def _printed(report: Report, form: str, quiet: bool, colour: bool) -> None:
    """The report in a format: no control characters, and valid for programs."""
    totals = Totals()
    sheet = kind(form)(colour, quiet)
    text = sheet.begin()
    for each in (report, report.as_dict()):
        totals.add(report.as_dict())
        text += sheet.file(each)
    text += sheet.end(totals)
    assert not any((ord(char) < 32 or 127 <= ord(char) < 160) and char not in "\n\t" + "\x1b" * colour for char in text)
    if form in ("json", "sarif"):
        json.loads(text)
    elif form == "junit":
        ElementTree.fromstring(text)


@replayed("container", "lint")
def test_corpus(path: Path) -> None:
    one_input(path.read_bytes())


@SIXTHS
def test_malformed_files(sixth: int) -> None:
    for data in broken(10_000, every=2)[sixth::6]:
        one_input(data)


@SIXTHS
def test_changed_files(sixth: int) -> None:
    for data in changed(120, seed=1)[sixth::6]:
        one_input(data)


if __name__ == "__main__":
    search(one_input)
