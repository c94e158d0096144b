"""This module checks three things of an adapter and reports each in a sentence: whether it answers, whether the order
of bits is right, and whether it finds the scale. It needs no vectors, so it is the first thing to try with a new
adapter.
"""

from __future__ import annotations

import shutil
import tempfile
from collections.abc import Iterator, Sequence
from contextlib import suppress
from dataclasses import replace
from pathlib import Path
from typing import Final, NamedTuple

import numpy as np

from i2s_spec.codec import native
from i2s_spec.codec.ternary_types import pack_blocks
from i2s_spec.conformance.run.adapter_process import AdapterFault
from i2s_spec.conformance.run.askers import ProtocolAsker
from i2s_spec.conformance.run.cases import VectorCase
from i2s_spec.conformance.run.protocol import VERSION, Implementation
from i2s_spec.conformance.run.results import CaseResult, Status
from i2s_spec.conformance.run.runner import score
from i2s_spec.conformance.run.scoring import digest_of
from i2s_spec.fuzzing.child import Bounds
from i2s_spec.schema.block_layout import BLOCK_LAYOUTS

#: Two rows, so that a transposed matrix is seen; whole blocks of every type.
_SHAPE: Final = (2, 512)
#: The weight of +1: exact in every float format, and not the value that a forgotten scale would give.
_SCALE: Final = 0.75


#: The message for a program that was started and did not answer as an adapter.
_NO_ADAPTER: Final = (
    " That is not how an adapter of i2s-cp/1 begins: it reads lines of JSON from its standard input, of which the first is "
    f'{{"cmd":"start","version":{VERSION}}}, and answers each with one line. spec/tutorials/decoder.md shows one; a program '
    "that reads a GGUF file on its standard input is run by i2s conform run --simple."
)


class Sentence(NamedTuple):
    """One of the three checks: its subject, whether it passed (None where it was not asked), and the sentence."""

    subject: str
    well: bool | None
    text: str


def smoke(words: Sequence[str], bounds: Bounds) -> Iterator[Sentence]:
    """The three sentences, each as soon as it is known; only the first where the adapter does not answer."""
    asker = ProtocolAsker(words, bounds)
    try:
        try:
            about = asker.start()
        except AdapterFault as fault:
            yield Sentence("alive", False, f"{fault}.{'' if shutil.which(words[0]) is None else _NO_ADAPTER}")
            return
        named = f"{about.name} {about.version}".strip()
        yield Sentence("alive", True, f"{named} answers, and does {', '.join(about.ops)}.")
        with tempfile.TemporaryDirectory(prefix="i2s-smoke-") as folder:
            yield _order(asker, about, Path(folder))
            yield _scale(asker, about, Path(folder))
    finally:
        asker.close()


def _type(about: Implementation) -> str | None:
    """A type that the adapter reads: I2_S if it does."""
    if about.features is None or "type.i2_s" in about.features:
        return "I2_S"
    named = (each.removeprefix("type.").upper() for each in about.features if each.startswith("type."))
    return next((each for each in named if each in BLOCK_LAYOUTS), None)


def _case(about: Implementation, folder: Path, op: str) -> VectorCase | None:
    """A tensor of random trits, and what it decodes to."""
    type_ = _type(about)
    if type_ is None or op not in about.ops:
        return None
    trits = np.random.default_rng(1).integers(-1, 2, _SHAPE).astype(np.int8)
    data = native.pack(trits, _SCALE) if type_ == "I2_S" else pack_blocks(trits, _SCALE, type_)
    answer = trits if op == "decode" else trits.astype("<f4") * np.float32(_SCALE) + np.float32(0)
    path, expected = folder / f"{op}.in", folder / f"{op}.out"
    path.write_bytes(data)
    expected.write_bytes(answer.tobytes())
    args: dict[str, object] = {"type": type_.lower(), "shape": [_SHAPE[1], _SHAPE[0]]}
    if type_ == "I2_S":
        args["layout"] = "x86-128"
    return VectorCase(f"smoke-{op}", op, path, args=args, digest=digest_of(answer.tobytes()), answer=expected,
                      compare={"class": "bits" if op == "dequant" else "exact"})  # fmt: skip


def _asked(asker: ProtocolAsker, case: VectorCase) -> CaseResult:
    try:
        return score(asker, case)
    except AdapterFault as fault:
        with suppress(AdapterFault):
            asker.start()
        return CaseResult(case.id, case.op, Status.FAIL, str(fault))


def _order(asker: ProtocolAsker, about: Implementation, folder: Path) -> Sentence:
    case = _case(about, folder, "decode") or _case(about, folder, "dequant")
    if case is None:
        return Sentence(
            "order", None, "The order of bits was not asked for: the adapter does neither decode nor dequant."
        )
    result = _asked(asker, case)
    if result.status is not Status.PASS and "the trits are right" not in result.mistake:
        return Sentence("order", False, f"The order of bits is wrong, or nothing was decoded: {result.text}.")
    return Sentence(
        "order",
        True,
        f"The order of bits is right: {_SHAPE[0]} rows of {_SHAPE[1]} trits came back as they were packed.",
    )


def _scale(asker: ProtocolAsker, about: Implementation, folder: Path) -> Sentence:
    case = _case(about, folder, "dequant")
    where = "in the 32 bytes after the codes" if _type(about) == "I2_S" else "of each block"
    if case is None:
        return Sentence("scale", None, "The scale was not asked for: the adapter does not do dequant.")
    result = _asked(asker, replace(case, compare={"class": "ulp", "ulp": 0}))
    if result.status is not Status.PASS:
        return Sentence("scale", False, f"The scale {where} was not applied as it should be: {result.text}.")
    return Sentence("scale", True, f"The scale {where} was found: +1 became {_SCALE}.")
