"""This module defines a reason: why a runtime loads, refuses or miscomputes a file, and the source of that statement."""

from __future__ import annotations

from typing import NamedTuple

from i2s_spec.errors import Span


class Reason(NamedTuple):
    """The reason for a verdict: a sentence, its source, the place in the file, and its effect.

    `effect` is `no`, `crash`, `option`, `vocabulary`, `unknown` (about loading), `wrong`, `cpu`, `doubt` (about
    computing), or `note`. The source is a citation as `citation` defines it; the reason that something was not tried
    has none. `check` names a check of loaders: the source for the statement that a runtime makes this check is declared
    there.
    """

    text: str
    source: str
    effect: str
    span: Span | None = None
    check: str = ""
