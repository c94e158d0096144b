"""This module reads a command line of `i2s lint` without click, where it holds nothing but files and plain options.

Anything else is click's: variables that set options, options that are not here, wrong values, help. A test checks that
both read the same, and importing click takes as long as linting.
"""

from __future__ import annotations

import os
from typing import Any, Final

from i2s_spec.linter.report import FORMATS
from i2s_spec.linter.selection.profile import PROFILES, READINGS

#: Options with their values where they are not given, as `lint.command` declares them.
DEFAULTS: Final[dict[str, Any]] = {
    "form": "text",
    "as_json": False,
    "output": None,
    "reports": {},
    "profile": "default",
    "select": (),
    "ignore": (),
    "severity": {},
    "limits": {},
    "payload": None,
    "header_only": False,
    "sample": False,
    "threads": 1,
    "jobs": 1,
    "runtimes": False,
    "reference": None,
    "reference_dialect": None,
    "expect": None,
    "fail_on": "error",
    "baseline": None,
    "write_baseline": False,
    "skip_lfs": False,
    "config": None,
    "no_config": False,
    "quiet": False,
    "engine": None,
    "scheduler": None,
    "results": None,
    "rates": {},
    "in_flight": None,
}

_FLAGS: Final = {
    "--json": "as_json",
    "--header-only": "header_only",
    "--sample": "sample",
    "--runtimes": "runtimes",
    "--skip-lfs": "skip_lfs",
    "--no-config": "no_config",
    "--quiet": "quiet",
    "-q": "quiet",
}
_CHOICES: Final[dict[str, tuple[str, Any]]] = {
    "--format": ("form", FORMATS),
    "--profile": ("profile", PROFILES),
    "--payload": ("payload", READINGS),
}
_NUMBERS: Final = {"--threads": "threads", "--jobs": "jobs"}

#: Variables that no option reads.
_HARMLESS: Final = {"I2S_ISA", "I2S_HIDE", "I2S_DEBUG", "I2S_SHARED", "I2S_INSTALL"}

#: The files of a call, the value of every option by its name, and where each comes from.
PlainCall = tuple[tuple[str, ...], dict[str, Any], dict[str, str]]


def plain_call(words: list[str]) -> PlainCall | None:
    """What a command line after the verb says; None where click has to read it.

    >>> files, given, sources = plain_call(["--header-only", "model.gguf"])
    >>> files, given["header_only"], sources["header_only"], sources["threads"]
    (('model.gguf',), True, 'COMMANDLINE', 'DEFAULT')
    """
    if any(name.startswith("I2S_") and name not in _HARMLESS for name in os.environ):
        return None
    if os.name == "nt" and any(set(word) & set("*?[~$%") for word in words):  # click expands these there
        return None
    given, sources, files = dict(DEFAULTS), dict.fromkeys(DEFAULTS, "DEFAULT"), []
    rest = iter(words)
    for word in rest:
        name, sign, value = word.partition("=")
        if word in _FLAGS:
            name, found = _FLAGS[word], True
        elif name in _CHOICES or name in _NUMBERS:
            value = value if sign else next(rest, "")
            name, found = _valued(name, value)
            if found is None:
                return None
        elif word and not word.startswith("-"):
            files.append(word)
            continue
        else:
            return None
        given[name], sources[name] = found, "COMMANDLINE"
    return (tuple(files), given, sources) if files else None


def _valued(option: str, value: str) -> tuple[str, Any]:
    """The name and the value of an option; no value where click must say what is wrong with it."""
    if option in _CHOICES:
        name, choices = _CHOICES[option]
        # A page says the command line, which click puts together.
        return name, value if value in choices and value != "html" else None
    good = value.isascii() and value.isdigit() and len(value) < 10 and (int(value) > 0 or option == "--jobs")
    return _NUMBERS[option], int(value) if good else None
