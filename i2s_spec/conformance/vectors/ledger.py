"""This module keeps the ids of vectors and what was published with each: an id is never reused, an answer never changes.

`ledger.tsv` has a line for each vector that ever existed: id, name, the version that added it, SHA-256 of its input, of
its second input, and of its answer, `-` where there is none; the version that retired it; and the flags that mutants
prove: those flags of its draft for which a mutant fails it.
"""

from __future__ import annotations

from collections.abc import Iterable
from hashlib import sha256
from pathlib import Path
from typing import Final, NamedTuple

from i2s_spec.conformance.vectors.draft import Draft
from i2s_spec.conformance.vectors.vector import canonical_json

LEDGER: Final = Path(__file__).with_name("ledger.tsv")
_HEAD: Final = "id\tname\tsince\tinput\tsecond\tanswer\tretired\tflags"


class LedgerLine(NamedTuple):
    """A line of the ledger."""

    id: str
    name: str
    since: str
    input: str
    second: str
    answer: str
    retired: str
    flags: str = "-"

    def fits(self, draft: Draft) -> bool:
        """Whether a draft is equal to what was published."""
        return (self.input, self.second, self.answer) == digests(draft)


def read(path: Path = LEDGER) -> dict[str, LedgerLine]:
    """Every line by the name of its vector."""
    lines = path.read_text(encoding="ascii").splitlines()[1:] if path.exists() else []
    found = [LedgerLine(*line.split("\t")) for line in lines]
    return {line.name: line for line in found}


def digests(draft: Draft) -> tuple[str, str, str]:
    """The digests of a draft's input, second input and answer."""
    answer = draft.expected if draft.expected is not None else b""
    answer += canonical_json(draft.json) if draft.json is not None else b""
    return _digest(draft.data), _digest(draft.second), _digest(answer or None)


def changed(drafts: Iterable[Draft], lines: dict[str, LedgerLine]) -> list[str]:
    """The names of drafts that differ from what was published under their name."""
    return [draft.name for draft in drafts if draft.name in lines and not lines[draft.name].fits(draft)]


def updated(drafts: Iterable[Draft], lines: dict[str, LedgerLine], version: str) -> list[LedgerLine]:
    """The lines, with those of new drafts at the end, and with vectors that no longer exist marked as retired.

    :raises ValueError: where a published vector has changed
    """
    drafts = list(drafts)
    if wrong := changed(drafts, lines):
        raise ValueError(f"{', '.join(wrong)}: the bytes or the answer changed; give the new vector a name of its own")
    names = {draft.name for draft in drafts}
    every = [line._replace(retired=line.retired if line.name in names or line.retired != "-" else version)
            for line in lines.values()]  # fmt: skip
    number = max((int(line.id.removeprefix("I2S-")) for line in every), default=0)
    for draft in drafts:
        if draft.name not in lines:
            number += 1
            every.append(LedgerLine(f"I2S-{number:04}", draft.name, version, *digests(draft), "-"))
    return every


def text(lines: Iterable[LedgerLine]) -> str:
    """The text of the ledger."""
    return "\n".join([_HEAD, *("\t".join(line) for line in lines)]) + "\n"


def _digest(data: bytes | None) -> str:
    return sha256(data).hexdigest() if data is not None else "-"
