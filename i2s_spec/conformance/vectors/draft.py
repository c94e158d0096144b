"""This module collects vectors before they have ids: a draft is a vector that only has a name.

Modules that make vectors yield drafts; `ledger` has the id of each name, and the digests with which it was published.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any


@dataclass(frozen=True)
class Draft:
    """A vector without an id; the fields are those of `vector.Vector`.

    :param name: stable and unique; the ledger finds the id by it
    """

    name: str
    op: str
    clause: str
    data: bytes = field(repr=False)
    comment: str
    second: bytes | None = field(default=None, repr=False)
    expected: bytes | None = field(default=None, repr=False)
    json: Any = None
    args: Mapping[str, Any] = field(default_factory=dict)
    features: tuple[str, ...] = ()
    flags: tuple[str, ...] = ()
    compare: Mapping[str, Any] = field(default_factory=lambda: {"class": "exact"})
    verdict: str = "valid"
    phase: str | None = None
    requirement: str | None = None
    rule: str | None = None
