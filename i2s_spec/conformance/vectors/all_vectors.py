"""The suite: every draft with its id, in the order of the ids; written to a folder, and read from one.

`suite` makes it, `write_suite` writes it, `load` reads an exported suite, and `single_file` is one vector as a file.
"""

from __future__ import annotations

import errno
import json
import os
import re
from collections.abc import Callable, Iterator, Mapping
from functools import cache, partial
from pathlib import Path
from typing import Any, Final, NamedTuple

from i2s_spec.conformance.explanations import FLAGS
from i2s_spec.conformance.protocol_terms import PROTOCOL, canonical_json
from i2s_spec.conformance.vectors import files, models, payloads
from i2s_spec.conformance.vectors import vector as ledger
from i2s_spec.conformance.vectors.vector import FEATURES, Blob, Draft, Suite, Vector
from i2s_spec.gguf.atomic_file import publish_folder, refuse_full_folder, unfinished_folder

#: Version of the suite: a minor version adds vectors, a major one changes answers.
SUITE_VERSION: Final = "1.1.0"

MANIFEST: Final = "manifest.json"

#: The makers of vectors, in the order of a suite without a ledger.
MAKERS: Final[tuple[Callable[[], Iterator[Draft]], ...]] = (
    payloads.drafts,
    payloads.group_drafts,
    models.number_drafts,
    files.drafts,
    models.drafts,
)


@cache
def drafts() -> tuple[Draft, ...]:
    """Return every draft.

    :raises ValueError: where two have the same name
    """
    found = tuple(draft for maker in MAKERS for draft in maker())
    if twice := {draft.name for draft in found if sum(other.name == draft.name for other in found) > 1}:
        raise ValueError(f"{', '.join(sorted(twice))}: two vectors have this name")
    return found


@cache
def suite() -> Suite:
    """Return every vector that this version of the package has, with the flags that mutants prove."""
    return suite_of(ledger.read())


def suite_of(lines: Mapping[str, ledger.LedgerLine], declared: bool = False) -> Suite:
    """Return the suite under the ids of a ledger. A draft without an id, which `i2s vectors register` gives it, is
    not in it yet.

    :param declared: with all flags of the drafts, whether or not a mutant proves them
    """
    vectors = []
    places: dict[str, str] = {}
    for draft in drafts():
        if draft.name not in lines:
            continue
        line = lines[draft.name]
        twin = lines[draft.twin].id if draft.twin is not None and draft.twin in lines else None
        vectors.append(_vector(draft, line, draft.flags if declared else _flags(line), twin, places))
    return Suite(SUITE_VERSION, tuple(sorted(vectors, key=lambda vector: vector.id)))


def _vector(
    draft: Draft, line: ledger.LedgerLine, flags: tuple[str, ...], twin: str | None, places: dict[str, str]
) -> Vector:
    """Return a draft with its id; equal bytes are stored once, at the path of the first vector that has them."""

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
        blob(draft.second, line.second, "in2"), answer, twin,
    )  # fmt: skip


def _flags(line: ledger.LedgerLine) -> tuple[str, ...]:
    return () if line.flags == "-" else tuple(line.flags.split(","))


def load(folder: str | os.PathLike[str]) -> Suite:
    """Return an exported suite; its bytes are read when they are needed.

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


# --- the suite as a folder -------------------------------------------------------------------------------------------
# Manifest, data, closed lists, schemas, single files; always the same bytes.

HERE: Final = Path(__file__).parent


class WrittenSuite(NamedTuple):
    """What was written: vectors, files, bytes in all."""

    vectors: int
    files: int
    size: int


def write_suite(target: str | os.PathLike[str], *, force: bool = False) -> WrittenSuite:
    """Write the suite to a folder: all of it, or nothing.

    :param target: a folder that does not exist or is empty
    :param force: replace a suite that is there; a folder with other files is still refused
    :raises FileExistsError: where the folder has something in it and `force` is not given
    :raises OSError: where it cannot be written
    """
    target = Path(target)
    refuse_full_folder(target, force, "a suite")
    if target.is_dir() and any(target.iterdir()) and not (target / MANIFEST).is_file():
        raise FileExistsError(errno.EEXIST, "the folder holds other files than a suite", str(target))
    with unfinished_folder(target) as part:
        count = size = 0
        for path, data in suite_files():
            place = Path(part, path)
            place.parent.mkdir(parents=True, exist_ok=True)
            place.write_bytes(data)
            count, size = count + 1, size + len(data)
        publish_folder(part, target, force)
    return WrittenSuite(len(suite()), count, size)


def suite_files() -> Iterator[tuple[str, bytes]]:
    """Yield every file of an exported suite, by its path, in a fixed order."""
    made = suite()
    yield MANIFEST, manifest_text(made)
    yield "flags.json", json_text(flags(made))
    yield "flags.txt", "".join(f"{name}\n" for name in sorted(flags(made))).encode("ascii")
    yield "features.txt", "".join(f"{name}\n" for name in sorted(FEATURES)).encode("ascii")
    yield "INTERPRETING.md", (HERE / "INTERPRETING.md").read_bytes()
    yield "LICENSE", (HERE / "LICENSE-0BSD.txt").read_bytes()
    for name in ("manifest.schema.json", "flags.schema.json", "messages.schema.json"):
        yield f"schemas/{name}", (HERE / name).read_bytes()
    yield from sorted(_data(made).items())
    for vector in made:
        yield f"files/{vector.id}.i2sv", single_file(vector)


def manifest_text(made: Suite) -> bytes:
    """Return `manifest.json`: a line for each vector."""
    head, lines = manifest(made), []
    for entry in head.pop("vectors"):
        lines.append(json.dumps(entry, ensure_ascii=True))
    vectors = ",\n  ".join(lines)
    return f'{json.dumps(head)[:-1]}, "vectors": [\n  {vectors}\n]}}\n'.encode("ascii")


def manifest(made: Suite) -> dict[str, Any]:
    """Return the content of `manifest.json`."""
    return {
        "suite_version": made.version,
        "protocol": PROTOCOL,
        "interpreting_version": interpreting_version(),
        "vectors": [vector.entry() for vector in made],
    }


def flags(made: Suite) -> dict[str, dict[str, Any]]:
    """Return the content of `flags.json`: for each flag that a vector has, the bug, who had it, and the vectors that
    find it.
    """
    found: dict[str, dict[str, Any]] = {}
    for vector in made:
        for name in vector.flags:
            flag = FLAGS[name]
            found.setdefault(name, {"bug": flag.bug, "seen": flag.seen, "vectors": []})["vectors"].append(vector.id)
    return dict(sorted(found.items()))


def interpreting_version() -> str:
    """Return the version that `INTERPRETING.md` states.

    :raises ValueError: where it does not
    """
    found = re.search(
        r"^Version (\d+\.\d+) of this text", (HERE / "INTERPRETING.md").read_text(encoding="utf-8"), re.MULTILINE
    )
    if found is None:
        raise ValueError("INTERPRETING.md does not state its version")
    return found[1]


def json_text(value: Any) -> bytes:
    """Write JSON for people to read, as it is written to files."""
    return (json.dumps(value, indent=1, ensure_ascii=True) + "\n").encode("ascii")


def _data(made: Suite) -> dict[str, bytes]:
    """Return the bytes of inputs and answers, by their path; vectors with equal bytes share a file."""
    blobs = (blob for vector in made for blob in (vector.input_blob, vector.second_blob, vector.expected_blob))
    return {blob.path: blob.data for blob in blobs if blob is not None}


# --- single file -----------------------------------------------------------------------------------------------------
# A vector as one self-describing file: lines `key: value`, an empty line, raw bytes.

#: The first line of every such file.
FIRST: Final = "i2s-vector: 1"

#: Larger parts are named but not included.
LARGEST: Final = 1 << 10


def single_file(vector: Vector) -> bytes:
    """Return a vector as one file."""
    parts = [b"" if blob is None or blob.size > LARGEST else blob.data for blob in _blobs(vector).values()]
    sizes = [f"{name}-bytes: {len(data)}" for name, data in zip(_blobs(vector), parts, strict=True)]
    lines = [FIRST, *(f"{key}: {value}" for key, value in _lines(vector)), *sizes]
    return "\n".join([*lines, "", ""]).encode("utf-8") + b"".join(parts)


def _blobs(vector: Vector) -> dict[str, Blob | None]:
    return {"input": vector.input_blob, "second": vector.second_blob, "expected": vector.expected_blob}


def _lines(vector: Vector) -> Iterator[tuple[str, str]]:
    for name in ("id", "op", "clause", "requirement", "rule", "verdict", "phase", "twin", "since", "comment"):
        if (value := getattr(vector, name)) is not None:
            yield name, value
    for name in ("features", "flags"):
        if words := getattr(vector, name):
            yield name, " ".join(words)
    for prefix, values in (("compare", vector.compare), ("arg", vector.args)):
        for key, value in values.items():
            yield f"{prefix}.{key}", _text(value)
    for name, blob in _blobs(vector).items():
        if blob is not None:
            yield f"{name}-sha256", blob.sha256
            if blob.size > LARGEST:
                yield f"{name}-file", f"../{blob.path}"
    if vector.json is not None:
        yield "expected-json", canonical_json(vector.json).decode("utf-8")


def _text(value: Any) -> str:
    if isinstance(value, list):
        return " ".join(str(each) for each in value)
    return str(value).lower() if isinstance(value, bool) else str(value)
