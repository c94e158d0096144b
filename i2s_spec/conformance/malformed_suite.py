"""This module writes the malformed files as a folder for other people's test suites, with a manifest.

There is one file for each fault, named after its rule. For each file `manifest.json` (described by
`malformed.schema.json`) gives the code, the clause, the field, the phase by which a reader has to reject it, and where
the fault was seen. Sound files are added, so that a reader that rejects everything does not pass. The same version
writes the same bytes each time.
"""

from __future__ import annotations

import errno
import json
import os
from collections.abc import Callable
from hashlib import sha256
from pathlib import Path
from typing import Any, Final, NamedTuple

from i2s_spec._version import tool
from i2s_spec.conformance.phases import MEANING, READERS, phase_of, reader_of
from i2s_spec.conformance.without_i2s import same_fault, without_i2s
from i2s_spec.fuzzing.inputs import sound
from i2s_spec.gguf.reader import File
from i2s_spec.gguf.source import BufferSource
from i2s_spec.gguf.unfinished import publish_folder, unfinished_folder
from i2s_spec.linter.engine import lint
from i2s_spec.linter.rules import REGISTRY
from i2s_spec.schema.limits import DEFAULT_ALIGNMENT
from i2s_spec.schema.types import I2_S
from i2s_spec.testing.malformed import Case, malformed

SCHEMA_VERSION: Final = 3
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
    if target.exists() and not target.is_dir():
        raise FileExistsError(errno.EEXIST, "this is a file; a folder is to be written", str(target))
    if not force and target.is_dir() and any(target.iterdir()):
        raise FileExistsError(errno.EEXIST, "the folder is not empty; force replaces files in it", str(target))
    target.parent.mkdir(parents=True, exist_ok=True)
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
    """A case without I2_S tensors; None where its fault cannot be shown without them."""
    twin = None if case.large and case.code[0] not in "GH" else without_i2s(case.data)
    return twin if twin is not None and same_fault(case.data, twin, case.code, case.path) else None


def needs_of(data: bytes) -> list[str]:
    """The features without which a program need not read a file, as far as its header can be read."""
    index = File(BufferSource(data)).index
    has = {
        "I2_S": any(index.tensor(i).type == I2_S.number for i in range(index.tensors)),
        "big-endian": index.byte_order == "big",
        "version 2": index.version == OLD_VERSION,
        "alignment": index.alignment is not None and index.alignment != DEFAULT_ALIGNMENT,
    }
    return [name for name, is_so in has.items() if is_so]


def described(case: Case, how: str, data: bytes) -> dict[str, Any]:
    """The manifest's entry for a case; `how` says how its bytes are written: `whole`, `sparse`, or only `described`."""
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
        "span": {"start": span.start, "stop": span.stop, "path": span.path},
        "also": sorted(case.also),
        "phase": phase_of(rule, case.path).value,
        "reader": reader_of(rule, case.path).value,
        "needs": needs_of(data),
        "provenance": list(rule.provenance),
        "cwe": rule.cwe,
    }


def manifest(entries: list[dict[str, Any]], sounds: list[dict[str, Any]], i2s: bool, keys: list[str]) -> dict[str, Any]:
    """The manifest of these files, in the shape that `malformed.schema.json` describes."""
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
