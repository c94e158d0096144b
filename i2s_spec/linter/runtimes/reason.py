"""This module defines a reason: why a runtime does with a file what it does, and who says so."""

from __future__ import annotations

from typing import NamedTuple

from i2s_spec.errors import Span


class Reason(NamedTuple):
    """Why a verdict is as it is: a sentence, who says so, where in the file, and what follows of it.

    `effect` is `no`, `crash`, `option`, `vocabulary`, `unknown` (about loading), `wrong`, `cpu`, `doubt` (about computing),
    or `note`. Who says so is cited as `citations` describes; a reason that says that something was not tried needs nobody.
    `check` names a check of loaders: who says that a runtime makes it is declared there.
    """

    text: str
    source: str
    effect: str
    span: Span | None = None
    check: str = ""
