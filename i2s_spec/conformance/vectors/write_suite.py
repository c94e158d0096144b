"""This module writes the suite as a folder: manifest, data, closed lists, schemas, single files; always the same bytes."""

from __future__ import annotations

import errno
import json
import os
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any, Final, NamedTuple

from i2s_spec.conformance.vectors.all_vectors import MANIFEST, PROTOCOL, suite
from i2s_spec.conformance.vectors.bug_flags import FLAGS
from i2s_spec.conformance.vectors.feature_flags import FEATURES
from i2s_spec.conformance.vectors.single_file import single_file
from i2s_spec.conformance.vectors.vector import Suite
from i2s_spec.gguf.unfinished import publish_folder, unfinished_folder

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
    if target.exists() and not target.is_dir():
        raise FileExistsError(errno.EEXIST, "this is a file; a folder is to be written", str(target))
    taken = target.is_dir() and any(target.iterdir())
    if taken and not force:
        raise FileExistsError(errno.EEXIST, "the folder is not empty; force replaces a suite in it", str(target))
    if taken and not (target / MANIFEST).is_file():
        raise FileExistsError(errno.EEXIST, "the folder holds other files than a suite", str(target))
    target.parent.mkdir(parents=True, exist_ok=True)
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
    """Every file of an exported suite, by its path, in a fixed order."""
    made = suite()
    yield MANIFEST, json_text(manifest(made))
    yield "flags.json", json_text(flags(made))
    yield "flags.txt", "".join(f"{name}\n" for name in sorted(flags(made))).encode("ascii")
    yield "features.txt", "".join(f"{name}\n" for name in sorted(FEATURES)).encode("ascii")
    yield "INTERPRETING.md", (HERE / "INTERPRETING.md").read_bytes()
    yield "LICENSE", (HERE / "LICENSE-0BSD.txt").read_bytes()
    for name in ("manifest.schema.json", "flags.schema.json"):
        yield f"schemas/{name}", (HERE / name).read_bytes()
    yield from sorted(_data(made).items())
    for vector in made:
        yield f"files/{vector.id}.i2sv", single_file(vector)


def manifest(made: Suite) -> dict[str, Any]:
    """The content of `manifest.json`."""
    return {
        "suite_version": made.version,
        "protocol": PROTOCOL,
        "interpreting_version": interpreting_version(),
        "vectors": [vector.entry() for vector in made],
    }


def flags(made: Suite) -> dict[str, dict[str, Any]]:
    """The content of `flags.json`: for each flag that a vector has, the bug, who had it, and the vectors that find it."""
    found: dict[str, dict[str, Any]] = {}
    for vector in made:
        for name in vector.flags:
            flag = FLAGS[name]
            found.setdefault(name, {"bug": flag.bug, "seen": flag.seen, "vectors": []})["vectors"].append(vector.id)
    return dict(sorted(found.items()))


def interpreting_version() -> str:
    """The version that `INTERPRETING.md` states.

    :raises ValueError: where it does not
    """
    found = re.search(
        r"^Version (\d+\.\d+) of this text", (HERE / "INTERPRETING.md").read_text(encoding="utf-8"), re.MULTILINE
    )
    if found is None:
        raise ValueError("INTERPRETING.md does not state its version")
    return found[1]


def json_text(value: Any) -> bytes:
    """JSON for people to read, as it is written to files."""
    return (json.dumps(value, indent=1, ensure_ascii=True) + "\n").encode("ascii")


def _data(made: Suite) -> dict[str, bytes]:
    """The bytes of inputs and answers, by their path; vectors with equal bytes share a file."""
    blobs = (blob for vector in made for blob in (vector.input_blob, vector.second_blob, vector.expected_blob))
    return {blob.path: blob.data for blob in blobs if blob is not None}
