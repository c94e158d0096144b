"""Files that are complete under their name or not there at all, and the removal of what killed runs left.

The bytes go into a temporary file in the same folder, which is flushed to the disk and only then given the name. What
fails or is interrupted before leaves neither a trace nor a change; what a killed run leaves, the next one that writes
the same file removes. Without `force` no file is ever replaced, also not one that appears in the meantime: the name is
then given by a hard link, which the kernel refuses if it is taken.

    with OutputFile("model.gguf", size=4096) as output:
        output.write(data)

`unfinished_folder` and `publish_folder` do the same for folders.
"""

from __future__ import annotations

import errno
import os
import re
import secrets
import shutil
import stat
import sys
from collections.abc import Iterable, Iterator
from contextlib import contextmanager, suppress
from typing import Any, BinaryIO, Final

from i2s_spec.errors import counted
from i2s_spec.gguf.source import Buffer, MapSource, Source, require_unchanged

try:
    import fcntl
except ImportError:  # not on every system: then no leftovers are removed
    fcntl = None  # type: ignore[assignment]

#: Where a file is written to: a path, or a binary stream.
Target = str | os.PathLike[str] | BinaryIO

#: What a call reads: a path, or what is open.
Input = str | os.PathLike[str] | BinaryIO | Source

#: How a file system says that it has no hard links.
_NO_LINKS = {errno.EPERM, errno.ENOTSUP, errno.EOPNOTSUPP, errno.ENOSYS, errno.EMLINK, errno.EACCES, errno.EXDEV}

#: How it says that there is no room for more.
_NO_SPACE = {errno.ENOSPC, errno.EDQUOT, errno.EFBIG, errno.EIO}

#: How Linux's sync_file_range is told to begin, and not to wait.
_SYNC_WRITE: Final = 2

#: Bytes that are copied and compared together; they stay in the second-level cache.
COPIED: Final = 1 << 19

#: Bytes that are copied before the disk is told to begin with them.
FLUSHED: Final = 32 << 20

#: Bytes of a block of the usual file systems.
BLOCK: Final = 4096

#: Whether an open file keeps its name, as on Windows: it is closed before it is renamed or removed.
_KEEPS_NAME = os.name == "nt"


class InputFileError(FileExistsError):
    """An output is an input of the same call."""


class OutputFile:
    """A file that gets its name when its last byte is on the disk.

    As a context manager it commits where the block ends and discards where the block fails. The file has the mode that
    a new file gets (the umask counts), or that of the file it replaces. A symbolic link is replaced, not followed.

    :param path: the name that the file gets
    :param force: replace a file of that name
    :param size: how many bytes will be written, where that is known: the disk is asked for room first
    :param inputs: what the same call reads, as `refuse_inputs` takes it
    :raises FileExistsError: where the name is taken and `force` is not given, at the start and again at the end
    :raises InputFileError: where it is that of an input, also with `force`
    :raises OSError: where the folder is missing, the name is that of a folder or a device, or the disk has no room
    """

    def __init__(
        self,
        path: str | os.PathLike[str],
        *,
        force: bool = False,
        size: int | None = None,
        inputs: Iterable[Input | None] = (),
    ) -> None:
        self.name = os.fsdecode(path)
        self.force = force
        refuse_inputs(path, *inputs)
        refuse_taken(self.name, force)
        self._path = os.path.join(os.getcwd(), self.name)  # the working folder may change meanwhile
        self._folder, base = os.path.split(self._path)
        if size is not None:
            _refuse_without_room(self._folder, size, self.name)
        self._part: str | None = None
        self._fd = -1
        self._size = self._begun = 0
        self._clones = hasattr(os, "copy_file_range")
        try:
            remove_leftovers(self._folder, base)
            self._begin(base)
            self._keep_mode()
        except OSError as error:
            self.discard()
            raise self._named(error) from error
        except BaseException:
            self.discard()
            raise

    def _begin(self, base: str) -> None:
        """Make the temporary file, and lock it, so that no other run removes it."""
        flags = os.O_RDWR | os.O_CREAT | os.O_EXCL | getattr(os, "O_CLOEXEC", 0) | getattr(os, "O_BINARY", 0)
        while True:
            self._part = os.path.join(self._folder, temporary_name(base))
            self._fd = os.open(self._part, flags, 0o666)
            if hold(self._fd, self._part):
                return
            self.discard()

    def write(self, data: Buffer) -> None:
        """Append bytes.

        :raises OSError: as the disk gives it, with the name that the file was to have
        """
        left = memoryview(data).cast("B")
        try:
            while left:
                done = os.write(self._fd, left)
                self._size += done
                left = left[done:]
        except OSError as error:
            raise self._named(error) from error

    def copy(self, source: Source, start: int, stop: int) -> Iterator[int]:
        """Append a range of a source, and compare what was written with it; gives the bytes of each part that is done.

        Of a file the system copies it, which shares the blocks where the file system can (Btrfs, XFS) and both places
        are whole blocks; what was never written there is a hole here too.

        :raises FormatError: S903 where the source changes meanwhile
        :raises OSError: as `write` does, and where other bytes are read back
        """
        here = there = bytearray()
        number = getattr(source, "fileno", None)
        while start < stop:
            if number is not None and (hole := min(stop, _data(number(), start)) - start) > BLOCK:
                self._skip(hole)
                start += hole
                yield hole
                continue
            size = min(stop - start, COPIED - start % BLOCK)  # the next part begins with a block
            if size != len(here):
                here, there = bytearray(size), bytearray(size)
            at = self._size
            cloned = 0 if number is None or size < BLOCK else self._cloned(number(), start, size)
            source.readinto(start, memoryview(here))
            self.write(memoryview(here)[cloned:])
            try:
                self._read_back(at, there)
            except OSError as error:
                raise self._named(error) from error
            if here != there:
                require_unchanged(source)
                raise OSError(errno.EIO, "other bytes are read back than were written", self.name)
            if self._size - self._begun >= FLUSHED:
                _begin_flush(self._fd, self._begun, self._size - self._begun)
                self._begun = self._size
            start += size
            yield size

    def _cloned(self, fd: int, start: int, size: int) -> int:
        """How many bytes of another file the system itself has appended; 0 where it does not do that here."""
        done = 0
        while self._clones and done < size:
            try:
                count = os.copy_file_range(fd, self._fd, size - done, start + done)
            except OSError as error:
                if error.errno in _NO_SPACE:
                    raise self._named(error) from error
                self._clones = False
                break
            if not count:  # the other file is shorter now, as the read that follows finds
                break
            done += count
        self._size += done
        return done

    def _skip(self, size: int) -> None:
        """Append a hole."""
        self._size += size
        try:
            os.ftruncate(self._fd, self._size)
            os.lseek(self._fd, 0, os.SEEK_END)
        except OSError as error:
            raise self._named(error) from error

    def _read_back(self, start: int, buffer: bytearray) -> None:
        """Read what was written, as far as the file has it; the place of the next write stays."""
        view = memoryview(buffer)
        if not hasattr(os, "preadv"):
            os.lseek(self._fd, start, os.SEEK_SET)
        while view:
            if hasattr(os, "preadv"):
                count = os.preadv(self._fd, [view], start + len(buffer) - len(view))
            else:
                data = os.read(self._fd, len(view))
                view[: len(data)], count = data, len(data)
            if not count:
                break
            view = view[count:]
        if not hasattr(os, "preadv"):
            os.lseek(self._fd, 0, os.SEEK_END)

    def commit(self) -> None:
        """Bring the bytes to the disk and give the file its name.

        :raises FileExistsError: where the name has been taken meanwhile and `force` is not given
        """
        assert self._part is not None
        try:
            os.fsync(self._fd)
            refuse_taken(self._path, self.force, self.name)
            if _KEEPS_NAME:
                self._close()
            give_name(self._part, self._path, self.force)
            self._part = None
        except OSError as error:
            raise self._named(error) from error
        finally:
            self.discard()
        _sync_folder(self._folder)

    def discard(self) -> None:
        """Remove the temporary file; nothing happens after `commit`."""
        if _KEEPS_NAME:
            self._close()
        if self._part is not None:
            with suppress(OSError):  # it was never made, or has its name already
                os.unlink(self._part)
            self._part = None
        self._close()

    def _close(self) -> None:
        fd, self._fd = self._fd, -1
        if fd >= 0:
            with suppress(OSError):  # fsync has reported a full disk already
                os.close(fd)

    def __enter__(self) -> OutputFile:
        return self

    def __exit__(self, kind: type[BaseException] | None, *rest: object) -> None:
        if kind is None:
            self.commit()
        else:
            self.discard()

    def _keep_mode(self) -> None:
        """Take over the mode of the file that will be replaced."""
        if not hasattr(os, "fchmod"):  # Windows before CPython 3.13
            return
        with suppress(OSError):  # there is none, or the file system has no modes
            os.fchmod(self._fd, stat.S_IMODE(os.stat(self._path).st_mode) & 0o777)

    def _named(self, error: OSError) -> OSError:
        """Return the same error, about the name that was asked for instead of the temporary one."""
        if error.errno == errno.EEXIST:
            return _taken(self.name)
        return OSError(error.errno, error.strerror, self.name)


def give_name(part: str, path: str, force: bool) -> None:
    """Give a complete file another name, in one step; without `force` nothing is ever replaced.

    :raises OSError: as the system does; then the file has its first name
    """
    if not force:
        try:
            os.link(part, path)
        except OSError as error:
            if error.errno not in _NO_LINKS:
                raise
            # No hard links here: take the name with an empty file of our own, which alone is then replaced.
            os.close(os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600))
        else:
            with suppress(OSError):
                os.unlink(part)
            return
    try:
        os.replace(part, path)
    except BaseException:
        if not force:
            os.unlink(path)
        raise


def refuse_taken(path: str | os.PathLike[str], force: bool = False, name: str | None = None) -> None:
    """Refuse a name that no file can be written under: it is taken, or no folder would hold it.

    :param force: a regular file (or a link to one) may be replaced
    :param name: what the error calls it, if not `path`
    :raises FileExistsError: where the name is taken and `force` is not given
    :raises OSError: where the folder is missing, or a folder, device, pipe or socket has the name
    """
    path = os.fsdecode(path)
    name = name or path
    folder, base = os.path.split(path)
    try:
        status = os.stat(path)
    except FileNotFoundError:
        if not os.path.isdir(folder or "."):
            raise FileNotFoundError(errno.ENOENT, "the folder for the file does not exist", name) from None
        if base in ("", ".", ".."):
            raise IsADirectoryError(errno.EISDIR, "a file needs a name; this names a folder", name) from None
        if os.path.islink(path) and not force:
            raise _taken(name) from None
        return
    if stat.S_ISDIR(status.st_mode):
        raise IsADirectoryError(errno.EISDIR, "this is a folder; a file cannot replace it", name)
    if not stat.S_ISREG(status.st_mode):
        raise OSError(errno.EINVAL, "this is a device, pipe or socket; only a regular file can be replaced", name)
    if not force:
        raise _taken(name)


def refuse_inputs(target: Target, *inputs: Input | None) -> None:
    """Refuse to write over a file that the same call reads, even if files may be replaced.

    :param inputs: paths, sources and streams; None for one that was not given
    :raises InputFileError: where the path is that of an input, under whatever name: a link, `./`, a hard link
    :raises ValueError: where the target is a stream onto an input
    """
    ours = _status(target)
    for each in inputs:
        place = each.name if isinstance(each, MapSource) else getattr(each, "_stream", each)
        theirs = _status(place) if ours is not None else None
        if place is not target and (ours is None or theirs is None or not os.path.samestat(ours, theirs)):
            continue
        if not isinstance(target, str | os.PathLike):
            raise ValueError("the target is a stream onto the source, which would be read back half-written")
        if ours is not None:  # else nothing is there to be lost
            raise InputFileError(
                errno.EEXIST, "this is an input file; the output needs another name", os.fspath(target)
            )


def write_all(stream: BinaryIO, data: Buffer) -> None:
    """Write all of `data` to a stream, also where the stream takes it in parts."""
    left = memoryview(data).cast("B")
    while left:
        taken: int | None = stream.write(left)
        if taken is None:  # a stream that does not count has taken it all
            return
        left = left[taken:]


def _taken(name: str) -> FileExistsError:
    return FileExistsError(errno.EEXIST, "there is a file of this name already; force replaces it", name)


def _refuse_without_room(folder: str, size: int, name: str) -> None:
    try:
        usage = shutil.disk_usage(folder)
    except OSError:
        return  # a file system that does not say; it will say when it is full
    if usage.total and size > usage.free:
        raise OSError(
            errno.ENOSPC, f"the file takes {counted(size, 'byte')} and the disk has {usage.free:,} free", name
        )


def _status(place: Any) -> os.stat_result | None:
    """Return the status of the file behind a path, a stream or a source; None without a file."""
    try:
        if isinstance(place, str | os.PathLike):
            return os.stat(place)
        return os.fstat(place.fileno())
    except (AttributeError, OSError, ValueError):
        return None


def _data(fd: int, start: int) -> int:
    """Where the next bytes of a file are that were ever written; its end where only a hole is left."""
    if not hasattr(os, "SEEK_DATA"):
        return start
    try:
        return os.lseek(fd, start, os.SEEK_DATA)
    except OSError as error:
        return os.fstat(fd).st_size if error.errno == errno.ENXIO else start


def _begin_flush(fd: int, start: int, size: int) -> None:
    """Let the disk begin with what was written, while more is being written; nothing where the system has no such call."""
    if not sys.platform.startswith("linux"):
        return
    import ctypes

    call = getattr(ctypes.CDLL(None), "sync_file_range", None)
    if call is not None:
        call(fd, ctypes.c_int64(start), ctypes.c_int64(size), ctypes.c_uint(_SYNC_WRITE))


def _sync_folder(folder: str) -> None:
    """Bring the new name to the disk; a file system that cannot do that for folders does it in its own time."""
    try:
        fd = os.open(folder, os.O_RDONLY | getattr(os, "O_DIRECTORY", 0))
    except OSError:
        return
    with suppress(OSError):
        os.fsync(fd)
    os.close(fd)


# --- unfinished ------------------------------------------------------------------------------------------------------
# A temporary name is that of the result with a dot before it, and 16 hexadecimal digits and `.part` after it. Who
# writes holds a lock on it, which the system takes back when the process ends, however it ends. The next run that
# writes the same result removes what bears such a name and is not locked.

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
    """Return a name for what is not complete yet."""
    return f"{_beginning(base)}.{secrets.token_hex(_DIGITS)}{ENDING}"


def _beginning(base: str) -> str:
    retained = os.fsencode(base)[: _NAME_MAX - 2 - 2 * _DIGITS - len(ENDING)]
    return f".{os.fsdecode(retained)}"


def hold(fd: int, path: str) -> bool:
    """Lock a new file or folder until it is closed; return False if another run has removed it meanwhile."""
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
    """Remove the leftovers of killed runs with the same result, unless locked or another user's; return their number."""
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
    """Remove a leftover, unless a process is writing it; return whether it was removed."""
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


def refuse_full_folder(target: str | os.PathLike[str], force: bool = False, replaces: str = "") -> None:
    """Refuse a name for a folder that cannot be written; make the folder that it is to be in.

    :param force: whether files may be in it
    :param replaces: what happens to them with `force`, for the message
    :raises FileExistsError: where the name is that of a file, or of a folder with something in it
    :raises NotADirectoryError: where it lies in a file
    """
    if os.path.exists(target) and not os.path.isdir(target):
        raise FileExistsError(errno.EEXIST, "this is a file; a folder is to be written", os.fspath(target))
    if not force and os.path.isdir(target) and os.listdir(target):
        more = f"; force replaces {replaces} in it" if replaces else ""
        raise FileExistsError(errno.EEXIST, f"the folder is not empty{more}", os.fspath(target))
    try:
        os.makedirs(os.path.dirname(os.path.abspath(target)), exist_ok=True)
    except FileExistsError:
        raise NotADirectoryError(errno.ENOTDIR, os.strerror(errno.ENOTDIR), os.fspath(target)) from None


@contextmanager
def unfinished_folder(path: str | os.PathLike[str]) -> Iterator[str]:
    """Provide a folder beside a file or folder that will be, to be filled and then given its name, by
    `publish_folder` for one.

    It is locked, so that no other run removes it. What lies under its first name in the end is removed; so are, before,
    the leftovers of killed runs with the same result.
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
    except OSError as error:  # the caller knows no other name than that of the result
        if (folder and str(error.filename).startswith(folder)) or (error.filename is None and error.errno in _NO_SPACE):
            error.filename = os.fsdecode(path)
        raise
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
