"""The choice of rules for a file, the severity of their findings, and the suppressions.

A profile is data. `selected` combines it with the rules that a caller selects and ignores and with changed severities,
and gives the active rules with their severities. A prefix is the beginning of a code (`P`, `P2`, `I104`) or a whole
slug; if several match a rule, the longest counts.

A `Suppression` accepts findings in files with certain names, and must have a reason. The findings that it covers are
counted in every report, and a suppression that covered nothing in a run is mentioned, so that it can be removed.

    >>> Suppression("models/**/old-*.gguf", ("P1",), "made before the gap was closed").covers("models/a/b/old-1.gguf")
    True
"""

from __future__ import annotations

import os
import re
from collections.abc import Callable, Collection, Iterable, Mapping
from functools import lru_cache
from typing import Final, NamedTuple, get_args

from i2s_spec.errors import quote
from i2s_spec.inspect.survey import Mode
from i2s_spec.linter.analysis.conditions import (
    adapters_with_base,
    compared_with_record,
    compared_with_reference,
    runtimes_requested,
)
from i2s_spec.linter.report_data import FileReport
from i2s_spec.linter.rule import OTHER_FORMATS, Rule, Severity, When
from i2s_spec.linter.rules import REGISTRY
from i2s_spec.schema import faults

ERROR, WARNING = Severity.ERROR, Severity.WARNING


class Profile(NamedTuple):
    """A choice of rules for one purpose.

    `select` and `ignore` are prefixes of codes, or slugs to ignore; `weaknesses` adds every rule that names a CWE.
    `promote` makes warnings errors, by prefix or slug; rules below `least` do not apply. Without `payload` the weights
    are not read unless the caller says so. `by_document` accepts what the GGUF document allows although no loader of
    I2_S does (clause 3.1).
    """

    name: str
    purpose: str
    select: tuple[str, ...] = ("",)
    ignore: tuple[str, ...] = ()
    weaknesses: bool = False
    promote: tuple[str, ...] = ()
    least: Severity = Severity.NOTE
    payload: bool = True
    by_document: bool = False

    def has_every_rule(self, other_format: bool) -> bool:
        """Whether all rules are in it that apply to a GGUF file, or to other formats as well."""
        ignores_none = not self.ignore or (self.ignore == _OF_FOLDERS and not other_format)
        return "" in self.select and ignores_none and self.least is Severity.NOTE


#: Slugs of rules on folders alone that most profiles leave out.
_OF_FOLDERS: Final = ("checkpoint-code",)


#: Every profile by its name.
PROFILES: dict[str, Profile] = {
    profile.name: profile
    for profile in (
        Profile("default", "what the strictest loader that knows type 36 refuses, and other things worth knowing",
                ignore=_OF_FOLDERS),
        Profile("spec", "only what the specification demands, whoever reads the file", ("G", "I", "M", "T"), least=ERROR,
                by_document=True),
        Profile("bitnet.cpp", "a file for bitnet.cpp: what only other runtimes refuse is ignored",
                ignore=("P1", *_OF_FOLDERS)),
        Profile("llama.cpp", "a file for upstream llama.cpp: what it refuses is an error",
                ignore=_OF_FOLDERS, promote=("P",)),
        Profile("security", "untrusted files, from the header: bounds, hidden bytes, active text, known weaknesses",
                ("G", "S"), weaknesses=True, promote=("text-not-read",), payload=False),
        Profile("strict", "a file to publish: every warning is an error", promote=("",)),
    )
}  # fmt: skip

#: How much of the payloads may be read.
READINGS: tuple[Mode, ...] = get_args(Mode)

#: Rules that say that there was nothing to check; they always apply.
INDISPENSABLE = faults.NO_INPUT | {faults.CHANGED.code}


def profile_named(name: str) -> Profile:
    """Return the profile of that name.

    :raises ValueError: where there is none
    """
    try:
        return PROFILES[name]
    except KeyError:
        raise ValueError(f"unknown profile {quote(name)}; there are: {', '.join(PROFILES)}") from None


def reading_of(profile: str) -> Mode:
    """Return how much of the payloads is read by default with a profile."""
    return "full" if profile_named(profile).payload else "none"


def selected(
    profile: str = "default",
    select: Iterable[str] = (),
    ignore: Iterable[str] = (),
    severity: Mapping[str, Severity | str] | None = None,
    *,
    payload: bool = True,
    runtimes: bool = False,
    reference: bool = False,
    record: bool = False,
    other_format: bool = False,
) -> dict[str, Severity]:
    """Return the active rules by code, with their severities.

    :param select: prefixes of codes, or slugs, that apply instead of those of the profile. A fault that stops the
    reader is always reported: a file that was not read cannot be sound
    :param ignore: prefixes or slugs that do not apply; if `select` and `ignore` match, the longer prefix wins
    :param severity: severities by prefix or slug
    :param payload: whether payloads are read; if not, rules that need them do not apply
    :param runtimes: whether runtimes are reported on; if not, rules on them do not apply
    :param reference: whether there is a reference; if not, rules that need one do not apply
    :param record: the same for a record of the header
    :param other_format: whether it is a file of another format, such as a checkpoint; if not, rules on these do not apply
    :raises ValueError: for an unknown profile, a prefix that matches no rule, or an unknown severity
    """
    base, wanted, unwanted = profile_named(profile), _prefixes(select), _prefixes(ignore)
    levels = {_prefix(name): _severity(level) for name, level in (severity or {}).items()}
    requested: dict[When, bool] = {
        runtimes_requested: runtimes, compared_with_reference: reference, adapters_with_base: reference,
        compared_with_record: record,
    }  # fmt: skip
    in_force: dict[str, Severity] = {}
    as_declared = not levels and not base.promote
    every_rule = not wanted and not unwanted and base.has_every_rule(other_format)
    for rule in REGISTRY.values():
        code, level = rule.code, rule.severity if as_declared else _level(rule, base, levels)
        if code not in INDISPENSABLE:
            if not requested.get(rule.when, True) or (rule.payload and not payload):
                continue
            if rule.family == OTHER_FORMATS and not other_format:
                continue
            if every_rule:
                applies = True
            elif wanted:
                applies = _fit(code, wanted) > _fit(code, unwanted) or (rule.check is None and _fit(code, unwanted) < 0)
            else:
                applies = _fit(code, unwanted) < 0 and (rule.check is None or _belongs(rule, level, base))
            if not applies:
                continue
        in_force[code] = level
    return in_force


def _belongs(rule: Rule, level: Severity, profile: Profile) -> bool:
    """Whether a rule is one of a profile's."""
    if not rule.code.startswith(profile.select) and not (profile.weaknesses and rule.cwe is not None):
        return False
    if profile.least is not Severity.NOTE and level.rank < profile.least.rank:
        return False
    return not (rule.slug in profile.ignore or rule.code.startswith(profile.ignore))


def suppressed_codes(reasons: Mapping[str, str]) -> dict[str, str]:
    """Return the codes that prefixes or slugs match, each with the reason of its longest prefix.

    Findings that say that there was nothing to check cannot be suppressed.

    :raises ValueError: if no rule matches
    """
    if not reasons:  # spares most runs a walk over all rules
        return {}
    by_prefix = {_prefix(name): reason for name, reason in reasons.items()}
    found: dict[str, str] = {}
    for code in REGISTRY:
        length = _fit(code, by_prefix)
        if length >= 0 and code not in INDISPENSABLE:
            found[code] = by_prefix[code[:length]]
    return found


def _level(rule: Rule, base: Profile, levels: Mapping[str, Severity]) -> Severity:
    """Return the severity of a rule: from the caller, else from the profile, else from the rule itself."""
    if levels:
        fitting = [prefix for prefix in levels if rule.code.startswith(prefix)]
        if fitting:
            return levels[max(fitting, key=len)]
    if base.promote and rule.severity is WARNING and rule.code.startswith(base.promote):
        return ERROR
    return ERROR if rule.severity is WARNING and rule.slug in base.promote else rule.severity


def _fit(code: str, prefixes: Collection[str]) -> int:
    """Return the length of the longest prefix with which a code begins, -1 if there is none."""
    if not prefixes:  # most runs, for every rule
        return -1
    return max((len(prefix) for prefix in prefixes if code.startswith(prefix)), default=-1)


def _prefixes(names: Iterable[str]) -> tuple[str, ...]:
    """Return each prefix once: a configuration of a megabyte can repeat one a hundred thousand times."""
    return tuple(dict.fromkeys(map(_prefix, dict.fromkeys(names))))


def _prefix(name: str) -> str:
    """Return the prefix of codes that a caller means: a prefix in any case, or the slug of a rule.

    :raises ValueError: if no rule matches
    """
    upper = name.strip().upper()
    if upper and any(code.startswith(upper) for code in REGISTRY):
        return upper
    for rule in REGISTRY.values():
        if rule.slug == name.strip().lower():
            return rule.code
    raise ValueError(f"no rule has a code that begins with {quote(name)}, or that slug; `i2s rules` lists them all")


def _severity(level: Severity | str) -> Severity:
    try:
        return Severity(level)
    except ValueError:
        known = ", ".join(Severity)
        raise ValueError(f"unknown severity {quote(str(level))}; there are: {known}") from None


# --- suppressions ----------------------------------------------------------------------------------------------------


class Suppression(NamedTuple):
    """Codes (prefixes or slugs) that are suppressed in the files that match a pattern, and why.

    A pattern is relative to `base`, the folder of the file that holds the suppression. `*` and `?` stand for parts of
    one name and `**` for any number of folders; a pattern without `/` matches names in every folder. With `sha256` only
    the file with these bytes is meant: once it is another, its findings are back.
    """

    files: str
    codes: tuple[str, ...]
    reason: str
    base: str = ""
    sha256: str = ""

    def covers(self, path: str) -> bool:
        """Whether the pattern matches a path, which is relative to the current folder."""
        return _pattern(self.files).fullmatch(seen_from(self.base, path)) is not None


def suppressed_in(
    path: str, suppressions: Iterable[Suppression], digest: Callable[[], str] = lambda: ""
) -> dict[str, str]:
    """Return the prefixes or slugs that are suppressed in one file, each with its reason; later ones override
    earlier ones.

    :param digest: gives the SHA-256 of the file; called only if it matters
    """
    return {
        code: suppression.reason
        for suppression in suppressions
        if suppression.covers(path) and (not suppression.sha256 or suppression.sha256 == digest())
        for code in suppression.codes
    }


def used(suppressions: Iterable[Suppression], path: str, report: FileReport) -> set[Suppression]:
    """Return the suppressions that covered a finding of a report."""
    reasons = {suppressed["reason"] for suppressed in report["excused"]}
    return {suppression for suppression in suppressions if suppression.reason in reasons and suppression.covers(path)}


def seen_from(folder: str, path: str) -> str:
    """Return a path relative to a folder (the current one if it has no name), with `/` between its parts.

    An empty path names no file and stays empty.
    """
    return os.path.relpath(path, folder or os.curdir).replace(os.sep, "/") if path else path


@lru_cache(maxsize=256)
def _pattern(glob: str) -> re.Pattern[str]:
    """Return a glob as a regular expression for a whole relative path."""
    if "/" not in glob:
        glob = "**/" + glob
    expression = ""
    for piece in re.findall(r"\*\*/|/\*\*$|\*\*|\*|\?|[^*?]+", glob.removeprefix("/")):
        expression += {"**/": "(?:[^/]+/)*", "/**": "/.*", "**": ".*", "*": "[^/]*", "?": "[^/]"}.get(
            piece, re.escape(piece)
        )
    return re.compile(expression, re.DOTALL)
