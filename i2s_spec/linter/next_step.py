"""This module says what to do about findings: which of them `i2s fix` repairs, with which option, and what to type."""

from __future__ import annotations

from i2s_spec.light_typing import Any, Final, Iterable, NamedTuple
from i2s_spec.linter.rule import REGISTRY, Fix, Rule

#: Characters of a value that stands on a command line as it is.
_PLAIN: Final = frozenset("ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789/._-")
#: Characters that the escaped form of a path does not show as they are, so that no command line may carry it.
_ESCAPED: Final = frozenset({"\\", "\x7f", *map(chr, range(32))})


class RepairStep(NamedTuple):
    """A command that shows, and changes nothing, how findings can be repaired, and how many of them."""

    command: str
    findings: int


def repair_option(rule: Rule) -> str | None:
    """The option without which `i2s fix` leaves findings of a rule alone; empty for none, None where there is no repair."""
    if rule.fix is Fix.NONE:
        return None
    return rule.fix_with or ("" if rule.fix is Fix.SAFE else "--unsafe")


def repair_words(code: str) -> str:
    """What a report says after a finding: `repairable`, `repairable with --unsafe`; empty where there is no repair."""
    rule = REGISTRY.get(code)
    option = None if rule is None else repair_option(rule)
    return "" if option is None else f"repairable with {option}" if option else "repairable"


def repair_step(counts: Iterable[tuple[str, int]], path: str = "FILE") -> RepairStep | None:
    """What to type to repair findings; None where none of them has a repair.

    Repairs that need no option come first, then those that the first finding with a repair needs.

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
    """The command that repairs what a finding is about where `i2s fix` does not; empty where its rule declares none.

    :param got: what the finding says there is, such as the name of a dialect
    :param path: one word for a shell
    """
    rule = REGISTRY.get(code)
    return rule.command.format(path=path, got=got) if rule is not None and _is_plain(str(got)) else ""


def _is_plain(text: str) -> bool:
    """Whether no shell sees anything in a word but the word."""
    return bool(text) and _PLAIN.issuperset(text)


def on_command_line(path: str) -> str:
    """An escaped path (`errors.quote`, bare) as one word for a shell; FILE where the escaped form is not the path itself."""
    if not path or not _ESCAPED.isdisjoint(path):
        return "FILE"
    if _is_plain(path) and not path.startswith("-"):
        return path
    import shlex

    return shlex.quote("./" + path if path.startswith("-") else path)
