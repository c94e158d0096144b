"""This module gives the next step after findings: which of them `i2s fix` repairs, with which option, and what to type."""

from __future__ import annotations

import shlex
from collections.abc import Iterable
from typing import Any, Final, NamedTuple

from i2s_spec.linter.rule import REGISTRY, Fix, Rule

#: Characters of a value that needs no quotes on a command line.
_PLAIN: Final = frozenset("ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789/._-")
#: Characters that the escaped form of a path changes, so that it cannot be used on a command line.
_ESCAPED: Final = frozenset({"\\", "\x7f", *map(chr, range(32))})


class RepairStep(NamedTuple):
    """A command that shows how findings can be repaired, without changing anything, and how many of them."""

    command: str
    findings: int


def repair_option(rule: Rule) -> str | None:
    """The option of `i2s fix` that the repair of a rule needs; empty if it needs none, None if there is no repair."""
    if rule.fix is Fix.NONE:
        return None
    return rule.fix_with or ("" if rule.fix is Fix.SAFE else "--unsafe")


def repair_words(code: str) -> str:
    """The note after a finding: `repairable`, `repairable with --unsafe`; empty if there is no repair."""
    rule = REGISTRY.get(code)
    option = None if rule is None else repair_option(rule)
    return "" if option is None else f"repairable with {option}" if option else "repairable"


def repair_step(counts: Iterable[tuple[str, int]], path: str = "FILE") -> RepairStep | None:
    """What to type to repair findings; None if none of them has a repair.

    Repairs without an option come first, then those with the option that the first finding with a repair needs.

    :param counts: codes of rules, each with the number of findings, the worst first
    :param path: one word for a shell
    """
    by_option: dict[str, int] = {}
    for code, count in counts:
        rule = REGISTRY.get(code)
        option = None if rule is None else repair_option(rule)
        if option is not None:
            by_option[option] = by_option.get(option, 0) + count
    if not by_option:
        return None
    option = "" if "" in by_option else next(iter(by_option))
    return RepairStep(f"i2s fix {path}{' ' if option else ''}{option} --dry-run", by_option[option])


def other_command(code: str, got: Any, path: str = "FILE") -> str:
    """The command that repairs a finding that `i2s fix` does not repair; empty if its rule declares none.

    :param got: the value that the finding reports, such as the name of a dialect
    :param path: one word for a shell
    """
    rule = REGISTRY.get(code)
    return rule.command.format(path=path, got=got) if rule is not None and _is_plain(str(got)) else ""


def _is_plain(text: str) -> bool:
    """Whether a word has no characters that a shell interprets."""
    return bool(text) and _PLAIN.issuperset(text)


def on_command_line(path: str) -> str:
    """An escaped path (`errors.quote`, bare) as one word for a shell; FILE if escaping changed the path."""
    if not path or not _ESCAPED.isdisjoint(path):
        return "FILE"
    if _is_plain(path) and not path.startswith("-"):
        return path
    return shlex.quote("./" + path if path.startswith("-") else path)
