"""This module defines the result of a check: passed, failed, or not made, with what was compared.

A check that could not be made says why. Only a check that compared something can pass.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, Final, NamedTuple

PASSED: Final = "passed"
FAILED: Final = "failed"
NOT_MADE: Final = "not made"

#: Every check by its letter, in the order in which it is made.
CHECKS: Final = {
    "a": "every tensor of the checkpoint is in the file, once, and nothing else is",
    "b": "codes and floats of every tensor equal those derived from the checkpoint",
    "c": "scales, bit for bit, and what weight_scale does",
    "d": "shares of -1, 0 and +1; no code without a meaning",
    "e": "the order of rows that rotation pairs",
    "f": "token ids of texts, special tokens and the chat template",
    "g": "logits of the file and of the checkpoint",
    "h": "lint finds no error",
    "i": "share of trits that differ from a base model",
    "k": "sizes, rotation and context equal config.json",
}


class Check(NamedTuple):
    """The result of one check.

    :param id: a letter of `CHECKS`
    :param status: `passed`, `failed` or `not made`
    :param detail: what was compared, or why nothing was compared, in a sentence
    :param facts: numbers for JSON
    """

    id: str
    status: str
    detail: str
    facts: Mapping[str, Any] = {}

    def as_dict(self) -> dict[str, Any]:
        return {
            "id": self.id, "checks": CHECKS[self.id], "status": self.status, "detail": self.detail,
            "facts": dict(self.facts),
        }  # fmt: skip


def concluded(id: str, problems: Sequence[str], detail: str, facts: Mapping[str, Any] | None = None) -> Check:
    """A check that was made: failed with its first problems, else passed.

    :param detail: the sentence if there are no problems
    """
    if not problems:
        return Check(id, PASSED, detail, facts or {})
    more = f"; and {len(problems) - 3:,} more" if len(problems) > 3 else ""
    return Check(id, FAILED, "; ".join(problems[:3]) + more, {**(facts or {}), "problems": len(problems)})
