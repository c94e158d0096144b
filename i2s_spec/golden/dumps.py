"""Taps from wherever they were dumped: a record, .npz, .safetensors, a folder of .npy or .bin, a text of eval-callback.

The names are llama.cpp's. A folder has one file for each tap, its name being that of the tap with `/` written `_`; a
.bin is float32, little-endian, and tells no shape. A single .npy is the logits. Nothing in a dump is executed; arrays
of objects are refused. What a tap's shape is can be asked before its bytes are read, so that nothing too large is read.
"""

from __future__ import annotations

import io
import os
import zipfile
import zlib
from collections.abc import Callable, Iterator, Mapping, Sequence
from functools import partial
from math import prod
from pathlib import Path
from typing import Any, BinaryIO, Final, NamedTuple

import numpy as np

from i2s_spec.codec.shape import from_bfloat16, is_shape
from i2s_spec.errors import FormatError, SettingError, Span, TrustedText, counted, quote
from i2s_spec.gguf.source import below, open_regular
from i2s_spec.golden.llama_cpp import LONGEST_LINE, read_callback_text
from i2s_spec.golden.store import HEADER, Tap, taps_file
from i2s_spec.schema import faults

#: Most elements of a tap that are read.
MOST_ELEMENTS: Final = 1 << 32

#: Most taps, members of an archive, or files of a folder.
MOST_TAPS: Final = 1 << 20

#: Bytes that a member of an archive may have however well it is packed, and times its packed bytes beyond them.
LEAST_ROOM: Final = 1 << 26
MOST_TIMES: Final = 64

#: How NumPy packs members. Of the other ways Python unpacks a part of any size to give its first byte.
_METHODS: Final = (zipfile.ZIP_STORED, zipfile.ZIP_DEFLATED)

#: What a dump without a name of its own is: the logits.
UNNAMED: Final = ""

_TYPES: Final = {
    "F32": "<f4", "F16": "<f2", "F64": "<f8", "I8": "<i1", "I16": "<i2", "I32": "<i4", "I64": "<i8", "U8": "<u1"
}  # fmt: skip


class StoredTap(NamedTuple):
    """A tap of a dump that has not been read yet; the shape of a .bin is None.

    :param op: what made it, as ggml names it, and `sources`: of what; only a text says so
    """

    shape: tuple[int, ...] | None
    read: Callable[[], Tap]
    op: str = ""
    sources: tuple[str, ...] = ()


class Dump(Mapping[str, Tap]):
    """Taps by name, each read when it is asked for; in the order of the file.

    :param kind: `record`, `npz`, `npy`, `safetensors`, `folder` or `text`
    :param state: of its files, before anything of them was read
    """

    def __init__(
        self, path: Path, kind: str, stored: Mapping[str, StoredTap], prefix: str = "", state: Sequence[Any] = ()
    ) -> None:
        self.path, self.kind, self.prefix = path, kind, prefix
        self._state = state
        self.stored = {name.removeprefix(prefix): each for name, each in stored.items() if name.startswith(prefix)}
        if prefix and not self.stored:
            known = ", ".join(quote(name, bare=True) for name in list(stored)[:4])
            raise SettingError(f"no tap of {quote(str(path))} begins with {quote(prefix)}; there are {known} ...")

    def require_unchanged(self) -> None:
        """Raise where a file of the dump changed since it was opened: taps of two moments are no dump (12.4-2).

        :raises FormatError: S903
        :raises OSError: where it is gone
        """
        if _state(self.path) != self._state:
            reason = TrustedText("a file of it was written to")
            raise FormatError(faults.CHANGED, Span(0, 0), reason=reason).of_file(self.path)

    def __getitem__(self, name: str) -> Tap:
        stored = self.stored[name]
        if stored.shape is not None and prod(stored.shape) > MOST_ELEMENTS:
            raise SettingError(f"the tap {quote(name)} has the shape {list(stored.shape)}, which is too large")
        return stored.read()

    def __iter__(self) -> Iterator[str]:
        return iter(self.stored)

    def __len__(self) -> int:
        return len(self.stored)


def read_dump(path: str | os.PathLike[str], prefix: str = "") -> Dump:
    """Return a dump by its path.

    :param prefix: take only the taps whose names begin so, without it
    :raises SettingError: for anything that is not a dump
    :raises FormatError: for a .npz or .safetensors file that cannot be read (H101 to H103)
    """
    path = Path(path)
    state = _state(path)
    if path.is_dir():
        if (path / HEADER).is_file():
            inner = taps_file(path)
            if inner is None:
                raise SettingError(
                    f"the record {quote(str(path))} has no taps: taps.safetensors or taps.npz is missing"
                )
            real = Path(below(path, inner.name))
            return Dump(path, "record", _npz(real) if inner.suffix == ".npz" else _safetensors(real), prefix, state)
        return Dump(path, "folder", _folder(path), prefix, state)
    with open_regular(path) as file:
        start = file.read(16)
        if start[:6] == b"\x93NUMPY":
            return Dump(path, "npy", {UNNAMED: _npy(path, UNNAMED)}, prefix, state)
        if start[:4] in (b"PK\x03\x04", b"PK\x05\x06"):
            return Dump(path, "npz", _npz(path), prefix, state)
        if path.suffix == ".safetensors" or start[8:9] == b"{":
            return Dump(path, "safetensors", _safetensors(path), prefix, state)
        if b"\0" in start:
            raise SettingError(f"{quote(str(path))} is neither .npz nor .npy nor .safetensors nor text")
        file.seek(0)
        taps = _text(file)
    if not taps:
        raise SettingError(f"{quote(str(path))} is neither .npz nor .safetensors nor a text of eval-callback")
    return Dump(path, "text", taps, prefix, state)


def _state(path: Path) -> list[tuple[int, ...]]:
    """Return the files that a dump consists of, and when each was written to."""
    files = [path]
    if path.is_dir():
        inner = taps_file(path) if (path / HEADER).is_file() else None
        files = [*_arrays(path).values()] if inner is None else [inner]
    states = [file.stat() for file in files]
    return [(each.st_dev, each.st_ino, each.st_size, each.st_mtime_ns, each.st_ctime_ns) for each in states]


def _text(file: BinaryIO) -> dict[str, StoredTap]:
    def lines() -> Iterator[str]:
        while line := file.readline(4 * LONGEST_LINE):
            yield line.decode("utf-8", "replace")

    found: dict[str, StoredTap] = {}
    for tap in read_callback_text(lines()):
        if len(found) >= MOST_TAPS:
            raise SettingError(f"the text lists more than {MOST_TAPS:,} tensors")
        found[tap.name] = _in_memory(tap)
    return found


def _in_memory(tap: Tap) -> StoredTap:
    return StoredTap(tap.shape, lambda: tap, tap.op, tap.sources)


def _safetensors(path: Path) -> dict[str, StoredTap]:
    from i2s_spec.safetensors.files import Checkpoint

    try:
        checkpoint = Checkpoint(path)
    except FormatError as error:
        raise error.of_file(path) from None

    def reader(name: str) -> StoredTap:
        each = checkpoint[name]

        def read() -> Tap:
            if each.dtype == "BF16":
                values = from_bfloat16(np.frombuffer(each.read(), dtype="<u2"))
                return Tap(name, _quiet(values.reshape(each.shape)))
            if each.dtype not in _TYPES:
                raise SettingError(f"the tap {quote(name)} is of type {quote(each.dtype)}, which no tap has")
            return Tap(name, _native(np.frombuffer(each.read(), dtype=_TYPES[each.dtype]).reshape(each.shape)))

        return StoredTap(each.shape, read)

    return {name: reader(name) for name in checkpoint}


def _npz(path: Path) -> dict[str, StoredTap]:
    try:
        with open_regular(path) as whole, zipfile.ZipFile(whole) as archive:
            members = archive.infolist()
            if len(members) > MOST_TAPS:
                raise _malformed(f"the archive has {counted(len(members), 'member')}")
            found = {}
            for member in members:
                if member.filename.endswith(".npy"):
                    if member.compress_type not in _METHODS:
                        raise _malformed(f"{quote(member.filename)} is neither stored nor deflated")
                    name = member.filename.removesuffix(".npy")
                    with archive.open(member) as file:
                        found[name] = _array(name, file, member.file_size, partial(_opened, path, member))
    except (zipfile.BadZipFile, OSError, ValueError, EOFError, NotImplementedError, RuntimeError) as error:
        if isinstance(error, FormatError):
            raise
        raise _malformed(f"the archive cannot be read ({type(error).__name__})") from None
    return found


def _opened(path: Path, member: zipfile.ZipInfo) -> BinaryIO:
    if member.file_size > LEAST_ROOM + MOST_TIMES * member.compress_size:
        raise _malformed(
            f"{quote(member.filename)} has {counted(member.file_size, 'byte')}, packed into {member.compress_size:,}"
        )
    with zipfile.ZipFile(path) as archive:
        return archive.open(member)  # type: ignore[return-value]


def _npy(path: Path, name: str) -> StoredTap:
    with open_regular(path) as file:
        return _array(name, file, os.fstat(file.fileno()).st_size, lambda: open_regular(path))


def _array(name: str, start: Any, size: int, again: Callable[[], Any]) -> StoredTap:
    """Return a .npy: its header is read and compared with the bytes that follow it; they are read later."""
    what = f"the tap {quote(name)}" if name else "the file"
    try:
        version = np.lib.format.read_magic(start)
        if version not in ((1, 0), (2, 0), (3, 0)):
            raise _malformed(f"{what} is of version {version}")
        header = start.read(2 if version == (1, 0) else 4)
        length = int.from_bytes(header, "little")
        if length > 1 << 16:
            raise _malformed(f"{what} has a header of {counted(length, 'byte')}")
        text = io.BytesIO(header + start.read(length))
        read = np.lib.format.read_array_header_1_0 if version == (1, 0) else np.lib.format.read_array_header_2_0
        shape, _, dtype = read(text)
    except FormatError:
        raise
    except Exception as error:  # whatever the parser of a hostile header raises
        raise _malformed(f"{what} has no header of .npy ({type(error).__name__})") from None
    if dtype.hasobject or dtype.kind not in "fiub" or not is_shape(shape):
        raise _malformed(
            f"{what} is of type {quote(str(dtype))}, of {counted(len(shape), 'dimension')}: only arrays of numbers are read"
        )
    head = 6 + 2 + len(header) + length
    if prod(shape) * dtype.itemsize != size - head:
        raise _malformed(f"{what} has {counted(size - head, 'byte')}; its shape takes {prod(shape) * dtype.itemsize:,}")

    def load() -> Tap:
        try:
            with again() as file:
                value = np.lib.format.read_array(file, allow_pickle=False)
        except FormatError:
            raise
        except (ValueError, OverflowError, TypeError, OSError, EOFError, zipfile.BadZipFile, zlib.error) as error:
            raise _malformed(f"{what} cannot be read ({type(error).__name__})") from None
        return Tap(name, _native(value))

    return StoredTap(tuple(shape), load)


def _folder(path: Path) -> dict[str, StoredTap]:
    def flat(file: Path, name: str) -> StoredTap:
        def read() -> Tap:
            size = file.stat().st_size
            if size % 4 or size > 4 * MOST_ELEMENTS:
                raise SettingError(
                    f"{quote(file.name)} has {counted(size, 'byte')}, which is not a whole number of float32 values"
                )
            return Tap(name, _quiet(np.fromfile(file, dtype="<f4").astype(np.float32, copy=False)))

        return StoredTap((file.stat().st_size // 4,), read)

    found: dict[str, StoredTap] = {}
    for name, file in _arrays(path).items():
        stem, form = os.path.splitext(name)
        found[stem] = _npy(file, stem) if form == ".npy" else flat(file, stem)
    if not found:
        raise SettingError(f"{quote(str(path))} holds neither a record nor .npy nor .bin files")
    return found


def _arrays(path: Path) -> dict[str, Path]:
    """Return the files of a folder that are taps, by name; without links.

    :raises FormatError: S904 for a link that leads out of the folder
    """
    files = [file for file in sorted(path.iterdir()) if file.suffix in (".npy", ".bin") and file.is_file()]
    return {file.name: Path(below(path, file.name)) for file in files}


def _native(value: Any) -> Any:
    """Return the numbers in the machine's own order; floats are float32, integers int64 unless they are narrower."""
    kind = value.dtype.newbyteorder("=")
    if kind.kind == "f":
        with np.errstate(over="ignore", invalid="ignore"):
            return _quiet(value.astype(np.float32, copy=False))
    return value.astype(kind, copy=False)


def _quiet(value: Any) -> Any:
    """Replace every NaN by the quiet one: arithmetic with signalling ones would complain."""
    strange = np.isnan(value)
    return np.where(strange, np.float32(np.nan), value) if strange.any() else value


def _malformed(reason: str) -> FormatError:
    return FormatError(faults.NPY_MALFORMED, Span(0, 0), reason=TrustedText(reason))
