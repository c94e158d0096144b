"""This module defines repairs, the actions that they propose, and the registry of repairs by rule."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import TYPE_CHECKING, NamedTuple

from i2s_spec.convert.container.edits import Edit
from i2s_spec.errors import Span
from i2s_spec.linter.rule import Fix

if TYPE_CHECKING:
    from i2s_spec.linter.repair.workspace import Workspace


class DataPlacement(NamedTuple):
    """Where the data section begins before the repair, and the alignment after it."""

    base: int
    alignment: int


class Action(NamedTuple):
    """One finding's repair: the edits, which are made together or not at all, and a sentence that says what they do.

    An action of a safe repair is always `safe`; an action of an unsafe repair may be proved safe.
    """

    code: str
    at: Span
    does: str
    edits: tuple[Edit, ...]
    safe: bool
    layout: DataPlacement | None = None


class Declined(NamedTuple):
    """A finding whose repair does not apply here, and why."""

    code: str
    at: Span
    why: str


Outcome = Action | Declined
Propose = Callable[["Workspace"], Iterable[Outcome]]


class Repair(NamedTuple):
    """How the findings of one rule are repaired.

    `does` describes it in a few words. A repair `by_name` rests on a suspicion only: it is made only if its whole code
    is selected. `weights` says whether it changes what `i2s hash` calls the weights: names, shapes, types and contents
    of tensors, or which tensors there are. `option` is the option of `i2s fix` that the repair needs besides
    `--unsafe`: a choice that only the user can make, with its usual value.
    """

    code: str
    safety: Fix
    does: str
    propose: Propose
    by_name: bool = False
    weights: bool = False
    option: str = ""


#: Every repair by its rule's code, in the order in which they are tried.
REPAIRS: dict[str, Repair] = {}


def repair(
    code: str, safety: Fix, does: str, *, by_name: bool = False, weights: bool = False, option: str = ""
) -> Callable[[Propose], Propose]:
    """Declare the decorated function as the repair of a rule's findings; a function may repair several rules."""

    def register(propose: Propose) -> Propose:
        if code in REPAIRS:
            raise ValueError(f"rule {code} has two repairs")
        if safety is Fix.NONE or (weights and safety is Fix.SAFE):
            raise ValueError(f"a repair of {code} is safe or unsafe, and unsafe if it changes weights")
        REPAIRS[code] = Repair(code, safety, does, propose, by_name, weights, option)
        return propose

    return register
