"""This module says how far a reader has to read into a file before it can know the fault.

A fault is rejected *at the latest* when that part has been read; a reader that stops earlier cannot know it. Faults
that are not errors never have to be rejected. A program need not reject what it does not look at: a reader of headers
knows the size of no tensor, and a reader of tensors knows no architecture.
"""

from __future__ import annotations

from enum import StrEnum
from typing import Final

from i2s_spec.linter.rule import Rule, Severity
from i2s_spec.linter.rules.container.key_names import key_not_ascii
from i2s_spec.linter.rules.container.key_values import alignment_not_honoured
from i2s_spec.linter.rules.container.split_files import split_number
from i2s_spec.linter.rules.container.tensor_placement import data_shifted
from i2s_spec.schema.architectures.keys import KEY_TYPE


class Phase(StrEnum):
    """The parts of a file in the order in which they are read; `never` for a fault that is not an error."""

    HEADER = "header"
    METADATA = "metadata"
    TABLE = "table"
    DATA = "data"
    PAYLOAD = "payload"
    NEVER = "never"


#: What each phase is, in words.
MEANING: Final = {
    Phase.HEADER: "the first 24 bytes and the size of the file",
    Phase.METADATA: "the key-values",
    Phase.TABLE: "the tensor infos",
    Phase.DATA: "where the tensors' bytes lie: the data section against the size of the file",
    Phase.PAYLOAD: "the tensors' bytes themselves: codes, scales and tails",
    Phase.NEVER: "no reader has to reject the file",
}

#: The phase by the part of the schema that a finding points to.
_BY_SECTION: Final = {
    "header": Phase.HEADER,
    "key_values": Phase.METADATA,
    "tensor_infos": Phase.TABLE,
    "padding": Phase.DATA,
    "gap": Phase.DATA,
    "trailing": Phase.DATA,
    "data": Phase.DATA,
}

#: Rules that compare another part of the file with the tensor infos.
_OF_TABLE: Final = frozenset({alignment_not_honoured.code, data_shifted.code})

_ORDER: Final = tuple(Phase)


class ReaderKind(StrEnum):
    """Kinds of programs by what they read; each reads what those before it read. `nobody` where no program has to
    reject the file."""

    HEADERS = "headers"
    TENSORS = "tensors"
    MODELS = "models"
    NOBODY = "nobody"


#: What each kind of program is, in words.
READERS: Final = {
    ReaderKind.HEADERS: "programs that read the header and the key-values",
    ReaderKind.TENSORS: "programs that read tensor infos, too, and fetch the tensors' bytes",
    ReaderKind.MODELS: "programs that load the model of an architecture, and compute with it",
    ReaderKind.NOBODY: "no program has to reject the file",
}

#: Faults that are errors for a validator but that a plain reader need not reject, and why.
NO_DUTY: Final = {
    KEY_TYPE.code: "the document gives counts another type than the loaders ask for, and a reader may take any integer",
    key_not_ascii.code: "a reader compares keys as bytes and need not judge their characters",
    split_number.code: "a reader of one file need not know that it is a part of several",
}


def reader_of(rule: Rule, path: str) -> ReaderKind:
    """The first kind of program that has to reject a file which breaks a rule.

    :param path: of the field that the finding points to
    """
    phase = phase_of(rule, path)
    if phase is Phase.NEVER or rule.code in NO_DUTY:
        return ReaderKind.NOBODY
    if rule.family not in "GH" or phase is Phase.PAYLOAD:
        return ReaderKind.MODELS
    return ReaderKind.HEADERS if phase in (Phase.HEADER, Phase.METADATA) else ReaderKind.TENSORS


def phase_of(rule: Rule, path: str) -> Phase:
    """How far a reader gets in a file that breaks a rule.

    :param path: of the field that the finding points to
    """
    if rule.severity is not Severity.ERROR:
        return Phase.NEVER
    if rule.payload or ".tail" in path:
        return Phase.PAYLOAD
    section = path.partition("[")[0].partition(".")[0]
    pointed = _BY_SECTION[section]
    return max(pointed, _least(rule), key=_ORDER.index)


def _least(rule: Rule) -> Phase:
    """The phase of a rule that compares a field with something further on in the file."""
    if rule.clause.startswith("4."):  # inventories: keys against the table
        return Phase.TABLE
    if rule.code in _OF_TABLE:
        return Phase.TABLE
    return Phase.HEADER
