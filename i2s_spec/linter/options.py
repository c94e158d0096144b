"""This module defines `Options`: how files are linted, validated once, with the rules that they select.

Everything in it is plain data that can be pickled: worker processes get the selected rules and do not select again.

    >>> options = Options(profile="security", ignore=("S1",))
    >>> options.reading, "S101" in options.levels
    ('none', False)
"""

from __future__ import annotations

import os
from collections.abc import Callable, Mapping
from functools import cache
from typing import TYPE_CHECKING, Any

from i2s_spec.errors import counted
from i2s_spec.gguf.source import Origin
from i2s_spec.inspect.survey.reading import Mode
from i2s_spec.linter.rule import Severity
from i2s_spec.linter.selection.profile import READINGS, reading_of, selected, suppressed_codes
from i2s_spec.schema.limits import checked

if TYPE_CHECKING:
    from i2s_spec.linter.reference import Reference
    from i2s_spec.linter.selection.suppressions import Suppression
    from i2s_spec.remote.policy import Policy

#: Attributes that are computed from the others.
_DERIVED = ("levels", "reading")


class Options:
    """How files are linted.

    :param profile: which rules apply; `default` is as strict as the strictest loader that knows type 36
    :param select: prefixes of codes, or slugs, that apply instead of those of the profile
    :param ignore: prefixes or slugs that do not apply
    :param severity: severities by prefix or slug, over those of the profile
    :param limits: bounds by name, over those of `i2s_spec.schema.limits`
    :param payload: how much of the weights is read: `full`, a bounded part of each tensor (`sample`), or `none`; by
    default what the profile says, mostly `full`
    :param threads: how many threads read the weights
    :param runtimes: whether to say which runtimes load the file and compute correctly with it
    :param suppressed: prefixes or slugs whose findings are counted and not listed, each with the reason
    :param suppressions: the same for files whose name matches a pattern
    :param skip_lfs: a Git LFS pointer is no finding: the file is reported as skipped
    :param reference: another file of the same model, whose weights are right. It decides what the file alone does not show
    :param details: called with the file while it is open; its result is the report's `details`
    :param remote: which requests to servers are allowed for a file that is given by its address; by default the current
    policy
    :raises ValueError: for an unknown profile, prefix, severity, bound or reading, and a reference without payloads
    """

    #: The given values, and what follows from them: the active rules by code, each with its severity, and how much of
    #: the weights is read.
    __slots__ = (
        "details", "ignore", "levels", "limits", "payload", "profile", "reading", "reference", "remote", "runtimes",
        "select", "severity", "skip_lfs", "suppressed", "suppressions", "threads",
    )  # fmt: skip

    # Written by hand: a dataclass would make every start of `i2s lint` a tenth slower.
    def __init__(
        self,
        profile: str = "default",
        select: tuple[str, ...] = (),
        ignore: tuple[str, ...] = (),
        severity: Mapping[str, Severity | str] | None = None,
        limits: Mapping[str, int] | None = None,
        payload: Mode | None = None,
        threads: int = 1,
        runtimes: bool = False,
        suppressed: Mapping[str, str] | None = None,
        suppressions: tuple[Suppression, ...] = (),
        skip_lfs: bool = False,
        reference: Reference | None = None,
        details: Callable[[Any], Any] | None = None,
        remote: Policy | None = None,
    ) -> None:
        if payload not in (None, *READINGS):
            raise ValueError(f"unknown reading {payload!r} of payloads; there are: {', '.join(READINGS)}")
        if threads < 1:
            raise ValueError(f"{counted(threads, 'thread')} cannot read: at least 1 is needed")
        self.profile = profile
        self.select = select
        self.ignore = ignore
        self.severity: Mapping[str, Severity | str] = severity or {}
        self.limits: Mapping[str, int] = limits or {}
        self.payload = payload
        self.threads = threads
        self.runtimes = runtimes
        self.suppressed: Mapping[str, str] = suppressed or {}
        self.suppressions = suppressions
        self.skip_lfs = skip_lfs
        self.reference = reference
        self.details = details
        self.remote = remote
        dict(checked(self.limits))
        self.reading: Mode = payload or reading_of(profile)
        if reference is not None:
            if self.reading == "none":
                raise ValueError("a reference needs payloads to be read: use payload='full' or 'sample'")
            reference.check()
        self.levels: Mapping[str, Severity] = selected(
            profile, select, ignore, self.severity,
            payload=self.reading != "none", runtimes=runtimes, reference=reference is not None,
        )  # fmt: skip
        suppressed_codes(self.suppressed)
        for suppression in suppressions:
            suppressed_codes(dict.fromkeys(suppression.codes, suppression.reason))

    def replaced(self, **changes: Any) -> Options:
        """The same options with these changes."""
        return Options(**{name: getattr(self, name) for name in self.__slots__ if name not in _DERIVED} | changes)

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Options) and all(
            getattr(self, name) == getattr(other, name) for name in self.__slots__ if name not in _DERIVED
        )

    __hash__ = None  # type: ignore[assignment]  # mappings have none

    def __repr__(self) -> str:
        given = (f"{name}={getattr(self, name)!r}" for name in self.__slots__ if name not in _DERIVED)
        return f"Options({', '.join(given)})"

    @property
    def ignored(self) -> frozenset[str]:
        """Codes of the rules of the profile that do not apply because of `select` and `ignore`."""
        if not self.select and not self.ignore:
            return frozenset()
        profile = selected(
            self.profile, payload=self.reading != "none", runtimes=self.runtimes, reference=self.reference is not None
        )
        return frozenset(profile) - frozenset(self.levels)

    def suppressed_in(self, path: str | None) -> dict[str, str]:
        """The codes whose findings in a file are counted but not listed, each with the reason."""
        if path is None or not self.suppressions:
            return suppressed_codes(self.suppressed)
        from i2s_spec.linter.selection.suppressions import suppressed_in

        return suppressed_codes({**self.suppressed, **suppressed_in(path, self.suppressions)})


@cache
def defaults() -> Options:
    """The default options."""
    return Options()


def options_of(keywords: Mapping[str, Any]) -> Options:
    """Options from keyword arguments: any kind of sequence is accepted, and a plain path as the reference."""
    given = dict(keywords)
    if "excused" in given:  # this option's name in version 0.1.0
        given["suppressed"] = given.pop("excused")
    for name in ("select", "ignore", "suppressions"):
        if name in given:
            given[name] = tuple(given[name])
    for name in ("severity", "limits", "suppressed"):
        given[name] = dict(given.get(name) or {})
    reference = given.get("reference")
    if reference is not None:
        from i2s_spec.linter.reference import Reference

        given["reference"] = reference if isinstance(reference, Reference) else Reference(reference)
    return Options(**given)


def path_of(origin: Origin) -> str | None:
    """The path of a file, if it is given by its path."""
    return os.fspath(origin) if isinstance(origin, str | os.PathLike) else None
