"""This module reads the linter's configuration: `i2s.toml`, and `[tool.i2s]` of `pyproject.toml`.

Both are searched in the current folder and its parents, never beside the checked files, which are not trusted. A key in
the nearest `i2s.toml` overrides the same key in the nearest `pyproject.toml` that has the table.

    profile = "security"
    fail-on = "warning"
    ignore = ["P101", { files = "old/*.gguf", codes = ["I"], reason = "kept as a bad example" }]
    severity = { M = "warning" }
    limits = { tensors = 4096 }
"""

from __future__ import annotations

import os

from i2s_spec.errors import SettingError, quote
from i2s_spec.light_functools import partial
from i2s_spec.light_typing import TYPE_CHECKING, Any, Callable, NamedTuple
from i2s_spec.linter.options import Options
from i2s_spec.linter.report import FORMATS
from i2s_spec.linter.rule import Severity
from i2s_spec.linter.selection.profile import PROFILES, READINGS
from i2s_spec.pattern import pattern

if TYPE_CHECKING:
    from collections.abc import Mapping

    from i2s_spec.linter.selection.suppressions import Suppression

#: Largest configuration file, in bytes.
LARGEST = 1 << 20

#: With blanks and quotes removed, a `pyproject.toml` with a table for this program contains one of these, or an escape
#: in a name.
_MENTIONS = (b"tool.i2s", b"tool]", b"tool=", b"\\u", b"\\U")

#: Most names in a dotted key: the parser's time grows with their square.
MOST_NAMES = 64

#: A string on one line: dots in it are not those of a key.
_QUOTED = pattern(rb"\"(?:[^\"\\\n]|\\.)*\"|'[^'\n]*'")

#: Keys of a suppression.
_SUPPRESSION = {"files", "codes", "reason"}


class Config(NamedTuple):
    """The contents of configuration files: a value for each key, the suppressions, and where each key was found."""

    values: Mapping[str, Any] = {}
    suppressions: tuple[Suppression, ...] = ()
    places: Mapping[str, str] = {}

    #: Whether the files were found by search, not named by the caller.
    was_found: bool = False

    def get(self, key: str, default: Any) -> Any:
        return self.values.get(key, default)

    def affecting_findings(self) -> tuple[tuple[str, tuple[str, ...]], ...]:
        """Each file that changes what is found or what fails a run, with the keys that do it."""
        keys: dict[str, list[str]] = {}
        for key, place in self.places.items():
            if key in VERDICT_KEYS:
                keys.setdefault(_shown(place), []).append(key)
        return tuple((place, tuple(sorted(held))) for place, held in sorted(keys.items()))

    def without_verdict_keys(self) -> Config:
        """The configuration without the keys that change what is found or what fails a run."""
        left = {key: value for key, value in self.values.items() if key not in VERDICT_KEYS}
        return Config(left, (), {key: place for key, place in self.places.items() if key in left}, self.was_found)


def _text(value: Any) -> str | None:
    return None if isinstance(value, str) and value else "must be a string"


def _texts(value: Any) -> str | None:
    good = isinstance(value, list) and all(isinstance(item, str) and item for item in value)
    return None if good else "must be a list of strings"


def _flag(value: Any) -> str | None:
    return None if isinstance(value, bool) else "must be true or false"


def _count(value: Any, least: int = 1) -> str | None:
    good = isinstance(value, int) and not isinstance(value, bool) and value >= least
    return None if good else f"must be a number of at least {least}"


def _table_of(wanted: type, words: str) -> Callable[[Any], str | None]:
    def check(value: Any) -> str | None:
        good = isinstance(value, dict) and all(type(item) is wanted for item in value.values())
        return None if good else f"must be a table of {words}"

    return check


def _one_of(*allowed: str) -> Callable[[Any], str | None]:
    def check(value: Any) -> str | None:
        return None if isinstance(value, str) and value in allowed else f"must be one of {', '.join(allowed)}"

    return check


def _ignored(value: Any) -> str | None:
    good = isinstance(value, list) and all(isinstance(item, str | dict) for item in value)
    return None if good else "must be a list of codes and of tables with files, codes and reason"


#: Every key, with a function that says what is wrong with its value, if anything.
KEYS: dict[str, Callable[[Any], str | None]] = {
    "profile": _one_of(*PROFILES),
    "select": _texts,
    "ignore": _ignored,
    "severity": _table_of(str, "severities by code"),
    "limits": _table_of(int, "numbers by name"),
    "payload": _one_of(*READINGS),
    "runtimes": _flag,
    "threads": _count,
    "jobs": partial(_count, least=0),  # 0 means one for each processor, as on the command line
    "format": _one_of(*FORMATS),
    "fail-on": _one_of(*(severity.value for severity in Severity), "never"),
    "baseline": _text,
    "skip-lfs": _flag,
}


#: Keys that change what is found, or which findings fail a run.
VERDICT_KEYS = frozenset(KEYS) - {"format", "threads", "jobs", "runtimes"}


def found(folder: str = os.curdir, explicit: str | None = None) -> Config:
    """The configuration for a folder.

    :param explicit: a file to use instead of searching; in a `pyproject.toml`, only its table counts
    :raises SettingError: if a file cannot be read, or holds an unknown key or a bad value; it names file and key
    """
    if explicit is not None:
        table = _table(explicit)
        if table is None:
            raise SettingError(f"{_shown(explicit)} has no table [tool.i2s]")
        return _config([(explicit, table)])
    tables: list[tuple[str, dict[str, Any]]] = []
    for name in ("pyproject.toml", "i2s.toml"):
        for place in _upwards(folder):
            path = os.path.join(place, name)
            if os.path.isfile(path) and (table := _table(path)) is not None:
                tables.append((path, table))
                break
    return _config(tables)._replace(was_found=True)


def _upwards(folder: str) -> list[str]:
    place, places = os.path.abspath(folder), []
    while place not in places:
        places.append(place)
        place = os.path.dirname(place)
    return places


def _table(path: str) -> dict[str, Any] | None:
    """The settings for this program in a file; None for a `pyproject.toml` without any."""
    from i2s_spec.gguf.regular_file import read_regular  # most runs have no such file

    try:
        data = read_regular(path, LARGEST)
    except OSError as error:
        raise SettingError(f"{_shown(path)}: {error.strerror or type(error).__name__}") from None
    ours = os.path.basename(path) != "pyproject.toml"
    plain = data.translate(None, b" \t\"'")
    if not ours and not any(mention in plain for mention in _MENTIONS):  # spares most runs the TOML parser
        return None
    if any(line.count(b".") >= MOST_NAMES for line in _QUOTED.sub(b"", data).split(b"\n")):
        raise SettingError(f"{_shown(path)}: a line has a dotted key of more than {MOST_NAMES} names")
    import tomllib

    try:
        document = tomllib.loads(data.decode("utf-8"))
    except (ValueError, RecursionError) as error:  # not TOML, not UTF-8, or a number with more digits than Python reads
        raise SettingError(f"{_shown(path)}: this is not TOML: {quote(str(error), bare=True)}") from None
    if ours:
        return document
    tool = document.get("tool")
    table = tool.get("i2s") if isinstance(tool, dict) else None
    if table is not None and not isinstance(table, dict):
        raise SettingError(f"{_shown(path)}: tool.i2s must be a table")
    return table


def _config(tables: list[tuple[str, dict[str, Any]]]) -> Config:
    """Tables as one configuration; later ones override earlier ones."""
    values: dict[str, Any] = {}
    places: dict[str, str] = {}
    suppressions: tuple[Suppression, ...] = ()
    for path, table in tables:
        for key, value in table.items():
            _check(path, key, value)
            values[key], places[key] = value, path
        if "ignore" in table:
            suppressions = tuple(_suppression(path, item) for item in table["ignore"] if isinstance(item, dict))
            values["ignore"] = [item for item in table["ignore"] if isinstance(item, str)]
        if "baseline" in table:
            values["baseline"] = os.path.relpath(os.path.join(os.path.dirname(path), table["baseline"]))
    return Config(values, suppressions, places)


def _check(path: str, key: str, value: Any) -> None:
    """
    :raises SettingError: for an unknown key or an invalid value
    """
    if key not in KEYS:
        raise SettingError(f"{_shown(path)}: unknown key {quote(key)}; there are: {', '.join(KEYS)}")
    wrong = KEYS[key](value)
    if wrong is not None:
        raise SettingError(f"{_shown(path)}: {key} {wrong}")
    try:
        if key == "select":
            Options(select=tuple(value))
        elif key == "ignore":
            Options(ignore=tuple(item for item in value if isinstance(item, str)))
        elif key == "severity":
            Options(severity=value)
        elif key == "limits":
            Options(limits=value)
    except ValueError as error:
        raise SettingError(f"{_shown(path)}: {key}: {error}") from None


def _suppression(path: str, table: dict[str, Any]) -> Suppression:
    for key in sorted(table.keys() | _SUPPRESSION):
        if key not in _SUPPRESSION:
            raise SettingError(
                f"{_shown(path)}: ignore: unknown key {quote(key)}; there are: {', '.join(sorted(_SUPPRESSION))}"
            )
        value = table.get(key)
        wrong = "is missing" if value is None else _texts(value) if key == "codes" else _text(value)
        if wrong is None and key == "codes" and not value:
            wrong = "is empty"
        if wrong is None and key == "reason" and not str(value).strip():
            wrong = "must not be empty"
        if wrong is not None:
            raise SettingError(f"{_shown(path)}: ignore: {key} {wrong}")
    from i2s_spec.linter.selection.suppressions import Suppression

    suppression = Suppression(
        table["files"], tuple(table["codes"]), " ".join(table["reason"].split()), os.path.dirname(path)
    )
    try:
        Options(suppressions=(suppression,))
    except ValueError as error:
        raise SettingError(f"{_shown(path)}: ignore: {error}") from None
    return suppression


def _shown(path: str) -> str:
    """A path as messages show it: relative to the current folder, and quoted if it is empty."""
    return quote(os.path.relpath(path), limit=4096, bare=True) if path else quote(path)
