"""This module opens files that are read whole: regular ones, of a bounded size, which are more than holes."""

from __future__ import annotations

import errno
import os
from typing import BinaryIO

from i2s_spec.errors import counted
from i2s_spec.gguf.source import FLAGS, Source, kind_of


def open_regular(path: str | os.PathLike[str], most: int | None = None) -> BinaryIO:
    """A regular file, to be read; nothing else is opened: a FIFO would wait for its writer, a device may never end.

    :param most: bytes that it may have
    :raises OSError: where it cannot be opened, is not a regular file, or is larger; with the name
    """
    name = os.fspath(path)
    fd = os.open(path, FLAGS)
    try:
        status = os.fstat(fd)
        kind = kind_of(status)
        if kind is not None:
            raise OSError(errno.EINVAL, f"it is {kind}, and no file", name)
        if most is not None and status.st_size > most:
            raise OSError(errno.EFBIG, f"it has {counted(status.st_size, 'byte')}, and {most:,} at most are read", name)
        return os.fdopen(fd, "rb")
    except BaseException:
        os.close(fd)
        raise


def read_regular(path: str | os.PathLike[str], most: int) -> bytes:
    """All bytes of a regular file.

    :raises OSError: as `open_regular` does
    """
    with open_regular(path, most) as file:
        data = file.read(min(most, max(os.fstat(file.fileno()).st_size, 1 << 16)))  # `read` takes that much memory
    if data is None:  # some files of /proc are called regular, and wait
        raise OSError(errno.EAGAIN, "it has nothing to read now", os.fspath(path))
    return data


#: A file is read whole unless more than so many bytes of it lie in holes, and more than so many times what was written.
MOST_UNWRITTEN, UNWRITTEN_SHARE = 1 << 34, 64


def require_written(source: Source) -> None:
    """Refuse to read a file whole that consists of holes: a few bytes on the disk can stand for any number.

    :raises ValueError: for such a file
    """
    number = getattr(getattr(source, "origin", source), "fileno", None)  # a file with edits has that of the original
    written = getattr(os.fstat(number()), "st_blocks", None) if number is not None else None
    if written is None or source.size - 512 * written <= max(MOST_UNWRITTEN, UNWRITTEN_SHARE * 512 * written):
        return
    raise ValueError(
        f"only {512 * written:,} of {counted(source.size, 'byte')} were ever written; the file is not read whole"
    )
