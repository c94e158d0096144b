"""This module reads and writes `.npy` files: one array each, written a part at a time, complete or not at all."""

from __future__ import annotations

import io
import os
from collections.abc import Callable, Iterable
from math import prod
from typing import TYPE_CHECKING, Any

from i2s_spec.codec.shape import is_shape
from i2s_spec.errors import FormatError, Span, TrustedText, counted
from i2s_spec.gguf.atomic_file import OutputFile, refuse_taken
from i2s_spec.gguf.source import require_unchanged, source_of
from i2s_spec.schema import faults

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

#: Longest header of an array without fields.
_MOST_HEADER = 1 << 14


def write_npy(
    path: str | os.PathLike[str],
    dtype: np.dtype[Any],
    shape: tuple[int, ...],
    parts: Iterable[NDArray[Any]],
    *,
    force: bool = False,
    progress: Callable[[int, int], object] | None = None,
    before_end: Callable[[], object] = lambda: None,
) -> int:
    """Write an array whose elements come in parts, in their order.

    :param parts: arrays of the dtype, of any shapes; together they have all elements
    :param force: replace an existing file
    :param before_end: called when all is written, before the file gets its name; if it raises, no file is left
    :returns: bytes of the file
    :raises ValueError: if the parts have more or fewer elements than the shape
    :raises OSError: as `OutputFile` does
    """
    import numpy as np

    refuse_taken(path, force)
    head = io.BytesIO()
    header = {"descr": np.lib.format.dtype_to_descr(dtype), "fortran_order": False, "shape": shape}
    np.lib.format.write_array_header_1_0(head, header)
    size = len(head.getvalue()) + prod(shape) * dtype.itemsize
    with OutputFile(path, force=force, size=size) as output:
        output.write(head.getvalue())
        start = done = len(head.getvalue())
        for part in parts:
            data = np.ascontiguousarray(part, dtype=dtype).reshape(-1).view(np.uint8).data
            output.write(data)
            done += data.nbytes
            if progress is not None:
                progress(done, size)
        if done != size:
            raise ValueError(
                f"the parts have {counted(done - start, 'byte')}; an array of shape {list(shape)} has {size - start:,}"
            )
        before_end()
    return size


def read_npy(path: str | os.PathLike[str]) -> NDArray[Any]:
    """The array of a `.npy` file, if it is complete and holds numbers.

    :raises FormatError: H103 for another file, arrays of objects, and files that end early; S901, S902 as `open` does;
    S903 if it changes meanwhile
    """
    import numpy as np

    source = source_of(path)
    try:
        head = io.BytesIO(source.read(0, min(source.size, _MOST_HEADER)))
        try:
            version = np.lib.format.read_magic(head)
            if version == (1, 0):
                shape, by_columns, dtype = np.lib.format.read_array_header_1_0(head)
            else:
                shape, by_columns, dtype = np.lib.format.read_array_header_2_0(head)
        except Exception as error:  # NumPy's parser of headers raises a dozen kinds of exceptions
            raise _malformed(f"its header is wrong ({type(error).__name__})") from None
        if dtype.hasobject or dtype.fields or dtype.subdtype or not dtype.itemsize:
            raise _malformed("its elements are not numbers")
        if not is_shape(shape):
            raise _malformed("its shape is invalid")
        nbytes, start = prod(shape) * dtype.itemsize, head.tell()
        if source.size - start < nbytes:
            raise _malformed(f"it needs {counted(nbytes, 'byte')}, but the file has {source.size - start:,}")
        array: NDArray[Any] = np.frombuffer(source.read(start, nbytes), dtype=dtype)
        require_unchanged(source)
        return array.reshape(shape, order="F" if by_columns else "C")
    except FormatError as error:
        error.of_file(path)
        raise
    finally:
        source.close()


def _malformed(reason: str) -> FormatError:
    return FormatError(faults.NPY_MALFORMED, Span(0, 0), reason=TrustedText(reason))
