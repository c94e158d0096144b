"""Memory in huge pages: zeros, enough of them, and a defined result if huge pages are unavailable."""

from __future__ import annotations

import ctypes
import mmap
import re
import sys
from pathlib import Path

import pytest

from i2s_spec.gguf.source import HUGE_PAGE, huge_pages, zeros


@pytest.mark.parametrize("size", [1, HUGE_PAGE // 4 - 1, HUGE_PAGE // 4, HUGE_PAGE, HUGE_PAGE + 1])
def test_there_are_enough_zeros(size: int) -> None:
    memory = zeros(size)
    assert len(memory) >= size
    assert not any(memory[at] for at in range(0, size, 997))
    memory[size - 1] = 1  # the memory is writable


@pytest.mark.parametrize("size", [1, HUGE_PAGE, HUGE_PAGE + 1])
def test_whole_pages_are_given(size: int) -> None:
    assert len(huge_pages(size)) % HUGE_PAGE == 0


def test_impossible_sizes_are_refused() -> None:
    with pytest.raises(MemoryError, match="1,152,921,504,606,846,976 bytes"):
        huge_pages(1 << 60)


def test_a_system_without_huge_pages(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delattr(mmap, "MADV_HUGEPAGE", raising=False)
    assert len(huge_pages(1)) == HUGE_PAGE


@pytest.mark.skipif(sys.platform != "linux", reason="the kernel says so in a file of its own")
def test_it_is_private_and_asks_for_huge_pages() -> None:
    """Pages of shared memory are of the size that a setting of their own says."""
    if not Path("/sys/kernel/mm/transparent_hugepage/enabled").exists():
        pytest.skip("this kernel has no huge pages")
    memory = huge_pages(HUGE_PAGE)
    start = ctypes.addressof(ctypes.c_char.from_buffer(memory))
    advised = permissions = ""
    for line in Path("/proc/self/smaps").read_text(encoding="utf-8").splitlines():
        if found := re.match("([0-9a-f]+)-([0-9a-f]+) (.{4})", line):
            here = int(found[1], 16) <= start < int(found[2], 16)
            permissions = found[3] if here else permissions
        elif here and line.startswith("VmFlags:"):
            advised = line
    assert permissions == "rw-p"
    assert " hg" in advised
