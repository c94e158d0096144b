"""This module opens a file of known weights and finds in it the tensor that belongs to a tensor of another file.

Two GGUF files use the same tensor names. A checkpoint uses other names; for architectures that rotate neighboring rows,
it also has the rows of attn_q and attn_k in another order (`convert.hugging_face`).
"""

from __future__ import annotations

import os
from typing import TYPE_CHECKING, Any, Final

import numpy as np

from i2s_spec.codec.form import FLOAT_WORDS, widened
from i2s_spec.convert.hugging_face.names import heads_that_move, module_name, to_gguf_rows
from i2s_spec.convert.hugging_face.packed import checked_convention, configured, scale_of
from i2s_spec.convert.hugging_face.safetensors import Checkpoint, Stored
from i2s_spec.errors import quote
from i2s_spec.gguf.reader import open as open_file
from i2s_spec.gguf.source import PathSource
from i2s_spec.inspect.compare.tensor_rows import ROUNDING, Rows, flat_rows, rows_of
from i2s_spec.linter.reference import Reference
from i2s_spec.linter.reference.known import Known, of_floats, of_tensor
from i2s_spec.schema.architectures.architecture import declared_architecture
from i2s_spec.schema.dialect import parse

if TYPE_CHECKING:
    from collections.abc import Callable

    from numpy.typing import NDArray

    from i2s_spec.gguf.reader import File, Tensor

_PACKED: Final = 4
_NPY: Final = b"\x93NUMPY"


class ReferenceWeights:
    """The weights that a reference holds; a context manager that closes the file.

    :raises ValueError: for a dialect that does not exist, and for an array without names (.npy)
    :raises FormatError: for a file that is neither GGUF nor safetensors, or cannot be read
    """

    def __init__(self, reference: Reference) -> None:
        reference.check()
        self.reference = reference
        self.file: File | None = None
        self._checkpoint: Checkpoint | None = None
        origin = reference.origin
        self._owned = isinstance(origin, str | os.PathLike)
        if self._owned and _is_checkpoint(origin):
            self._checkpoint = Checkpoint(origin)
        else:
            self.file = open_file(origin)

    def __enter__(self) -> ReferenceWeights:
        return self

    def __exit__(self, *exc: object) -> None:
        self.close()

    def close(self) -> None:
        """Close the file, if it was opened here."""
        if self._owned and self.file is not None:
            self.file.close()
        if self._checkpoint is not None:
            self._checkpoint.close()

    def changed(self) -> str | None:
        """Why parts that were read of the reference may be from different versions of it, or None (12.4-2)."""
        sources = self._checkpoint.sources if self._checkpoint is not None else []
        sources = [self.file.source] if self.file is not None else sources
        return next((f"the reference changed: {reason}" for each in sources if (reason := each.changed())), None)

    def known(self, file: File, tensor: Tensor, name: str | None = None) -> Known:
        """The known weights of a tensor of a file.

        :param name: the tensor's name in the reference, if it has another name there
        :raises ValueError: if the reference has no weights for it; the text says why
        :raises FormatError: if the bytes cannot be read
        """
        known = self._of_file(tensor, name) if self.file is not None else self._of_checkpoint(file, tensor, name)
        if known.shape != tensor.shape:
            raise ValueError(f"it has the shape {list(known.shape)} in the reference, and {list(tensor.shape)} here")
        return known

    @property
    def expected(self) -> str:
        """The dialect that the linted file should have."""
        return str(parse(self.reference.expected))

    def twin(self, tensor: Tensor) -> Tensor | None:
        """The tensor of that name, if the reference is a GGUF file that has one."""
        return self.file.tensors.get(tensor.name) if self.file is not None else None

    def floats(self, file: File, tensor: Tensor) -> Rows:
        """The reference's floats for a tensor of a file, as rows.

        :raises ValueError: if the reference has none; the text says why
        :raises FormatError: if the bytes cannot be read
        """
        if self.file is not None:
            twin = self.file.tensors.get(tensor.name)
            if twin is None:
                raise ValueError(f"the reference has no tensor {quote(tensor.name)}")
            if twin.type is None or twin.type.name not in FLOAT_WORDS:
                raise ValueError("the reference does not hold it as floats")
            return rows_of(self.file, twin)
        assert self._checkpoint is not None
        name = self._stored_name(tensor.name)
        if name is None:
            raise ValueError(f"the reference has no tensor {quote(module_name(tensor.name) or tensor.name)}")
        if name != tensor.name and _heads(file, tensor.name) is not None:
            raise ValueError("its rows are in another order there")
        stored = self._checkpoint[name]
        if stored.dtype not in FLOAT_WORDS or not stored.shape or not min(stored.shape):
            raise ValueError(f"it is {quote(stored.dtype, bare=True)} there")
        return flat_rows(stored.shape, 1, _stored_floats(stored), ROUNDING[stored.dtype])

    def _of_file(self, tensor: Tensor, name: str | None) -> Known:
        assert self.file is not None
        twin = self.file.tensors.get(tensor.name if name is None else name)
        if twin is None:
            raise ValueError(f"the reference has no tensor {quote(tensor.name if name is None else name)}")
        return of_tensor(self.file, twin, self.reference.dialect)

    def _of_checkpoint(self, file: File, tensor: Tensor, name: str | None) -> Known:
        assert self._checkpoint is not None
        heads = None
        if name is None:
            found = self._stored_name(tensor.name)
            if found is None:
                module = module_name(tensor.name)
                shown = quote(tensor.name) if module is None else quote(f"{module}.weight")
                raise ValueError(f"the reference has no tensor {shown}")
            if found != tensor.name:
                heads = _heads(file, tensor.name)
            name = found
        if name not in self._checkpoint:
            raise ValueError(f"the reference has no tensor {quote(name)}")
        known = self._of_stored(self._checkpoint[name])
        if heads is None:
            return known
        moved = to_gguf_rows(known.whole(), heads).reshape(-1)
        return known._replace(unit=1, trits=lambda start, stop: moved[start:stop])

    def _stored_name(self, name: str) -> str | None:
        """The name of a tensor in a checkpoint: as in language models, or without the prefix `model.`."""
        assert self._checkpoint is not None
        module = module_name(name)
        names = [] if module is None else [f"{module}.weight", f"{module.removeprefix('model.')}.weight"]
        return next((each for each in [name, *names] if each in self._checkpoint), None)

    def _of_stored(self, stored: Stored) -> Known:
        if stored.dtype in FLOAT_WORDS and stored.shape and min(stored.shape):
            return of_floats(stored.shape, _stored_floats(stored))
        if stored.dtype == "U8" and len(stored.shape) == 2 and min(stored.shape):
            return _packed(stored, self._scale(stored))
        raise ValueError(f"it is {quote(stored.dtype, bare=True)} there; floats, or packed U8, can be compared")

    def _scale(self, stored: Stored) -> float | None:
        """The scale beside a packed matrix; None if nothing says whether it multiplies or divides."""
        assert self._checkpoint is not None
        beside = self._checkpoint.get(f"{stored.name}_scale")
        if beside is None or beside.dtype not in FLOAT_WORDS:
            return None
        mark = FLOAT_WORDS[beside.dtype]
        words = np.frombuffer(beside.read(), dtype="<" + mark).astype(mark, copy=False)
        if words.size != 1:
            return None
        try:
            return float(
                scale_of(np.float32(widened(words, beside.dtype)[0]), checked_convention(configured(self._path)))
            )
        except ValueError:
            return None

    @property
    def _path(self) -> Any:
        return self.reference.origin


def _stored_floats(stored: Stored) -> Callable[[int, int], NDArray[np.float32]]:
    """The floats of a range of a stored tensor."""
    mark = FLOAT_WORDS[stored.dtype]
    width = np.dtype(mark).itemsize

    def floats(start: int, stop: int) -> NDArray[np.float32]:
        words = np.frombuffer(stored.read(width * start, width * stop), dtype="<" + mark)
        return widened(words.astype(mark, copy=False), stored.dtype)

    return floats


def _is_checkpoint(path: Any) -> bool:
    """Whether a path is a folder, or a file without GGUF's magic whose name is one that checkpoints have.

    :raises ValueError: for a .npy file
    """
    if os.path.isdir(path):
        return True
    if os.path.isfile(path):
        source = PathSource(path)
        try:
            start = source.read(0, min(source.size, len(_NPY)))
        finally:
            source.close()
        if start == _NPY:
            raise ValueError(f"{quote(os.fsdecode(path), 4096)} is a single array without a tensor name")
        return not start.startswith(b"GGUF") and os.fsdecode(path).lower().endswith(".safetensors")
    return False


def _heads(file: File, name: str) -> int | None:
    """The number of heads that the rows of a tensor belong to, if their order differs from that of checkpoints."""
    declared = declared_architecture(file.metadata.get("general.architecture"), file.metadata, file.tensors)
    if declared is None or declared.rope != "norm":
        return None
    return heads_that_move(file, name)


def _packed(stored: Stored, scale: float | None) -> Known:
    """A matrix that transformers packed: row r is in byte row r % (rows/4), at bit 2 * (r // (rows/4)) (clause 5.5)."""
    rows, cols = _PACKED * stored.shape[0], stored.shape[1]
    part = stored.shape[0] * cols  # elements that share one shift

    def trits(start: int, stop: int) -> NDArray[np.int8]:
        found = np.empty(stop - start, dtype=np.int8)
        at = start
        while at < stop:
            number = at // part
            end = min(stop, (number + 1) * part)
            data = np.frombuffer(stored.read(at - number * part, end - number * part), dtype=np.uint8)
            codes = data >> np.uint8(2 * number) & np.uint8(3)
            found[at - start : end - start] = np.where(codes == 3, np.uint8(1), codes).view(np.int8) - np.int8(1)
            at = end
        return found

    return Known((rows, cols), 1, trits, scale)
