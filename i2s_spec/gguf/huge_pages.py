"""This module gives zeroed memory that lies in huge pages, where the system has any.

Being given a small page takes longer than filling it, and addresses in many small pages take long to look up.

>>> len(huge_pages(3)) >= 3
True
"""

from __future__ import annotations

import mmap
from contextlib import suppress
from typing import Final

from i2s_spec.errors import counted

#: Bytes of a huge page.
HUGE_PAGE: Final = 2 << 20


def huge_pages(size: int) -> mmap.mmap:
    """At least so many zeros, whole huge pages of them where they begin at one, which newer kernels see to.

    :raises MemoryError: where there are not so many
    """
    # Shared memory, which is the default, has pages of its own kind.
    private = {"flags": mmap.MAP_PRIVATE | mmap.MAP_ANONYMOUS} if hasattr(mmap, "MAP_PRIVATE") else {}
    try:
        memory = mmap.mmap(-1, -(-size // HUGE_PAGE) * HUGE_PAGE, **private)
    except OSError as error:
        raise MemoryError(f"there is no memory for {counted(size, 'byte')}") from error
    if hasattr(mmap, "MADV_HUGEPAGE"):
        with suppress(OSError):  # a kernel without them
            memory.madvise(mmap.MADV_HUGEPAGE)
    return memory


def zeros(size: int) -> mmap.mmap | bytearray:
    """At least so many zeros, in huge pages where there are enough of them."""
    return bytearray(size) if size < HUGE_PAGE // 4 else huge_pages(size)
