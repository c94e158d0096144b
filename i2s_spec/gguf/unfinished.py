"""This module recognizes what a killed run left: files and folders under temporary names that no process writes any more.

A temporary name is that of the result with a dot before it, and 16 hexadecimal digits and `.part` after it. Who writes
holds a lock on it, which the system takes back when the process ends, however it ends. The next run that writes the
same result removes what bears such a name and is not locked.
"""

from __future__ import annotations

import os
import re
import secrets
import shutil
import stat
import sys
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from typing import Final

try:
    import fcntl
except ImportError:  # not on every system: then nothing is taken for left over
    fcntl = None  # type: ignore[assignment]

ENDING: Final = ".part"
#: Longest file name, in bytes, of the usual file systems.
_NAME_MAX: Final = 255
_DIGITS: Final = 8
#: How what was taken away by `replace_folder` ends, and how Linux's renameat2 is told to exchange two names.
_AWAY: Final = ".old"
_TAKEN: Final = re.compile(r"\.[0-9a-f]{16}\.old")
_AT_FDCWD, _EXCHANGE = -100, 2
_LEFT: Final = re.compile(r"\.[0-9a-f]{16}\.part")


def temporary_name(base: str) -> str:
    """A name for what is not complete yet."""
    return f"{_beginning(base)}.{secrets.token_hex(_DIGITS)}{ENDING}"


def _beginning(base: str) -> str:
    retained = os.fsencode(base)[: _NAME_MAX - 2 - 2 * _DIGITS - len(ENDING)]
    return f".{os.fsdecode(retained)}"


def hold(fd: int, path: str) -> bool:
    """Lock what was just made, until it is closed; False where another run has taken it for left over meanwhile."""
    if fcntl is None:
        return True
    try:
        fcntl.flock(fd, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        return False
    except OSError:  # a file system without locks
        return True
    with suppress(OSError):
        return os.path.samestat(os.fstat(fd), os.lstat(path))
    return False


def remove_leftovers(folder: str, base: str) -> int:
    """Remove what killed runs left of one result; what is locked, and what belongs to others, stays. Gives their number."""
    count, beginning = 0, _beginning(base)
    try:
        names = os.listdir(folder) if fcntl is not None else []
    except OSError:
        return 0
    there = os.path.lexists(os.path.join(folder, base))
    for name in names:
        if not name.startswith(beginning):
            continue
        # What was taken away may be the only one there is.
        if _LEFT.fullmatch(name, len(beginning)) or (there and _TAKEN.fullmatch(name, len(beginning))):
            with suppress(OSError):
                count += _remove(os.path.join(folder, name))
    return count


def _remove(path: str) -> bool:
    """Remove one, if nobody writes it."""
    status = os.lstat(path)
    mine = not hasattr(os, "geteuid") or status.st_uid == os.geteuid()
    if not mine or not (stat.S_ISREG(status.st_mode) or stat.S_ISDIR(status.st_mode)):
        return False
    fd = os.open(path, os.O_RDONLY | getattr(os, "O_NOFOLLOW", 0) | getattr(os, "O_CLOEXEC", 0))
    try:
        fcntl.flock(fd, fcntl.LOCK_EX | fcntl.LOCK_NB)
        if not os.path.samestat(os.fstat(fd), os.lstat(path)):
            return False
        if stat.S_ISDIR(status.st_mode):
            shutil.rmtree(path)
        else:
            os.unlink(path)
        return True
    finally:
        os.close(fd)


@contextmanager
def unfinished_folder(path: str | os.PathLike[str]) -> Iterator[str]:
    """A folder beside a file or folder that will be, to be filled and then given its name, by `publish_folder` for one.

    It is held, so that nobody takes it for left over; what lies under its first name in the end is removed. So is what
    killed runs left of the same result, before.
    """
    recover(path)
    parent, base = os.path.split(os.path.abspath(os.fsdecode(path)))
    remove_leftovers(parent, base)
    folder, fd = "", -1
    try:
        while True:
            folder = os.path.join(parent, temporary_name(base))
            os.mkdir(folder)
            fd = os.open(folder, os.O_RDONLY | getattr(os, "O_CLOEXEC", 0)) if os.name == "posix" else -1
            if fd < 0 or hold(fd, folder):
                break
            os.close(fd)
        yield folder
    finally:
        shutil.rmtree(folder, ignore_errors=True)
        if fd >= 0:
            os.close(fd)


def publish_folder(part: str, path: str | os.PathLike[str], force: bool = False) -> None:
    """Give a complete folder its name, which may be that of an empty folder.

    :param force: put it in the place of a folder that is there; `part` is then the name of that one
    :raises OSError: where the name is taken otherwise
    """
    if force and os.path.isdir(path) and os.listdir(path):
        replace_folder(part, path)
        return
    with suppress(OSError):  # not every system replaces an empty folder; a full one stays, and is refused below
        os.rmdir(path)
    os.rename(part, path)


def replace_folder(new: str | os.PathLike[str], old: str | os.PathLike[str]) -> None:
    """Put a folder in the place of another one, which then has the name of the first, to be removed.

    In one step where the system has one (Linux); else the old one is away for a moment, and `recover` brings it back
    where the process ends in it.
    """
    if _exchange(os.fsencode(new), os.fsencode(old)):
        if os.path.islink(new):  # what was replaced is the link, and no folder to be removed
            os.unlink(new)
        return
    away = os.path.splitext(os.fspath(new))[0] + _AWAY
    os.rename(old, away)
    os.rename(new, old)
    if os.path.islink(away):
        os.unlink(away)
    shutil.rmtree(away, ignore_errors=True)


def recover(path: str | os.PathLike[str]) -> bool:
    """Bring back a folder that a killed `replace_folder` took away; whether there was one."""
    folder, base = os.path.split(os.path.abspath(path))
    if os.path.lexists(path) or not os.path.isdir(folder):
        return False
    for name in sorted(os.listdir(folder)):
        beginning = _beginning(base)
        if name.startswith(beginning) and _TAKEN.fullmatch(name, len(beginning)):
            os.rename(os.path.join(folder, name), path)
            return True
    return False


def _exchange(one: bytes, other: bytes) -> bool:
    """Let two names change what they name, in one step; False where the system cannot."""
    if not sys.platform.startswith("linux"):
        return False
    import ctypes

    call = getattr(ctypes.CDLL(None, use_errno=True), "renameat2", None)
    if call is None:
        return False
    failed = call(_AT_FDCWD, ctypes.c_char_p(one), _AT_FDCWD, ctypes.c_char_p(other), ctypes.c_uint(_EXCHANGE))
    return not failed
