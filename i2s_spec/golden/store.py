"""Records on disk: a folder that is complete under its name or not there at all (clause 10.2); and the taps in it.

    golden.json          what was computed: profile, identity of the weights, architecture, tokens; the digests of taps
    taps.safetensors     the taps, or taps.npz
    eval-callback.txt    on request: the same in the form of llama.cpp's eval-callback
    logits.kld           on request: the file of llama-perplexity's --kl-divergence-base

The header says which taps are stored; of the others it has the digest and statistics. `NewRecord` writes a record, and
`read_header` reads its header. A `Tap` is one value, or the corner of it that a text shows.
"""

from __future__ import annotations

import hashlib
import json
import os
import shutil
import tempfile
import zipfile
from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from errno import ENOENT
from pathlib import Path
from typing import TYPE_CHECKING, Any, BinaryIO, Final, Literal

import numpy as np

from i2s_spec.errors import FormatError, RecordError, SettingError, quote
from i2s_spec.gguf.atomic_file import hold, recover, remove_leftovers, replace_folder, temporary_name
from i2s_spec.gguf.source import read_below
from i2s_spec.safetensors.files import NewTensor, write_checkpoint

if TYPE_CHECKING:
    from numpy.typing import NDArray

HEADER: Final = "golden.json"
TEXT: Final = "eval-callback.txt"
LOGITS: Final = "logits.kld"
SCHEMA_VERSION: Final = 1

#: Bytes that the header of a record may have.
MOST_HEADER: Final = 1 << 27

Form = Literal["safetensors", "npz"]

#: Bytes that are moved at a time.
_CHUNK: Final = 1 << 24

_DTYPES: Final = {"float32": "F32", "float16": "F16", "int8": "I8", "int32": "I32", "int64": "I64"}


def refuse_taken(folder: str | os.PathLike[str], force: bool = False) -> None:
    """Refuse a name that is taken: with `force`, by anything but a record or an empty folder.

    :raises FileExistsError: where it is
    :raises FileNotFoundError: where there is nothing that it could be in
    """
    path = Path(folder)
    if not os.path.lexists(path):
        above = Path(os.path.abspath(path)).parent
        if not above.is_dir():
            raise FileNotFoundError(ENOENT, "there is no such folder", str(above))
        return
    if not path.is_dir():
        raise FileExistsError(f"{quote(str(path))} already exists, and is not a folder")
    if any(path.iterdir()):
        if not (path / HEADER).is_file():
            raise FileExistsError(f"{quote(str(path))} already exists, and is not a record")
        if not force:
            raise FileExistsError(f"{quote(str(path))} already exists; force replaces it")


class NewRecord:
    """A record that is being written, in a folder of its own beside the one that it will be.

    As a context manager it gives the folder its name where the block ends, and removes it where the block fails.

    :param folder: where the record will be
    :param force: replace a record that is there; nothing but a record is ever replaced
    :raises FileExistsError: where the name is taken, and is not an empty folder
    """

    def __init__(self, folder: str | os.PathLike[str], form: Form = "safetensors", *, force: bool = False) -> None:
        if form not in ("safetensors", "npz"):
            raise SettingError(f"records are safetensors or npz, not {quote(form)}")
        self.folder = Path(os.path.abspath(folder))
        self.form, self.force = form, force
        recover(self.folder)
        refuse_taken(self.folder, self.force)
        remove_leftovers(str(self.folder.parent), self.folder.name)
        self._fd = -1
        self._spool: BinaryIO | None = None
        try:
            self._begin()
        except BaseException:
            self.discard()
            raise
        self._stored: list[tuple[str, str, tuple[int, ...], int]] = []
        #: What the header says of each tap.
        self.taps: dict[str, dict[str, Any]] = {}

    def _begin(self) -> None:
        """Make the folder under a temporary name, and hold it, so that nobody takes it for left over."""
        while True:
            self.part = self.folder.with_name(temporary_name(self.folder.name))
            with self._named():
                self.part.mkdir()
            if not hasattr(os, "O_DIRECTORY"):  # Windows opens no folders, and nothing is held there
                break
            self._fd = os.open(self.part, os.O_RDONLY | os.O_DIRECTORY | getattr(os, "O_CLOEXEC", 0))
            if hold(self._fd, str(self.part)):
                break
            self.discard()
        with self._named():
            self._spool = tempfile.TemporaryFile(dir=self.part)  # noqa: SIM115

    @contextmanager
    def _named(self) -> Iterator[None]:
        """Name the record in errors of the disk: the caller knows no other name."""
        try:
            yield
        except FileExistsError:
            raise
        except OSError as error:
            raise OSError(error.errno, error.strerror or str(error), str(self.folder)) from error

    def add(self, name: str, value: NDArray[Any], *, stored: bool = True, **about: Any) -> None:
        """Add one tap: its statistics go into the header, its bytes onto the disk if it is to be stored."""
        if name in self.taps:
            raise ValueError(f"the tap {name} is there already")
        self.taps[name] = {**statistics(value), "stored": stored, **about}
        if stored:
            plain = np.ascontiguousarray(value, dtype=value.dtype.newbyteorder("<"))
            assert self._spool is not None
            with self._named():
                self._stored.append((name, value.dtype.name, value.shape, self._spool.tell()))
                self._spool.write(plain.data.cast("B") if plain.size else b"")

    def path(self, name: str) -> Path:
        """Return a further file of the record."""
        return self.part / name

    def finish(self, header: Mapping[str, Any]) -> None:
        """Write the taps and the header, and give the folder its name.

        A record that is there is exchanged for the new one in one step, where the system can do that.
        """
        with self._named():
            self._finish(header)

    def _finish(self, header: Mapping[str, Any]) -> None:
        assert self._spool is not None
        if self.form == "npz":
            self._write_npz()
        else:
            new = [NewTensor(name, _DTYPES[kind], shape, self._bytes_of(kind, shape, at))
                   for name, kind, shape, at in self._stored]  # fmt: skip
            write_checkpoint(self.part / "taps.safetensors", new, metadata={"format": "np"})
        self._spool.close()
        text = json.dumps({"schema_version": SCHEMA_VERSION, **header, "taps": self.taps}, indent=1, allow_nan=False)
        with open(self.part / HEADER, "w", encoding="utf-8") as file:
            file.write(text + "\n")
            file.flush()
            os.fsync(file.fileno())
        refuse_taken(self.folder, self.force)
        if self.folder.exists() and any(self.folder.iterdir()):
            replace_folder(self.part, self.folder)
        else:
            os.rename(self.part, self.folder)

    def discard(self) -> None:
        """Remove everything; nothing happens after `finish`."""
        with suppress(OSError):  # what a full disk has to say about the rest of the buffer
            if self._spool is not None:
                self._spool.close()
        shutil.rmtree(self.part, ignore_errors=True)
        if self._fd >= 0:
            os.close(self._fd)
            self._fd = -1

    def __enter__(self) -> NewRecord:
        return self

    def __exit__(self, *rest: object) -> None:
        self.discard()

    def _bytes_of(self, kind: str, shape: tuple[int, ...], at: int) -> Any:
        size = int(np.prod(shape, dtype=np.int64)) * np.dtype(kind).itemsize

        spool = self._spool
        assert spool is not None

        def read() -> Iterator[bytes]:
            spool.seek(at)
            left = size
            while left:
                chunk = spool.read(min(left, _CHUNK))
                left -= len(chunk)
                yield chunk

        return read

    def _write_npz(self) -> None:
        with zipfile.ZipFile(self.part / "taps.npz", "w", zipfile.ZIP_STORED, allowZip64=True) as archive:
            for name, kind, shape, at in self._stored:
                entry = zipfile.ZipInfo(f"{name}.npy")  # a fixed date: the same taps are the same bytes
                with archive.open(entry, "w", force_zip64=True) as file:
                    descr = np.lib.format.dtype_to_descr(np.dtype(kind).newbyteorder("<"))
                    about = {"descr": descr, "fortran_order": False, "shape": shape}
                    np.lib.format.write_array_header_1_0(file, about)
                    for chunk in self._bytes_of(kind, shape, at)():
                        file.write(chunk)


def read_header(folder: str | os.PathLike[str]) -> dict[str, Any]:
    """Return the header of a record.

    :raises RecordError: where there is no record
    :raises SettingError: where its header is none, or of a later version
    """
    path = Path(folder) / HEADER
    try:
        header = json.loads(read_below(folder, HEADER, MOST_HEADER))
    except (OSError, ValueError, RecursionError) as error:
        words = error.message if isinstance(error, FormatError) else "it is not JSON"
        reason = getattr(error, "strerror", None) or words
        raise RecordError(f"{quote(str(folder), bare=True)}: not a record: {HEADER} cannot be read: {reason}") from None
    wanted: dict[str, type] = {"schema_version": int, "taps": dict, "token_ids": list, "profile": str}
    if not isinstance(header, dict) or any(not isinstance(header.get(key), kind) for key, kind in wanted.items()):
        raise SettingError(f"{quote(str(path))} is not the header of a record")
    if (
        any(type(token) is not int or not 0 <= token < 1 << 31 for token in header["token_ids"])
        or not header["token_ids"]
    ):
        raise SettingError(f"{quote(str(path))} has invalid token ids")
    if header["schema_version"] > SCHEMA_VERSION:
        raise SettingError(
            f"the record is of version {header['schema_version']}; this program reads up to {SCHEMA_VERSION}"
        )
    return header


def taps_file(folder: str | os.PathLike[str]) -> Path | None:
    """Return the file of a record that holds its taps."""
    found: Iterable[Path] = (Path(folder) / f"taps.{form}" for form in ("safetensors", "npz"))
    return next((path for path in found if path.is_file()), None)


# --- tap -------------------------------------------------------------------------------------------------------------
# One value of a graph, with what is known of it (clause 10.1).

#: Values that a header shows of the start and of the end of a tap of floats.
SHOWN = 3


#: Of each dimension so many from either end are in a corner, where it has more than twice as many.
CORNER: Final = 3


@dataclass(frozen=True)
class Tap:
    """A value by its name, or the corner of it that a text shows.

    :param value: of any shape; of a corner, what is shown: at most `2 * CORNER` from each dimension
    :param corner_of: the shape of the whole, where only a corner is known
    :param resolution: how far a shown number may be from the real one: half of its last digit
    :param total: the sum that a text form gives
    :param op: what the dump calls the operation; empty where it does not
    :param sources: what the dump says went into it, tensors of the file among them
    """

    name: str
    value: NDArray[Any]
    corner_of: tuple[int, ...] | None = None
    resolution: float = 0.0
    total: float | None = None
    op: str = ""
    sources: tuple[str, ...] = ()

    @property
    def shape(self) -> tuple[int, ...]:
        """The shape of the whole value."""
        return self.value.shape if self.corner_of is None else self.corner_of


def corner(value: NDArray[Any]) -> NDArray[Any]:
    """Return the part of a value that a text shows: of each dimension the first and last few."""
    return value[np.ix_(*(corner_indices(size) for size in value.shape))]


def corner_indices(size: int) -> NDArray[np.int64]:
    """Return the indices that are shown of so many."""
    if size <= 2 * CORNER:
        return np.arange(size)
    return np.concatenate([np.arange(CORNER), np.arange(size - CORNER, size)])


def digest(value: NDArray[Any]) -> str:
    """Return the SHA-256 of the bytes of an array: row by row, little-endian; shape and type are not in it."""
    plain = np.ascontiguousarray(value)
    return hashlib.sha256(plain.astype(plain.dtype.newbyteorder("<"), copy=False).data.cast("B")).hexdigest()


def statistics(value: NDArray[Any]) -> dict[str, Any]:
    """Return type, shape, digest, and of numbers the least, largest, mean and root mean square; of floats the first
    and last.

    Mean and root mean square are those of the finite elements, summed in float64; `not_finite` counts the others.
    """
    found: dict[str, Any] = {"dtype": value.dtype.name, "shape": list(value.shape), "sha256": digest(value)}
    if not value.size:
        return found
    finite = value[np.isfinite(value)]
    if finite.size:
        wide = finite.astype(np.float64)
        found |= {"min": finite.min().item(), "max": finite.max().item(), "mean": float(wide.mean())}
        found["rms"] = float(np.sqrt(np.mean(wide * wide)))
    if value.dtype.kind == "f":
        found["not_finite"] = int(value.size - finite.size)
        flat = value.reshape(-1)
        found["first"], found["last"] = ([_plain(x) for x in part] for part in (flat[:SHOWN], flat[-SHOWN:]))
    return found


def _plain(x: Any) -> float | str:
    """Return a float as JSON has it."""
    number = float(x)
    return number if np.isfinite(number) else str(number)
