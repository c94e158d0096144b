"""This module describes where a benchmark ran: processor, memory, load, versions. Nothing in it identifies the machine."""

from __future__ import annotations

import os
import platform
from datetime import UTC, datetime
from importlib import metadata
from pathlib import Path
from typing import Any

from bench.processor import kind


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
