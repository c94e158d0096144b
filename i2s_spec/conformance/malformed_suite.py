"""The malformed files as a folder for other people's test suites, with a manifest.

There is one file for each fault, named after its rule. For each file `manifest.json` (described by
`malformed.schema.json`) gives the code, the clause, the field, the phase by which a reader can know the fault
(`phase_of`), the kind of reader that should reject it, the programs on record that do, and where the fault was seen.
Sound files are added, so that a reader that rejects everything does not pass; and for readers that do not know type 36,
the same files without it (`without_i2s`). The same version writes the same bytes each time.
"""

from __future__ import annotations

import json
import os
from collections.abc import Callable, Container, Iterator
from enum import StrEnum
from functools import cache
from hashlib import sha256
from math import prod
from pathlib import Path
from typing import Any, Final, Literal, NamedTuple

from i2s_spec._version import tool
from i2s_spec.fuzzing.inputs import sound
from i2s_spec.gguf.atomic_file import publish_folder, refuse_full_folder, unfinished_folder
from i2s_spec.gguf.reader import File
from i2s_spec.gguf.source import BufferSource
from i2s_spec.inspect.survey import Reading
from i2s_spec.linter.analysis.context import LintContext
from i2s_spec.linter.engine import lint
from i2s_spec.linter.rule import Rule, Severity
from i2s_spec.linter.rules import REGISTRY
from i2s_spec.linter.rules.files import split_key_missing, split_leftover, split_number
from i2s_spec.linter.rules.keys import alignment_not_honoured, key_not_ascii
from i2s_spec.linter.rules.placement import data_shifted
from i2s_spec.linter.runtimes.verdicts import verdicts
from i2s_spec.schema.keys import KEY_TYPE
from i2s_spec.schema.limits import DEFAULT_ALIGNMENT
from i2s_spec.schema.types import BY_NAME, I2_S, TAIL_BYTES
from i2s_spec.testing.malformed import Case, malformed
from i2s_spec.testing.sample import Draft

SCHEMA_VERSION: Final = 4
MANIFEST: Final = "manifest.json"
MALFORMED: Final = "malformed"
SOUND: Final = "sound"

#: Versions below the present one that a reader may refuse.
OLD_VERSION: Final = 2

#: Larger files are described but not written, unless they are almost all zeros; then they are written as sparse files.
LARGE: Final = 4 << 20
_BLOCK: Final = 4096

#: Called with the number of files done and the number of all files.
Progress = Callable[[int, int], object]


class ExportedCases(NamedTuple):
    """What was written: the malformed files, those only described, the sound files, the total apparent size in bytes,
    and what was left out."""

    written: int
    described: int
    sound: int
    size: int
    left_out: int


def export(
    target: str | os.PathLike[str],
    *,
    huge: bool = False,
    force: bool = False,
    i2s: bool = True,
    progress: Progress | None = None,
) -> ExportedCases:
    """Write the corpus to a folder: all of it, or nothing.

    :param target: a folder that does not exist or is empty
    :param huge: also write files that are larger than 4 MiB and not zeros
    :param force: replace files of the same names in a folder that is not empty; other files in it stay
    :param i2s: if false, tensors of type 36 become F32 tensors of the same bytes, and faults that need I2_S are left out
    :param progress: called with the number of files done and the number of all files
    :raises FileExistsError: where the folder has something in it and `force` is not given
    :raises OSError: where it cannot be written
    """
    target = Path(target)
    refuse_full_folder(target, force, "files")
    with unfinished_folder(target) as part:
        done = _fill(Path(part), huge, i2s, progress)
        _publish(Path(part), target)
    return done


def _fill(folder: Path, huge: bool, i2s: bool, progress: Progress | None) -> ExportedCases:
    cases = sorted(malformed(), key=lambda case: (case.code, case.name))
    (folder / MALFORMED).mkdir()
    (folder / SOUND).mkdir()
    entries, size = [], 0
    for number, case in enumerate(cases):
        data = case.data if i2s else _twin(case)
        if data is not None:
            how = "whole" if len(data) <= LARGE or huge else "sparse" if _is_hollow(data) else "described"
            entry = described(case, how, data)
            if how == "whole":
                (folder / entry["file"]).write_bytes(data)
            elif how == "sparse":
                _write_sparse(folder / entry["file"], data)
            size += len(data) if how != "described" else 0
            entries.append(entry)
        if progress is not None:
            progress(number + 1, len(cases))
    sounds, keys = [], []
    for made in sound():
        whole = made.data if i2s else without_i2s(made.data)
        if whole is None or not (i2s or lint(whole).ok):  # a model whose matrices have other shapes now
            continue
        what = made.what if i2s or I2_S.name not in made.what else f"{made.what}, as F32"
        name = f"{SOUND}/{what.replace(',', '').replace(' ', '-')}.gguf"
        (folder / name).write_bytes(whole)
        digest = sha256(whole).hexdigest()
        sounds.append({"file": name, "what": what, "size": len(whole), "sha256": digest, "needs": needs_of(whole)})
        keys.append({entry.name for entry in File(BufferSource(whole)).metadata.rows})
        size += len(whole)
    always = sorted(name.decode("ascii") for name in set.intersection(*keys))
    text = json.dumps(manifest(entries, sounds, i2s, always), indent=2, ensure_ascii=True) + "\n"
    (folder / MANIFEST).write_text(text, encoding="ascii")
    written = sum(entry["file"] is not None for entry in entries)
    return ExportedCases(written, len(entries) - written, len(sounds), size, len(cases) - len(entries))


def _twin(case: Case) -> bytes | None:
    """Return a case without I2_S tensors; None where its fault cannot be shown without them."""
    twin = None if case.large and case.code[0] not in "GH" else without_i2s(case.data)
    return twin if twin is not None and same_fault(case.data, twin, case.code, case.path) else None


def needs_of(data: bytes) -> list[str]:
    """Return the features without which a program need not read a file, as far as its header can be read."""
    index = File(BufferSource(data)).index
    has = {
        "I2_S": any(index.tensor(i).type == I2_S.number for i in range(index.tensors)),
        "big-endian": index.byte_order == "big",
        "version 2": index.version == OLD_VERSION,
        "alignment": index.alignment is not None and index.alignment != DEFAULT_ALIGNMENT,
    }
    return [name for name, is_so in has.items() if is_so]


def described(case: Case, how: str, data: bytes) -> dict[str, Any]:
    """Return the manifest's entry for a case; `how` says how its bytes are written: `whole`, `sparse`, or only
    `described`.
    """
    rule = REGISTRY[case.code]
    file = f"{MALFORMED}/{case.code}-{case.name}.gguf"
    span = next(f.span for f in lint(data).findings if f.code == case.code and f.span.path == case.path)
    return {
        "name": case.name,
        "file": file if how != "described" else None,
        "written": how,
        "size": len(data),
        "sha256": sha256(data).hexdigest(),
        "code": case.code,
        "slug": rule.slug,
        "severity": rule.severity.value,
        "clause": rule.clause,
        "title": rule.title,
        "span": span.as_dict(),
        "also": sorted(case.also),
        "phase": phase_of(rule, case.path).value,
        "reader": reader_of(rule, case.path).value,
        **programs_of(data),
        "needs": needs_of(data),
        "provenance": list(rule.provenance),
        "cwe": rule.cwe,
    }


def programs_of(data: bytes) -> dict[str, list[str]]:
    """Return the programs on record that reject a file, and those that load it; of the others it is not known."""
    with File(BufferSource(data)) as file:
        found = verdicts(LintContext(file, None, Reading("none")))
    return {key: [each.runtime for each in found if each.loads == word] for key, word in _LOADS.items()}


#: The lists of programs in a manifest's entry, and what `Verdict.loads` says of them.
_LOADS: Final = {"rejected_by": "no", "loaded_by": "yes"}


def manifest(entries: list[dict[str, Any]], sounds: list[dict[str, Any]], i2s: bool, keys: list[str]) -> dict[str, Any]:
    """Return the manifest of these files, in the shape that `malformed.schema.json` describes."""
    return {
        "schema_version": SCHEMA_VERSION,
        "tool": tool(),
        "phases": {phase.value: meaning for phase, meaning in MEANING.items()},
        "readers": {reader.value: meaning for reader, meaning in READERS.items()},
        "i2s": i2s,
        "keys": keys,
        "malformed": entries,
        "sound": sounds,
    }


def _is_hollow(data: bytes) -> bool:
    """Whether a file is zeros but for a few blocks."""
    filled = sum(any(data[at : at + _BLOCK]) for at in range(0, len(data), _BLOCK))
    return filled <= 16


def _write_sparse(path: Path, data: bytes) -> None:
    """Write a file with holes where its blocks are zeros."""
    with path.open("wb") as file:
        for at in range(0, len(data), _BLOCK):
            block = data[at : at + _BLOCK]
            if any(block):
                file.seek(at)
                file.write(block)
        file.truncate(len(data))


def _publish(part: Path, target: Path) -> None:
    """Move the files to their place: the whole folder at once, or one by one into a folder that has other files in it."""
    if not target.exists() or not any(target.iterdir()):
        publish_folder(str(part), target)
        return
    for folder in (MALFORMED, SOUND):
        (target / folder).mkdir(exist_ok=True)
        for file in sorted((part / folder).iterdir()):
            os.replace(file, target / folder / file.name)
    os.replace(part / MANIFEST, target / MANIFEST)


# --- phases ----------------------------------------------------------------------------------------------------------
# How far a reader has to read into a file before it can know the fault. A fault is rejected *at the latest* when that
# part has been read; a reader that stops earlier cannot know it. Faults that are not errors never have to be rejected.
# A program need not reject what it does not look at: a reader of headers knows the size of no tensor, and a reader of
# tensors knows no architecture.


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
    Phase.NEVER: "no reader should reject the file for it",
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
    """Kinds of programs by what they read; each reads what those before it read. `nobody` where no program need
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
    ReaderKind.NOBODY: "no program need reject the file",
}

#: Faults that are errors for a validator but that a plain reader need not reject, and why.
NO_DUTY: Final = {
    KEY_TYPE.code: "the document gives counts another type than the loaders ask for, and a reader may take any integer",
    key_not_ascii.code: "a reader compares keys as bytes and need not judge their characters",
    **dict.fromkeys(
        (split_number.code, split_key_missing.code, split_leftover.code),
        "a reader of one file need not know that it is a part of several",
    ),
}


def reader_of(rule: Rule, path: str) -> ReaderKind:
    """Return the first kind of program that should reject a file which breaks a rule; many programs do not
    (`programs_of`).

    :param path: of the field that the finding points to
    """
    phase = phase_of(rule, path)
    if phase is Phase.NEVER or rule.code in NO_DUTY:
        return ReaderKind.NOBODY
    if rule.family not in "GH" or phase is Phase.PAYLOAD:
        return ReaderKind.MODELS
    return ReaderKind.HEADERS if phase in (Phase.HEADER, Phase.METADATA) else ReaderKind.TENSORS


def phase_of(rule: Rule, path: str) -> Phase:
    """Return how far a reader gets in a file that breaks a rule.

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
    """Return the phase of a rule that compares a field with something further on in the file."""
    if rule.clause.startswith("4."):  # inventories: keys against the table
        return Phase.TABLE
    if rule.code in _OF_TABLE:
        return Phase.TABLE
    return Phase.HEADER


# --- files without I2_S ----------------------------------------------------------------------------------------------
# The same files, with F32 tensors instead of I2_S. An I2_S tensor of n elements takes n/4 + 32 bytes, as do n/16 + 8
# elements of F32. So the type and the dimensions of its tensor info are replaced in place: every length, offset and
# count stays the same, and so does a fault of the container.
#
# Our reader stops at a fault. The tensor infos after it, which a more tolerant reader reaches, are found by the names
# in the sound sample from which the files were made.

_F32_BYTES = BY_NAME["F32"].bytes
_ELEMENTS_OF_A_BYTE = 4
_WORD = 8
_HALF = 4

#: The largest number of dimensions to look for; a file with a wrong number of them has five.
_MOST_SIDES = 8

Order = Literal["little", "big"]


def without_i2s(data: bytes) -> bytes | None:
    """Return a file with F32 tensors of the same bytes; the file itself where it has no I2_S tensor.

    None where that is impossible because a size is not a whole number of floats.
    """
    index = File(BufferSource(data)).index
    changed = bytearray(data)
    found = [index.tensor(i) for i in range(index.tensors)]
    places = [
        (info.ne, info.ne_span.start, info.type_span.start, index.byte_order)
        for info in found
        if info.type == I2_S.number
    ]
    places += _behind_a_fault(data, {info.name for info in found})
    for ne, at_ne, at_type, order in places:
        size = prod(ne) // _ELEMENTS_OF_A_BYTE + TAIL_BYTES
        if prod(ne) % _ELEMENTS_OF_A_BYTE or size % _F32_BYTES:
            return None
        for which in range(len(ne)):
            at = at_ne + _WORD * which
            changed[at : at + _WORD] = (1 if which else size // _F32_BYTES).to_bytes(_WORD, order)
        changed[at_type : at_type + _HALF] = BY_NAME["F32"].number.to_bytes(_HALF, order)
    return bytes(changed) if changed != data else data


@cache
def _sample_names() -> tuple[bytes, ...]:
    """Return the I2_S tensors of the sample of which broken copies are made."""
    index = File(BufferSource(Draft().data)).index
    return tuple(info.name for info in map(index.tensor, range(index.tensors)) if info.type == I2_S.number)


def _behind_a_fault(data: bytes, known: Container[bytes]) -> Iterator[tuple[tuple[int, ...], int, int, Order]]:
    """Yield the dimensions, places and type of those I2_S tensors of the sample that our reader did not reach."""
    order: Order = "little"
    for name in _sample_names():
        record = len(name).to_bytes(_WORD, order) + name
        if name in known or data.count(record) != 1:
            continue
        at = data.index(record) + len(record)
        sides = int.from_bytes(data[at : at + _HALF], order)
        start, stop = at + _HALF, at + _HALF + _WORD * sides
        if sides > _MOST_SIDES or data[stop : stop + _HALF] != I2_S.number.to_bytes(_HALF, order):
            continue
        ne = tuple(int.from_bytes(data[i : i + _WORD], order) for i in range(start, stop, _WORD))
        yield ne, start, stop, order


def same_fault(data: bytes, twin: bytes, code: str, path: str) -> bool:
    """Whether a file has the fault of another file, in the same field, and no error that the other does not have."""
    if twin is data:
        return True
    found = lint(twin).findings
    errors = {finding.code for finding in found if finding.severity is Severity.ERROR}
    known = {finding.code for finding in lint(data).findings if finding.severity is Severity.ERROR}
    return errors <= known and any(finding.code == code and finding.span.path == path for finding in found)
