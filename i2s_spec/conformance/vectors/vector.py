"""A test vector and a suite of vectors: what a decoder is given, and what it has to answer.

A vector is an entry of the manifest with the bytes of its input and its answer. `INTERPRETING.md` next to this module
explains each field for those who run the suite. Beside `Vector` and `Suite`, here is what makers of vectors need:
`Draft`, pseudo-random numbers, the features, and the ledger.

    >>> integers("doc", 4, 3).tolist()
    [1, 2, 0, 2]
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from functools import cached_property
from hashlib import sha256
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final, NamedTuple

import numpy as np

from i2s_spec.conformance.protocol_terms import PROCESSOR_LAYOUTS, canonical_json
from i2s_spec.schema.dialect import CANONICAL, LAYOUTS

if TYPE_CHECKING:
    from numpy.typing import NDArray


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
    :param op: one of `OPERATIONS`
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
    :param twin: of invalid input, the id of the sound vector that it is a change of; else None
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
    twin: str | None = None

    def input(self) -> bytes:
        """Return what the decoder is given: a payload, floats, or a file."""
        return self.input_blob.data

    def second(self) -> bytes:
        """Return the other input: activations, tokens, or text; empty where there is none."""
        return self.second_blob.data if self.second_blob is not None else b""

    def expected(self) -> bytes:
        """Return the answer as bytes; for an answer that is only JSON, its canonical text."""
        if self.expected_blob is not None:
            return self.expected_blob.data
        return canonical_json(self.json) if self.json is not None else b""

    @property
    def digest(self) -> str:
        """`sha256:` and the digest of the answer; empty where no digest is compared."""
        expected = self.expected()
        return f"sha256:{sha256(expected).hexdigest()}" if expected else ""

    def entry(self) -> dict[str, Any]:
        """Return the vector's entry in the manifest."""
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
        if self.twin is not None:
            entry["twin"] = self.twin
        return {**entry, "args": dict(self.args), "expected": expected}

    @classmethod
    def from_entry(cls, entry: Mapping[str, Any], load: Callable[[str], bytes]) -> Vector:
        """Return a vector from its entry in a manifest.

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
            blob(entry["expected"], "digest"), entry.get("twin"),
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
        """Return the vector with an id.

        :raises KeyError: where there is none
        """
        return self._by_id[id]

    @cached_property
    def _by_id(self) -> dict[str, Vector]:
        return {vector.id: vector for vector in self.vectors}


def _blob_entry(blob: Blob) -> dict[str, Any]:
    return {"path": blob.path, "sha256": blob.sha256, "bytes": blob.size}


# --- drafts ----------------------------------------------------------------------------------------------------------
# A draft is a vector that only has a name. Makers of vectors yield drafts; the ledger has the id of each name, and the
# digests with which it was published.


@dataclass(frozen=True)
class Draft:
    """A vector without an id; the fields are those of `vector.Vector`.

    :param name: stable and unique; the ledger finds the id by it
    :param twin: of invalid input, the name of the draft that it is a change of
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
    twin: str | None = None


# --- pseudo-random numbers -------------------------------------------------------------------------------------------
# They are the same on every machine, with every version of NumPy.


def words(seed: str, count: int) -> NDArray[np.uint64]:
    """Return the given number of 64-bit words: SHA-256 of the seed and a counter, four words from each digest."""
    blocks = (sha256(f"{seed}/{i}".encode()).digest() for i in range((count + 3) // 4))
    return np.frombuffer(b"".join(blocks), dtype="<u8")[:count].astype(np.uint64)


def integers(seed: str, count: int, below: int) -> NDArray[np.int64]:
    """Return integers from 0 on, below a limit."""
    return (words(seed, count) % np.uint64(below)).astype(np.int64)


def trits(seed: str, rows: int, cols: int) -> NDArray[np.int8]:
    """Return a matrix of -1, 0 and +1, int8 [rows, cols]."""
    return (integers(seed, rows * cols, 3) - 1).astype(np.int8).reshape(rows, cols)


def floats(seed: str, *shape: int, spread: float = 1.0) -> NDArray[np.float32]:
    """Return floats around 0, denser near it: each is the sum of three uniform ones; all are exact multiples of spread /
    2^20."""
    count = int(np.prod(shape))
    parts = integers(seed, 3 * count, 1 << 20).reshape(count, 3)
    centred = (parts.sum(axis=1) - 3 * (1 << 19)) / float(1 << 20)
    values: NDArray[np.float32] = (centred * spread).astype(np.float32).reshape(shape)
    return values


# --- features --------------------------------------------------------------------------------------------------------
# What a decoder has to support, or to promise, before it is asked a vector.

#: The names of the layouts of GGUF files in vectors.
LAYOUT_NAMES: Final = {name: name for name, layout in LAYOUTS.items() if layout.in_gguf} | {
    name: known for known, name in PROCESSOR_LAYOUTS.items()
}

#: Every feature by its name; a decoder that lacks a feature of a vector is not asked it, which is not a failure.
FEATURES: Final = {
    "type.i2_s": "type 36, I2_S",
    "type.q2_0": "type 42, Q2_0 with groups of 64",
    "type.q2_0.g128": "type 42, Q2_0 with groups of 128",
    "type.pq2_0": "type 142, PQ2_0",
    "type.ptq1_0": "type 143, PTQ1_0",
    "type.tq1_0": "type 34, TQ1_0",
    "type.tq2_0": "type 35, TQ2_0",
    "type.mxfp4": "type 39, MXFP4",
    "type.nvfp4": "type 40, NVFP4",
    "type.q1_0": "type 41, Q1_0",
    "type.iq1_bn": "type 134, IQ1_BN",
    "type.iq2_bn": "type 135, IQ2_BN",
    "type.f16": "type 1, F16, in the matrices of a model",
    "type.tl1": "TL1, with the tiles of its kernel",
    "type.tl2": "TL2, with the tiles of its kernel",
    **{
        f"layout.{known}": f"{name}, the layout of the file format" if name == CANONICAL.layout.name else name
        for name, known in LAYOUT_NAMES.items()
    },
    "codes.zero-first": "the code map zero-first",
    "codes.twos-complement": "the code map twos-complement",
    "codes.offset-2": "the code map offset-2",
    "codes.plus-two": "code 3 of Q2_0 and PQ2_0 as +2; a reader of ternary values only lacks it",
    "subnormals": "gives subnormal weights as they are; a program that flushes them to 0 lacks it",
    "tail.replicated-8": "tails with the scale eight times",
    "rows.partial": "rows that are no multiple of a block",
    "big-endian": "big-endian files",
    "gguf.v2": "version 2 of the container",
    "strict.codes": "refuses the unused code",
    "strict.scales": "refuses scales that clause 6.2 forbids",
    "strict.shapes": "refuses shapes that do not fill whole blocks",
    "strict.extent": "refuses data of another size than the tensor's",
    "quantize.absmax": "the rule absmax",
    "quantize.hf-first": "the rule hf-first",
    "quantize.embedding-mean": "the rule embedding-mean",
    "quantize.convert-ms": "the rule convert-ms",
    "quantize.c-article": "the rule c-article",
    "quantize.loom": "the rule loom",
    "quantize.ggml": "the quantizer of ggml or ik_llama.cpp for the type",
    "activation.golden": "activations as clause 9.8 has them",
    "activation.ties-away": "activations without a floor, ties away from 0",
    "activation.ties-up": "activations with ties up",
    "activation.q8_k": "activations in blocks of 256 with signed scales",
    "profile.golden-1": "gives the values of the numeric profile bitnet-golden-1 to the bit",
    "arch.bitnet-b1.58": "runs architecture bitnet-b1.58",
    "arch.llama": "runs architecture llama",
    "arch.qwen3": "runs architecture qwen3 as an embedding model",
    "arch.gemma3": "runs architecture gemma3 as an embedding model",
    "prism.hadamard": "undoes a folded rotation",
    "forward.values": "gives values between the layers",
    "tokenizer.llama-bpe": "the pre-tokenizer llama-bpe",
}


# --- ledger ----------------------------------------------------------------------------------------------------------
# It keeps the ids of vectors and what was published with each: an id is never reused, an answer never changes.
#
# `ledger.tsv` has a line for each vector that ever existed: id, name, the version that added it, SHA-256 of its input,
# of its second input, and of its answer, `-` where there is none; the version that retired it; and the flags that
# mutants prove: those flags of its draft for which a mutant fails it.

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
    """Return the digests of a draft's input, second input and answer."""
    answer = draft.expected if draft.expected is not None else b""
    answer += canonical_json(draft.json) if draft.json is not None else b""
    return _digest(draft.data), _digest(draft.second), _digest(answer or None)


def changed(drafts: Iterable[Draft], lines: dict[str, LedgerLine]) -> list[str]:
    """Return the names of drafts that differ from what was published under their name."""
    return [draft.name for draft in drafts if draft.name in lines and not lines[draft.name].fits(draft)]


def updated(drafts: Iterable[Draft], lines: dict[str, LedgerLine], version: str) -> list[LedgerLine]:
    """Return the lines, with those of new drafts at the end, and with vectors that no longer exist marked as retired.

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
    """Return the text of the ledger."""
    return "\n".join([_HEAD, *("\t".join(line) for line in lines)]) + "\n"


def _digest(data: bytes | None) -> str:
    return sha256(data).hexdigest() if data is not None else "-"
