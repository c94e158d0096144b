"""This module defines a test vector and a suite of vectors: what a decoder is given, and what it has to answer.

A vector is an entry of the manifest with the bytes of its input and its answer. `INTERPRETING.md` next to this module
explains each field for those who run the suite.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from functools import cached_property
from hashlib import sha256
from typing import Any, Final

#: What a decoder can be asked to do.
OPS: Final = (
    "container", "decode", "dequant", "quantize", "activation", "bitlinear", "forward", "tokenize", "verdict",
)  # fmt: skip

#: What a decoder has to do with the input.
VERDICTS: Final = ("valid", "invalid", "either", "survive")

#: The parts of a file in which a fault can be known, in the order in which they are read.
PHASES: Final = ("magic", "header", "metadata", "info", "extent", "payload", "semantics")

#: How an answer is compared.
COMPARISONS: Final = ("bits", "exact", "ulp", "rtol", "rank", "corr")


@dataclass(frozen=True)
class Blob:
    """Bytes of a vector: their path in an exported suite, their digest and size, and how to load them."""

    path: str
    sha256: str
    size: int
    load: Callable[[], bytes] = field(repr=False, compare=False)

    @classmethod
    def of(cls, path: str, data: bytes) -> Blob:
        """Bytes that are in memory."""
        return cls(path, sha256(data).hexdigest(), len(data), lambda: data)

    @cached_property
    def data(self) -> bytes:
        """The bytes.

        :raises ValueError: where they do not match the digest
        """
        data = self.load()
        if sha256(data).hexdigest() != self.sha256:
            raise ValueError(f"{self.path} has another SHA-256 than the manifest says")
        return data


@dataclass(frozen=True)
class Vector:
    """One question to a decoder, and its answer.

    :param id: `I2S-0042`; never reused for another vector
    :param op: one of `OPS`
    :param clause: of the specification
    :param requirement: its number, or None
    :param rule: the linter's code for the fault, or None
    :param features: what a decoder has to support before it is asked
    :param flags: the kinds of bugs that the vector finds
    :param verdict: one of `VERDICTS`
    :param phase: of invalid files, one of `PHASES`; else None
    :param compare: `class`, one of `COMPARISONS`, and its parameters
    :param since: the version of the suite that added it
    :param comment: what is special about it
    :param args: of the operation
    :param json: the answer, or the part of it, that is JSON; else None
    """

    id: str
    op: str
    clause: str
    requirement: str | None
    rule: str | None
    features: tuple[str, ...]
    flags: tuple[str, ...]
    verdict: str
    phase: str | None
    compare: Mapping[str, Any]
    since: str
    comment: str
    args: Mapping[str, Any]
    json: Any
    input_blob: Blob
    second_blob: Blob | None = None
    expected_blob: Blob | None = None

    def input(self) -> bytes:
        """What the decoder is given: a payload, floats, or a file."""
        return self.input_blob.data

    def second(self) -> bytes:
        """The other input: activations, tokens, or text; empty where there is none."""
        return self.second_blob.data if self.second_blob is not None else b""

    def expected(self) -> bytes:
        """The answer as bytes; for an answer that is only JSON, its canonical text."""
        if self.expected_blob is not None:
            return self.expected_blob.data
        return canonical_json(self.json) if self.json is not None else b""

    @property
    def digest(self) -> str:
        """`sha256:` and the digest of the answer; empty where no digest is compared."""
        expected = self.expected()
        return f"sha256:{sha256(expected).hexdigest()}" if expected else ""

    def entry(self) -> dict[str, Any]:
        """The vector's entry in the manifest."""
        expected: dict[str, Any] = {}
        if self.expected_blob is not None:
            expected = {"digest": self.digest, "path": self.expected_blob.path, "bytes": self.expected_blob.size}
        if self.json is not None:
            expected["json"] = self.json
        entry: dict[str, Any] = {
            "id": self.id,
            "op": self.op,
            "clause": self.clause,
            "requirement": self.requirement,
            "rule": self.rule,
            "features": list(self.features),
            "flags": list(self.flags),
            "verdict": self.verdict,
            "phase": self.phase,
            "compare": dict(self.compare),
            "since": self.since,
            "comment": self.comment,
            "input": _blob_entry(self.input_blob),
        }
        if self.second_blob is not None:
            entry["second"] = _blob_entry(self.second_blob)
        return {**entry, "args": dict(self.args), "expected": expected}

    @classmethod
    def from_entry(cls, entry: Mapping[str, Any], load: Callable[[str], bytes]) -> Vector:
        """A vector from its entry in a manifest.

        :param load: gives the bytes of a path of the suite
        :raises KeyError: for an entry that lacks a field
        """

        def blob(found: Mapping[str, Any] | None, digest: str) -> Blob | None:
            if found is None or "path" not in found:
                return None
            path = found["path"]
            return Blob(path, found[digest].removeprefix("sha256:"), found["bytes"], lambda: load(path))

        given = blob(entry["input"], "sha256")
        if given is None:
            raise KeyError("path")
        return cls(
            entry["id"], entry["op"], entry["clause"], entry["requirement"], entry["rule"], tuple(entry["features"]),
            tuple(entry["flags"]), entry["verdict"], entry["phase"], entry["compare"], entry["since"], entry["comment"],
            entry["args"], entry["expected"].get("json"), given, blob(entry.get("second"), "sha256"),
            blob(entry["expected"], "digest"),
        )  # fmt: skip


@dataclass(frozen=True)
class Suite:
    """Every vector of a version of the suite, in the order of their ids."""

    version: str
    vectors: tuple[Vector, ...]

    def __iter__(self) -> Iterator[Vector]:
        return iter(self.vectors)

    def __len__(self) -> int:
        return len(self.vectors)

    def __getitem__(self, id: str) -> Vector:
        """The vector with an id.

        :raises KeyError: where there is none
        """
        return self._by_id[id]

    @cached_property
    def _by_id(self) -> dict[str, Vector]:
        return {vector.id: vector for vector in self.vectors}


def canonical_json(value: Any) -> bytes:
    """JSON in its canonical form: sorted keys, no blanks, UTF-8 unescaped."""
    return json.dumps(value, sort_keys=True, separators=(",", ":"), ensure_ascii=False).encode("utf-8")


def _blob_entry(blob: Blob) -> dict[str, Any]:
    return {"path": blob.path, "sha256": blob.sha256, "bytes": blob.size}
