"""This module checks the tables of configuration files: their keys, which the options declare, and values."""

from __future__ import annotations

import os
import re
from collections.abc import Callable, Mapping
from functools import partial
from typing import Any, Final

from i2s_spec.errors import SettingError, quote
from i2s_spec.linter.options import Option, OptionKind, Options, RunOptions, declared
from i2s_spec.linter.selection.suppressions import Suppression

#: Most names in a dotted key: the parser's time grows with their square.
MOST_NAMES = 64

#: A string on one line: dots in it are not those of a key.
_QUOTED = re.compile(rb"\"(?:[^\"\\\n]|\\.)*\"|'[^'\n]*'")

#: Keys of a suppression.
_SUPPRESSION = {"files", "codes", "reason"}


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


def _table_of(wanted: type, words: str, value: Any) -> str | None:
    good = isinstance(value, dict) and all(type(item) is wanted for item in value.values())
    return None if good else f"must be a table of {words}"


def _ignored(value: Any) -> str | None:
    good = isinstance(value, list) and all(isinstance(item, str | dict) for item in value)
    return None if good else "must be a list of codes and of tables with files, codes and reason"


def _wrong(option: Option, value: Any) -> str | None:
    """What is wrong with the value of an option in a file, if anything."""
    match option.kind:
        case OptionKind.CHOICE:
            good = isinstance(value, str) and value in option.choices
            return None if good else f"must be one of {', '.join(option.choices)}"
        case OptionKind.COUNT:
            return _count(value, option.least)
        case kind:
            return _CHECKS[kind](value)


#: For the other kinds of options in files, a function that says what is wrong with a value, if anything.
_CHECKS: Final[Mapping[OptionKind, Callable[[Any], str | None]]] = {
    OptionKind.FLAG: _flag,
    OptionKind.TEXT: _text,
    OptionKind.FILE: _text,
    OptionKind.WORDS: _texts,
    OptionKind.ACCEPTED: _ignored,
    OptionKind.LEVELS: partial(_table_of, str, "severities by code"),
    OptionKind.BOUNDS: partial(_table_of, int, "numbers by name"),
}

#: Options whose values are tried by making `Options`, which has words for what is wrong with them.
_TRIED: Final = (OptionKind.WORDS, OptionKind.ACCEPTED, OptionKind.LEVELS, OptionKind.BOUNDS)


def keys_of(*classes: type) -> dict[str, str]:
    """Every key that these classes declare, with the name of the field."""
    options = [(name, each) for name, each in declared(*classes).items() if each.key is not None]
    return {str(each.key): name for name, each in sorted(options, key=lambda found: found[1].group.value)}


#: The options by their field's name, and their names by the key.
OPTIONS: Final = declared(Options, RunOptions)
KEYS: Final = keys_of(Options, RunOptions)

#: Keys that change what is found, or which findings fail a run.
VERDICT_KEYS: Final = frozenset(key for key, name in KEYS.items() if OPTIONS[name].affects_verdict)


def parsed(path: str, data: bytes, ours: bool) -> dict[str, Any] | None:
    """The settings in the bytes of a file; None where it has no table for this program.

    :param ours: whether the whole file is for this program
    :raises SettingError: where it is not TOML
    """
    if any(line.count(b".") >= MOST_NAMES for line in _QUOTED.sub(b"", data).split(b"\n")):
        raise SettingError(f"{shown(path)}: a line has a dotted key of more than {MOST_NAMES} names")
    import tomllib  # few runs have a table

    try:
        document = tomllib.loads(data.decode("utf-8"))
    except (ValueError, RecursionError) as error:  # not TOML, not UTF-8, or a number with more digits than Python reads
        raise SettingError(f"{shown(path)}: this is not TOML: {quote(str(error), bare=True)}") from None
    if ours:
        return document
    tool = document.get("tool")
    table = tool.get("i2s") if isinstance(tool, dict) else None
    if table is not None and not isinstance(table, dict):
        raise SettingError(f"{shown(path)}: tool.i2s must be a table")
    return table


def checked(path: str, key: str, value: Any) -> None:
    """
    :raises SettingError: for an unknown key or an invalid value
    """
    if key not in KEYS:
        raise SettingError(f"{shown(path)}: unknown key {quote(key)}; there are: {', '.join(KEYS)}")
    name, option = KEYS[key], OPTIONS[KEYS[key]]
    wrong = _wrong(option, value)
    if wrong is not None:
        raise SettingError(f"{shown(path)}: {key} {wrong}")
    if option.kind in _TRIED:
        try:
            tried: Any = _strings(value) if isinstance(value, list) else value
            Options(**{name: tried})
        except ValueError as error:
            raise SettingError(f"{shown(path)}: {key}: {error}") from None


def _strings(values: list[Any]) -> tuple[str, ...]:
    return tuple(value for value in values if isinstance(value, str))


def suppression(path: str, table: dict[str, Any]) -> Suppression:
    """A table of the key `ignore`.

    :raises SettingError: for an unknown or missing key, or an invalid value
    """
    for key in sorted(table.keys() | _SUPPRESSION):
        if key not in _SUPPRESSION:
            raise SettingError(
                f"{shown(path)}: ignore: unknown key {quote(key)}; there are: {', '.join(sorted(_SUPPRESSION))}"
            )
        value = table.get(key)
        wrong = "is missing" if value is None else _texts(value) if key == "codes" else _text(value)
        if wrong is None and key == "codes" and not value:
            wrong = "is empty"
        if wrong is None and key == "reason" and not str(value).strip():
            wrong = "must not be empty"
        if wrong is not None:
            raise SettingError(f"{shown(path)}: ignore: {key} {wrong}")
    made = Suppression(table["files"], tuple(table["codes"]), " ".join(table["reason"].split()), os.path.dirname(path))
    try:
        Options(suppressions=(made,))
    except ValueError as error:
        raise SettingError(f"{shown(path)}: ignore: {error}") from None
    return made


def shown(path: str) -> str:
    """A path as messages show it: relative to the current folder, and quoted if it is empty."""
    return quote(os.path.relpath(path), limit=4096, bare=True) if path else quote(path)
