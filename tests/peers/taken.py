"""Runs that were made by hand, with programs that no registry of Python or JavaScript has, or that need a compiler.

Each is a row of the same table as the runs of `records`. The files were those that `small_files` makes, or others of the
same form; distances are relative L2 of all logits from our forward pass.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, Final, NamedTuple

from peers.small_files import SMALL_FILES


class Distance(NamedTuple):
    """How far a program's logits are from our forward pass of a file with these numerics, relative L2."""

    relative: float
    numerics: str = "bitnet-golden-1"
    against: str = ""


class Tokens(NamedTuple):
    """How many of the likeliest tokens were the same."""

    same: int
    count: int


class Refused(NamedTuple):
    """A refusal, with its words."""

    words: str


class Loaded(NamedTuple):
    """A file that was taken; what was computed is not known."""


Result = Distance | Tokens | Refused | Loaded


class Taken(NamedTuple):
    """A program, and its results by the names of files."""

    program: str
    version: str
    source: str
    results: dict[str, Result]


_DATE: Final = "2026-11-28"


def _every(names: str, result: Result) -> dict[str, Result]:
    return dict.fromkeys(names.split(), result)


def _of_candle(words: str) -> dict[str, Result]:
    """What it says of each type, which it meets first."""
    numbers = {
        "i2_s": 36,
        "tq1_0": 34,
        "tq2_0": 35,
        "q2_0": 42,
        "pq2_0": 142,
        "ptq1_0": 143,
        "iq1_bn": 134,
        "iq2_bn": 135,
    }
    return {f"llama.{name}.wide": Refused(f"{words} {number}") for name, number in numbers.items()} | {
        f"qwen3-lm.{name}.wide": Refused(f"{words} {numbers[name]}")
        for name in ("i2_s", "tq1_0", "tq2_0", "q2_0", "ptq1_0", "iq2_bn")
    }


TAKEN: Final[tuple[Taken, ...]] = (
    Taken(
        "bitnet-llm-sys", "1.0.2", "crates.io: bitnet.cpp of early 2026",
        {
            "bitnet-b1.58.i2_s.wide": Distance(1.1e-7, "bitnetcpp-2025"),
            "bitnet-25.i2_s.wide": Distance(1.1e-7, "bitnetcpp-2025"),
            "bitnet.i2_s.wide": Distance(7.7e-6, "bitnetcpp-2025"),
            "llama.i2_s.wide": Distance(1.1e-6, "bitnetcpp-2025"),
            "trained.bitnet-b1.58.i2_s": Distance(1.3e-5, "bitnetcpp-2025"),
            **_every("bitnet-b1.58.tq1_0.wide bitnet-b1.58.tq2_0.wide", Distance(4e-6, "llamacpp-2026")),
            **_every("llama.tq1_0.wide llama.tq2_0.wide", Distance(1.8e-7, "llamacpp-2026")),
        },
    ),
    Taken(
        "bitnet.cpp", "404980e to 16da220", "built from source with its submodules of 2025, tests/oracle",
        {
            **_every("bitnet.i2_s bitnet-25.i2_s bitnet-b1.58.i2_s", Distance(0.0, "bitnetcpp-2025")),
        },
    ),
    Taken(
        "tritium-nn", "1.1.0-rc.2", "crates.io",
        {
            "bitnet-b1.58.i2_s.wide": Distance(4.2e-7),
            "bitnet.i2_s.wide": Distance(4.4e-7, against="bitnet.i2_s.wide.relu2"),
            **_every("bitnet-b1.58.tq1_0.converted bitnet-b1.58.tq2_0.converted", Distance(4.2e-7)),
            "bitnet-b1.58.q2_0.converted": Distance(4.2e-7),
            **_every("bitnet-b1.58.tq1_0.wide bitnet-b1.58.tq2_0.wide", Refused("not a pure ternary row")),
            **_every("llama.i2_s.wide llama.tq1_0.wide llama.tq2_0.wide", Refused("an unknown architecture")),
            "bitnet-25.i2_s.wide": Refused("an unknown architecture"),
            "trained.bitnet-b1.58.i2_s": Distance(1.4e-3),
        },
    ),
    Taken(
        "ferrox-models", "0.25.0", "crates.io",
        {
            "llama.ptq1_0.wide": Distance(3.2e-4, "ik-f32"), "llama.tq1_0.wide": Distance(4.2e-4, "ik-f32"),
            "qwen3-lm.ptq1_0.wide": Distance(3.5e-4, "ik-f32"), "qwen3-lm.tq1_0.wide": Distance(3.9e-4, "ik-f32"),
            "llama.ptq1_0.rotated": Distance(3.8e-4, "ik-f32"),
            "qwen3-lm.ptq1_0.rotated-untied": Distance(3.6e-4, "ik-f32"),
            **_every("llama.f16.wide llama.f32.wide", Distance(4.3e-7, "hf-f32")),
            **_every(
                "llama.tq2_0.wide llama.q2_0.wide llama.pq2_0.wide llama.i2_s.wide", Refused("a type that it does not know")
            ),
        },
    ),
    Taken(
        "oxillama-runtime", "0.1.4", "crates.io",
        {
            **_every("llama.f32.wide llama.f16.wide llama.tq1_0.wide llama.tq2_0.wide", Tokens(12, 12)),
            **_every("qwen3-lm.f32.wide qwen3-lm.f16.wide qwen3-lm.tq1_0.wide qwen3-lm.tq2_0.wide", Tokens(12, 12)),
            **_every("llama.i2_s.wide qwen3-lm.i2_s.wide", Refused("IQ4_NL_4x4")),
            **_every("llama.q2_0.wide qwen3-lm.q2_0.wide", Refused("id=42")),
            "bitnet-b1.58.f16.wide": Refused("bitnet-b1.58"),
        },
    ),
    Taken(
        "candle-transformers", "0.11.1", "crates.io",
        {
            **_every("llama.f32.wide llama.f16.wide", Distance(1e-6)), "llama.bf16.wide": Distance(1.1e-6),
            **_every("qwen3-lm.f32.wide qwen3-lm.f16.wide", Distance(2.3e-4)),
            **_of_candle("unknown dtype for tensor"),
        },
    ),
    Taken(
        "bitnet-go", "a3d7700", "built from its repository",
        {
            "trained.bitnet-b1.58.i2_s": Distance(8.9e-8), "trained.llama.i2_s": Distance(4.3e-7),
            "trained.llama.f16": Distance(2.9e-7), "trained.bitnet-b1.58.tq2_0": Distance(4.8e-4, "ik-f32"),
            "trained.bitnet-b1.58.tq1_0": Distance(1.35),
            "trained.bitnet-b1.58.q2_0": Refused("Q2_0"),
        },
    ),
    Taken("gogguf", "270b2ea", "built from its repository", {"trained.llama.f16": Tokens(12, 12)}),
    Taken(
        "llama3.java", "8cf392d", "built from its repository",
        {
            "trained.llama.f16": Distance(5.2e-7), "trained.llama.f32": Distance(3.7e-7),
            "trained.llama.bf16": Distance(4.2e-7), "trained.llama.i2_s": Refused("index 36 out of bounds for length 36"),
            "trained.llama.f16.rope-factors": Distance(0.148),
        },
    ),
    Taken(
        "de.kherud:llama", "4.2.0", "Maven: llama.cpp b4916",
        {**_every("trained.llama.f16 trained.llama.tq2_0", Tokens(16, 16))},
    ),
    Taken(
        "0xBitNet", "f2ab5ec", "built from its repository, on lavapipe",
        {
            "trained.llama.i2_s": Distance(2.9e-7, "webgpu"), "llama.i2_s.default": Distance(2.2e-7, "webgpu"),
            "llama.i2_s.default.table-f32": Distance(5.5),
            "trained.bitnet-b1.58.i2_s": Distance(0.129),
            "bitnet-b1.58.i2_s.default": Distance(0.4), "bitnet.i2_s.default": Distance(0.556),
            "trained.bitnet-b1.58.tq2_0": Distance(1.41),
            "trained.bitnet-b1.58.f16": Distance(1.13),
        },
    ),
    Taken(
        "loom", "3083bb7", "built from its repository, on what i2s export writes",
        {
            "trained.bitnet-b1.58.i2_s": Distance(7.9e-8),
            **_every("bitnet-b1.58.i2_s.default bitnet-25.i2_s.default bitnet.i2_s.default", Distance(1.1e-7)),
            "trained.llama.i2_s": Distance(1.26),
        },
    ),
    Taken(
        "jlama-core", "0.8.4", "Maven, on what i2s export --form F32 or F16 writes",
        {**_every("trained.llama.i2_s trained.llama.f16", Tokens(16, 16))},
    ),
    Taken(
        "Ollama", "0.33.0-rc2", "built from its repository",
        {
            **_every("llama.i2_s llama.tq1_0 llama.tq2_0 llama.q2_0 bitnet.tq2_0 bitnet.q2_0 qwen3-lm.tq2_0 qwen3-lm.q2_0 "
                     "llama.iq2_bn llama.pq2_0 llama.ptq1_0 trained.llama.tq2_0",
                     Refused('tensor "blk.0.ffn_down.weight" size overflow')),
        },
    ),
)  # fmt: skip


def rows() -> Iterator[dict[str, Any]]:
    """The records of these runs, by program."""
    for each in TAKEN:
        for name, result in each.results.items():
            own = SMALL_FILES[name].means[0]
            computed: list[dict[str, Any]] = []
            if isinstance(result, Distance):
                computed = [
                    {"against": result.against or own, "numerics": result.numerics, "relative": result.relative}
                ]
            elif isinstance(result, Tokens):
                same = {"argmax": result.same, "positions": result.count}
                computed = [{"against": own, "numerics": "bitnet-golden-1", **same}]
            refused = isinstance(result, Refused)
            yield {
                "id": f"{each.program}/{name}", "program": each.program, "version": each.version, "date": _DATE,
                "file": name, "loads": not refused, "end": "by hand", "taken": each.source,
                "printed": [result.words] if isinstance(result, Refused) else [], "shown": "", "computed": computed,
            }  # fmt: skip


# --- devices ---------------------------------------------------------------------------------------------------------


class OnDevice(NamedTuple):
    """Where a build of llama.cpp for CUDA multiplies matrices of a type if all layers are offloaded, and how far its
    logits are from our forward pass of the same weights in floats.

    :param products: `GPU`, `CPU` (although the layer is offloaded), or `refused`
    """

    type: str
    products: str
    relative: float | None = None


#: By files of architectures llama, bitnet and qwen3, with 4, 9 and 40 tokens; the distance is that of 9 tokens.
ON_CUDA: Final = (
    OnDevice("I2_S", "refused"),
    OnDevice("F32", "GPU", 1.6e-3), OnDevice("F16", "GPU", 1.1e-3), OnDevice("BF16", "GPU", 4.9e-3),
    OnDevice("Q8_0", "GPU", 1.7e-2), OnDevice("Q4_0", "GPU", 1.6e-2), OnDevice("Q4_K", "GPU", 3.1e-2),
    OnDevice("TQ1_0", "CPU", 2.3e-2), OnDevice("TQ2_0", "CPU", 2.3e-2), OnDevice("Q2_0", "GPU", 1.7e-2),
    OnDevice("Q1_0", "GPU", 3e-4), OnDevice("MXFP4", "GPU", 1.7e-2), OnDevice("NVFP4", "GPU", 1.8e-2),
)  # fmt: skip


def devices() -> list[dict[str, Any]]:
    """The rows of the table of devices."""
    return [
        {
            "program": "@node-llama-cpp/linux-x64-cuda", "version": "3.22.1", "date": _DATE, "device": "NVIDIA H200",
            "architectures": ["bitnet", "llama", "qwen3"], **each._asdict(),
        }
        for each in ON_CUDA
    ]  # fmt: skip
