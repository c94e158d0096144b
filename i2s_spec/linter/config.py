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
from collections.abc import Collection, Mapping
from typing import Any, NamedTuple

from i2s_spec.errors import SettingError
from i2s_spec.gguf.regular_file import read_regular
from i2s_spec.linter.config_keys import KEYS, OPTIONS, VERDICT_KEYS, checked, parsed, shown, suppression
from i2s_spec.linter.options import OptionKind, declared
from i2s_spec.linter.selection.suppressions import Suppression

#: Largest configuration file, in bytes.
LARGEST = 1 << 20

#: With blanks and quotes removed, a `pyproject.toml` with a table for this program contains one of these, or an escape
#: in a name.
_MENTIONS = (b"tool.i2s", b"tool]", b"tool=", b"\\u", b"\\U")


class Config(NamedTuple):
    """The contents of configuration files: a value for each key, the suppressions, and where each key was found."""

    values: Mapping[str, Any] = {}
    suppressions: tuple[Suppression, ...] = ()
    places: Mapping[str, str] = {}

    #: Whether the files were found by search, not named by the caller.
    was_found: bool = False

    def settings(self, cls: type, given: Mapping[str, Any], asked: Collection[str]) -> dict[str, Any]:
        """The values of the options that a class declares, for its constructor.

        What the caller asked for comes first, then what these files hold, then defaults. Of a setting that is a table,
        entries of the files that the caller does not set anew stay.

        :param given: the value of each option, which is its default unless the caller asked for it
        :param asked: the names of the options that the caller asked for
        """
        values = {}
        for name, option in declared(cls).items():
            values[name] = given[name]
            if option.key is None or option.key not in self.values:
                continue
            configured = self.values[option.key]
            if isinstance(configured, dict):
                values[name] = {**configured, **given[name]}
            elif name not in asked:
                values[name] = tuple(configured) if isinstance(configured, list) else configured
        return values

    def affecting_findings(self) -> tuple[tuple[str, tuple[str, ...]], ...]:
        """Each file that changes what is found or what fails a run, with the keys that do it."""
        keys: dict[str, list[str]] = {}
        for key, place in self.places.items():
            if key in VERDICT_KEYS:
                keys.setdefault(shown(place), []).append(key)
        return tuple((place, tuple(sorted(held))) for place, held in sorted(keys.items()))

    def without_verdict_keys(self) -> Config:
        """The configuration without the keys that change what is found or what fails a run."""
        left = {key: value for key, value in self.values.items() if key not in VERDICT_KEYS}
        return Config(left, (), {key: place for key, place in self.places.items() if key in left}, self.was_found)


def found(folder: str = os.curdir, explicit: str | None = None) -> Config:
    """The configuration for a folder.

    :param explicit: a file to use instead of searching; in a `pyproject.toml`, only its table counts
    :raises SettingError: if a file cannot be read, or holds an unknown key or a bad value; it names file and key
    """
    if explicit is not None:
        table = _table(explicit)
        if table is None:
            raise SettingError(f"{shown(explicit)} has no table [tool.i2s]")
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
    try:
        data = read_regular(path, LARGEST)
    except OSError as error:
        raise SettingError(f"{shown(path)}: {error.strerror or type(error).__name__}") from None
    ours = os.path.basename(path) != "pyproject.toml"
    plain = data.translate(None, b" \t\"'")
    if not ours and not any(mention in plain for mention in _MENTIONS):  # spares most runs the TOML parser
        return None
    return parsed(path, data, ours)


def _config(tables: list[tuple[str, dict[str, Any]]]) -> Config:
    """Tables as one configuration; later ones override earlier ones."""
    if not tables:  # most runs
        return Config()
    values: dict[str, Any] = {}
    places: dict[str, str] = {}
    suppressions: tuple[Suppression, ...] = ()
    for path, table in tables:
        for key, value in table.items():
            checked(path, key, value)
            values[key], places[key] = value, path
            kind = OPTIONS[KEYS[key]].kind
            if kind is OptionKind.ACCEPTED:
                suppressions = tuple(suppression(path, item) for item in value if isinstance(item, dict))
                values[key] = [item for item in value if isinstance(item, str)]
            elif kind is OptionKind.FILE:
                values[key] = os.path.relpath(os.path.join(os.path.dirname(path), value))
    return Config(values, suppressions, places)
