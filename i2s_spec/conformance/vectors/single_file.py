"""This module writes a vector as one self-describing file: lines `key: value`, an empty line, raw bytes."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, Final

from i2s_spec.conformance.vectors.vector import Blob, Vector, canonical_json

#: The first line of every such file.
FIRST: Final = "i2s-vector: 1"

#: Larger parts, which belong to whole models, are named but not included.
LARGEST: Final = 8 << 10


def single_file(vector: Vector) -> bytes:
    """A vector as one file."""
    parts = [b"" if blob is None or blob.size > LARGEST else blob.data for blob in _blobs(vector).values()]
    sizes = [f"{name}-bytes: {len(data)}" for name, data in zip(_blobs(vector), parts, strict=True)]
    lines = [FIRST, *(f"{key}: {value}" for key, value in _lines(vector)), *sizes]
    return "\n".join([*lines, "", ""]).encode("utf-8") + b"".join(parts)


def _blobs(vector: Vector) -> dict[str, Blob | None]:
    return {"input": vector.input_blob, "second": vector.second_blob, "expected": vector.expected_blob}


def _lines(vector: Vector) -> Iterator[tuple[str, str]]:
    for name in ("id", "op", "clause", "requirement", "rule", "verdict", "phase", "since", "comment"):
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
