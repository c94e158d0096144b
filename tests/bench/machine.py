"""Where a benchmark ran: kind of processor, memory, load, versions. Nothing in it identifies the machine.

Results are committed for each kind of processor, and compared within one kind.
"""

from __future__ import annotations

import os
import platform
from datetime import UTC, datetime
from importlib import metadata
from pathlib import Path
from typing import Any, Final, NamedTuple


class X86(NamedTuple):
    """Processors that CPUID identifies by vendor, family, model and stepping, and their name."""

    kind: str
    vendor: str
    family: int
    models: tuple[int, ...]
    steppings: tuple[int, ...] = ()


AMD: Final = "AuthenticAMD"
INTEL: Final = "GenuineIntel"

#: The first matching entry counts. Sources: Intel SDM volume 4, table 2-1; AMD's processor programming references.
X86_KINDS: Final = (
    X86("skylake-sp", INTEL, 6, (85,), (0, 1, 2, 3, 4)),
    X86("cascade-lake", INTEL, 6, (85,), (5, 6, 7)),
    X86("cooper-lake", INTEL, 6, (85,), (10, 11)),
    X86("ice-lake-sp", INTEL, 6, (106, 108)),
    X86("sapphire-rapids", INTEL, 6, (143,)),
    X86("emerald-rapids", INTEL, 6, (207,)),
    X86("granite-rapids", INTEL, 6, (173, 174)),
    X86("zen-2", AMD, 23, (*range(0x30, 0x50), *range(0x60, 0x80), *range(0x90, 0xB0))),
    X86("zen-3", AMD, 25, (*range(0x10), *range(0x20, 0x60))),
    X86("zen-4", AMD, 25, (*range(0x10, 0x20), *range(0x60, 0xB0))),
    X86("zen-5", AMD, 26, tuple(range(0x100))),
)

#: Part numbers of ARM's own cores (implementer 0x41), as in MIDR_EL1.
ARM_KINDS: Final = {
    0xD0B: "cortex-a76", 0xD0C: "neoverse-n1", 0xD40: "neoverse-v1", 0xD49: "neoverse-n2", 0xD4F: "neoverse-v2"
}  # fmt: skip


def facts() -> dict[str, Any]:
    """Facts that a reader of the results needs; None for those that the system does not provide."""
    return {
        "date": datetime.now(UTC).date().isoformat(),
        "processor": kind(),
        "cpu": _line("/proc/cpuinfo", "model name"),
        "cores": len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count(),
        "memory": _memory(),
        "system": f"{platform.system()} {platform.release()}",
        "load": round(os.getloadavg()[0], 2) if hasattr(os, "getloadavg") else None,
        "python": platform.python_version(),
        "versions": {name: _version(name) for name in ("i2s-spec", "numpy", "gguf", "construct", "cython")},
    }


def _line(path: str, name: str) -> str | None:
    try:
        lines = Path(path).read_text(encoding="latin-1").splitlines()
    except OSError:
        return None
    return next((line.partition(":")[2].strip() for line in lines if line.startswith(name)), None)


def _memory() -> str | None:
    total = _line("/proc/meminfo", "MemTotal")
    return f"{int(total.split()[0]) / 2**20:.0f} GiB" if total else None


def _version(name: str) -> str | None:
    try:
        return metadata.version(name)
    except metadata.PackageNotFoundError:
        return None


def kind(facts: dict[str, str] | None = None, machine: str | None = None) -> str:
    """The name of the processor in `results/`; for an unlisted one, its numbers.

    :param facts: names and values of `/proc/cpuinfo`; read there unless given
    :param machine: the name of the instruction set, as `platform.machine()` gives it

    >>> kind({"vendor_id": "GenuineIntel", "cpu family": "6", "model": "85", "stepping": "7"}, "x86_64")
    'cascade-lake'
    >>> kind({"vendor_id": "GenuineIntel", "cpu family": "6", "model": "42", "stepping": "7"}, "x86_64")
    'genuineintel-6-42'
    >>> kind({"CPU implementer": "0x41", "CPU part": "0xd0c"}, "aarch64")
    'neoverse-n1'
    """
    facts = _cpuinfo() if facts is None else facts
    machine = machine or platform.machine()
    if "vendor_id" in facts:
        family, model, stepping = (_whole(facts, name) for name in ("cpu family", "model", "stepping"))
        for each in X86_KINDS:
            ours = (each.vendor, each.family) == (facts["vendor_id"], family) and model in each.models
            if ours and (not each.steppings or stepping in each.steppings):
                return each.kind
        return f"{facts['vendor_id'].lower()}-{family}-{model}"
    if facts.get("CPU implementer") == "0x41":
        part = _whole(facts, "CPU part")
        return ARM_KINDS.get(part, f"arm-{part:x}")
    return machine.lower()


def _whole(facts: dict[str, str], name: str) -> int:
    try:
        return int(facts.get(name, "-1"), 0)
    except ValueError:
        return -1


def _cpuinfo() -> dict[str, str]:
    """The names and values of the first processor; empty if the system has no such file."""
    try:
        text = Path("/proc/cpuinfo").read_text(encoding="latin-1")
    except OSError:
        return {}
    lines = (line.partition(":") for line in text.split("\n\n", 1)[0].splitlines())
    return {name.strip(): value.strip() for name, _, value in lines}
