"""This module writes a run as lines of JSON, header, results and footer, and reads such records again.

A record holds no path and no time of day, so that two runs of the same programs give the same bytes.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from dataclasses import asdict
from dataclasses import fields as fields_of
from pathlib import Path
from typing import Any, Final

from i2s_spec._version import __version__
from i2s_spec.conformance.run.protocol import PROTOCOL, Implementation
from i2s_spec.conformance.run.results import FAILURES, CaseResult, RunResult, Status
from i2s_spec.errors import SettingError, quote
from i2s_spec.gguf.regular_file import read_regular

SCHEMA_VERSION: Final = 1
_LARGEST: Final = 64 << 20


def ndjson(run: RunResult) -> str:
    """The record of a run."""
    return "".join(json.dumps(line, ensure_ascii=True, allow_nan=False) + "\n" for line in _lines(run))


def _lines(run: RunResult) -> Iterator[dict[str, Any]]:
    about = {key: value for key, value in asdict(run.implementation).items() if value not in ("", None)}
    yield {
        "record": "header",
        "schema_version": SCHEMA_VERSION,
        "protocol": PROTOCOL,
        "suite_version": run.suite_version,
        "tool": {"name": "i2s-spec", "version": __version__},
        "date": run.date,
        "implementation": about,
    }
    for result in run.results:
        line = {key: value for key, value in asdict(result).items() if value not in ("", None, ())}
        line["status"] = result.status.value
        if (
            result.status not in FAILURES
        ):  # the manifest describes every vector; here only those that failed are described
            line = {key: value for key, value in line.items() if key not in ("flags", "clause")}
        if result.id in run.known:
            line["known"] = True
        yield {"record": "result", **line}
    yield {
        "record": "footer",
        "counts": {status.value: run.counts[status.value] for status in Status},
        "phases": list(run.phases),
        "unexpected": run.unexpected,
        "given_up": run.given_up,
        "ok": run.ok,
    }


def _visible(value: Any) -> str:
    """A text that reports print as it is, with every invisible character escaped."""
    return "".join(char if char.isprintable() else char.encode("unicode_escape").decode() for char in _text(value))


def _text(value: Any) -> str:
    if not isinstance(value, str):
        raise TypeError(f"{quote(str(value), limit=80)} is not a text")
    return value


def _require(values: Mapping[str, Any], kind: type) -> None:
    """Refuse values of the wrong type for the fields of a class with a TypeError; its constructor refuses extra and
    missing fields."""
    for field in fields_of(kind):
        value = values.get(field.name)
        if field.name not in values:
            continue
        if field.type == "str":
            _text(value)
        elif str(field.type).startswith("tuple") and value is not None:
            for each in value:
                _text(each)
        elif str(field.type) in ("int | None", "bool | None") and not (value is None or isinstance(value, int)):
            raise TypeError(f"{field.name} is {quote(str(value), limit=80)}")


def read_ndjson(path: str | Path) -> RunResult:
    """A run from its record.

    :raises SettingError: for a file that is not a complete record
    """
    name = quote(str(path), limit=4096, bare=True)
    try:
        text = read_regular(path, _LARGEST).decode("utf-8")
        header, *rest = [json.loads(line) for line in text.split("\n") if line.strip()]
        if header["record"] != "header" or header["schema_version"] != SCHEMA_VERSION or rest[-1]["record"] != "footer":
            raise ValueError("header or footer is missing, or of another version")
        about = dict(header["implementation"])
        for key in ("ops", "features", "dialects"):
            if about.get(key) is not None:
                about[key] = tuple(about[key])
        _require(about, Implementation)
        run = RunResult(Implementation(**about), _visible(header["suite_version"]), _visible(header["date"]))
        for line in rest[:-1]:
            fields = {key: value for key, value in line.items() if key not in ("record", "known")}
            fields["status"] = Status(fields["status"])
            for key in ("features", "flags"):
                fields[key] = tuple(fields.get(key, ()))
            _require(fields, CaseResult)
            run.results.append(CaseResult(**fields))
            if line.get("known"):
                run.known.add(line["id"])
        run.given_up, run.unexpected = _text(rest[-1]["given_up"]), [_text(each) for each in rest[-1]["unexpected"]]
    except (KeyError, TypeError, ValueError, IndexError, AttributeError, RecursionError) as error:
        raise SettingError(f"{name} is not the record of a run: {quote(str(error), bare=True)}") from None
    return run
