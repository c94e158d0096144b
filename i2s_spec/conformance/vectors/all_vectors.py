"""This module is the suite: every draft with its id, in the order of the ids. It also reads an exported suite."""

from __future__ import annotations

import json
import os
from collections.abc import Callable, Iterator, Mapping
from functools import cache, partial
from pathlib import Path
from typing import Final

from i2s_spec.conformance.vectors import files_made, group_payloads, i2s_payloads, ledger, models_made, numbers_made
from i2s_spec.conformance.vectors.draft import Draft
from i2s_spec.conformance.vectors.vector import Blob, Suite, Vector

#: Version of the suite: a minor version adds vectors, a major one changes answers.
SUITE_VERSION: Final = "1.0.0"

#: Version of the protocol to which `args`, `compare` and answers belong.
PROTOCOL: Final = "i2s-cp/1"

MANIFEST: Final = "manifest.json"

#: The makers of vectors, in the order of a suite without a ledger.
MAKERS: Final[tuple[Callable[[], Iterator[Draft]], ...]] = (
    i2s_payloads.drafts,
    group_payloads.drafts,
    numbers_made.drafts,
    files_made.drafts,
    models_made.drafts,
)


@cache
def drafts() -> tuple[Draft, ...]:
    """Every draft.

    :raises ValueError: where two have the same name
    """
    found = tuple(draft for maker in MAKERS for draft in maker())
    if twice := {draft.name for draft in found if sum(other.name == draft.name for other in found) > 1}:
        raise ValueError(f"{', '.join(sorted(twice))}: two vectors have this name")
    return found


@cache
def suite() -> Suite:
    """Every vector that this version of the package has, with the flags that mutants prove."""
    return suite_of(ledger.read())


def suite_of(lines: Mapping[str, ledger.LedgerLine], declared: bool = False) -> Suite:
    """The suite under the ids of a ledger. A draft without an id, which `i2s vectors register` gives it, is not in it yet.

    :param declared: with all flags of the drafts, whether or not a mutant proves them
    """
    vectors = []
    places: dict[str, str] = {}
    for draft in drafts():
        if draft.name not in lines:
            continue
        line = lines[draft.name]
        vectors.append(_vector(draft, line, draft.flags if declared else _flags(line), places))
    return Suite(SUITE_VERSION, tuple(sorted(vectors, key=lambda vector: vector.id)))


def _vector(draft: Draft, line: ledger.LedgerLine, flags: tuple[str, ...], places: dict[str, str]) -> Vector:
    """A draft with its id; equal bytes are stored once, at the path of the first vector that has them."""

    def blob(data: bytes | None, digest: str, ending: str) -> Blob | None:
        if data is None:
            return None
        path = places.setdefault(digest, f"data/{line.id}.{ending}")
        return Blob(path, digest, len(data), lambda: data)

    given = blob(draft.data, line.input, "in")
    assert given is not None
    answer = blob(draft.expected, Blob.of("", draft.expected).sha256, "out") if draft.expected is not None else None
    return Vector(
        line.id, draft.op, draft.clause, draft.requirement, draft.rule, draft.features, flags, draft.verdict,
        draft.phase, draft.compare, line.since, draft.comment, draft.args, draft.json, given,
        blob(draft.second, line.second, "in2"), answer,
    )  # fmt: skip


def _flags(line: ledger.LedgerLine) -> tuple[str, ...]:
    return () if line.flags == "-" else tuple(line.flags.split(","))


def load(folder: str | os.PathLike[str]) -> Suite:
    """An exported suite; its bytes are read when they are needed.

    :raises OSError: where there is no manifest
    :raises ValueError: for a manifest of another protocol, or one that is not JSON
    """
    root = Path(folder)
    manifest = json.loads((root / MANIFEST).read_text(encoding="utf-8"))
    if manifest.get("protocol") != PROTOCOL:
        raise ValueError(f"the manifest is of protocol {manifest.get('protocol')!r}; this is {PROTOCOL}")
    read = partial(_bytes_of, root)
    return Suite(manifest["suite_version"], tuple(Vector.from_entry(entry, read) for entry in manifest["vectors"]))


def _bytes_of(root: Path, path: str) -> bytes:
    found = (root / path).resolve()
    if not found.is_relative_to(root.resolve()):
        raise ValueError(f"{path} is outside the folder of the suite")
    return found.read_bytes()
