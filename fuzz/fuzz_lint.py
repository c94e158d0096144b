"""The linter: it never raises, gives the same report each time, points inside the file, escapes all text, and ends in
time.

Inputs are files, whose size chooses the options, or choices: a changed model (see `models`) with options of the linter;
`name`, which writes the file to disk under this name, with its zeros at the end as a hole; `reference`, with `dialect`
and `expected`; `vanishes`, which removes the file after so many reads.
"""

from __future__ import annotations

import atexit
import io
import json
import shutil
import tempfile
import time
from contextlib import suppress
from dataclasses import replace
from functools import cache, partial
from pathlib import Path
from typing import Any
from xml.etree import ElementTree

from harness import SIXTHS, broken, changed, replayed, require_answers, search, sentence
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from models import MARK, REFERENCES, by_choices, changed_models, reference

from i2s_spec.compare.known_weights import Reference
from i2s_spec.errors import FormatError
from i2s_spec.gguf.reader import File
from i2s_spec.gguf.source import BufferSource
from i2s_spec.linter.analysis.context import LintContext
from i2s_spec.linter.engine import lint
from i2s_spec.linter.fix import fix
from i2s_spec.linter.options import Options
from i2s_spec.linter.paths import lint_path
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
    if data[:1] == MARK:
        by_choices(test_changed_models, data[1:])
        return
    size = len(data)
    form = tuple(FORMATS)[size // 2 % len(FORMATS)] if size < 4096 else "json"
    options = {"profile": tuple(PROFILES)[size % len(PROFILES)], "runtimes": size % 2 == 0}
    _check(data, data, options, form)


#: Values of the linter's options that replays choose among; some are invalid.
OPTIONS: tuple[tuple[str, Any], ...] = (
    ("payload", "none"), ("payload", "sample"), ("payload", "full"), ("payload", "odd"), ("threads", 0), ("threads", 3),
    ("select", ["I104"]), ("select", ["not-gguf", "tail-missing"]), ("select", ["odd"]), ("ignore", ["no-architecture"]),
    ("ignore", ["G", "M"]), ("severity", {"G": "note"}), ("severity", {"P1": "odd"}), ("limits", {"findings": 1}),
    ("limits", {"header_bytes": 100}), ("limits", {"odd": 1}), ("suppressed", {"P": "because"}),
    ("suppressed", {"M": "because", "G": "because", "S": "x", "P": "y"}),
)  # fmt: skip

#: Options that may leave out rules or be invalid.
CHOSEN = {"select", "ignore", "severity", "suppressed", "limits", "payload", "threads", "reference"}

DIALECTS = ("canonical", "interleave-64", "interleave-128/twos-complement", "row-blocks-4", "odd")
NAMES = ("", "x.gguf", "ggml-model-i2_s.gguf", "model-00001-of-00003.gguf", "x-00009-of-00003.gguf")


@settings(max_examples=12, derandomize=True, deadline=None, database=None, suppress_health_check=list(HealthCheck))
@given(data=st.data())
def test_changed_models(data: Any) -> None:
    model = data.draw(changed_models())
    options: dict[str, Any] = {
        "profile": data.draw(st.sampled_from(tuple(PROFILES))), "runtimes": data.draw(st.booleans()),
    }  # fmt: skip
    form = data.draw(st.sampled_from(tuple(FORMATS)))
    while data.draw(st.booleans()):
        name, value = data.draw(st.sampled_from(OPTIONS))
        options[name] = value
    if data.draw(st.booleans()):
        shutil.rmtree(_folder() / "reference", ignore_errors=True)
        weights = reference(data.draw(st.sampled_from(REFERENCES)), model.sound, _folder() / "reference")
        dialects = data.draw(st.sampled_from(DIALECTS)), data.draw(st.sampled_from(DIALECTS))
        options["reference"] = Reference(weights, *dialects)
    elif data.draw(st.booleans()):
        options["details"] = partial(_verdicts, data.draw(st.sampled_from(DIALECTS)))
    name = data.draw(st.sampled_from(NAMES))
    origin = _on_disk(model.data, name) if name else model.data
    _check(model.data, origin, options, form)
    if name:
        _checked(origin, options)
    if data.draw(st.integers(0, 15)) == 15:
        _vanishing(model.data, options)


def _check(file: bytes, origin: bytes | str, options: dict[str, Any], form: str) -> None:
    """Lint a file twice, and print the report in a format."""
    require_answers(file, "lint in.gguf --profile security", "lint in.gguf --runtimes --format json", in__gguf=file)
    options = {"details": kind(form).details, **options}
    began = time.process_time()
    try:
        report = lint(origin, **options)
    except (ValueError, FormatError) as error:
        if not CHOSEN & set(options):  # the options may be invalid
            raise
        sentence(error)
        return
    assert time.process_time() - began < SECONDS + SECONDS_PER_BYTE * len(file)
    assert not report.bugs, report.bugs
    _require_sound(report, file, not CHOSEN & set(options))
    document = json.dumps(report.as_dict(), allow_nan=False)
    assert document.isascii()
    assert json.dumps(lint(origin, **options).as_dict()) == document
    if options["details"] is kind(form).details:
        _printed(report, form, len(file) % 3 == 0, len(file) % 5 == 0)
    assert [report.exit_code(level) for level in (*Severity, None)] in _CODES


#: Exit codes of a report, if `fail_on` is errors, warnings, notes, or never.
_CODES = ([3, 3, 3, 3], [0, 0, 0, 0], [0, 0, 1, 0], [0, 1, 1, 0], [1, 1, 1, 0])


def _verdicts(dialect: str, subject: LintContext) -> list[Any]:
    try:
        return [verdict.as_dict() for verdict in verdicts(subject, dialect)]
    except ValueError as error:  # an unknown dialect
        return [sentence(error)]


def _checked(path: str, options: dict[str, Any]) -> None:
    """A batch gets the same report, also of a file that does not exist; invalid options are refused."""
    named = {name: value for name, value in options.items() if name not in ("details", "suppressed")}
    for name in ("select", "ignore"):
        named[name] = tuple(named.get(name, ()))
    codes = tuple(options.get("suppressed", ())) or ("P",)
    try:
        given = Options(**named, suppressions=(Suppression("*", codes, "because"),))
    except (ValueError, FormatError) as error:
        sentence(error)
        return
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


def _vanishing(file: bytes, options: dict[str, Any]) -> None:
    """A file that changes during the run gives a finding, not an exception."""
    options = {name: value for name, value in options.items() if name not in CHOSEN}
    for count in (*range(8), *range(8, 160, 7)):
        source = Vanishing(file, count)
        report = lint(source, **options)
        assert not report.bugs, report.bugs
        assert not source.reported or not report.ok, "nobody noticed"
        with suppress(FormatError):
            fix(Vanishing(file, count), io.BytesIO())


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
