"""This module defines the bounds that keep time and memory proportional to the file.

Every count in a file is first compared with the bytes that remain, divided by the smallest record that could fill them;
these ceilings come on top. Each is named, so that a message, the documentation and an option can say which one it was.
"""

from __future__ import annotations

from typing import Final

#: Smallest key-value record: empty key (8 bytes of length), value type (4), one byte of value.
SMALLEST_KEY_VALUE: Final = 13
#: Smallest tensor info: empty name (8), n_dims = 0 (4), type (4), offset (8).
SMALLEST_TENSOR_INFO: Final = 24

#: Hard ceilings: beyond them a reader stops.
MAX_KEYS: Final = 1_048_576
MAX_TENSORS: Final = 1_048_576
MAX_KEY_LENGTH: Final = 65_535
MAX_NAME_LENGTH: Final = 65_535
MAX_DIMENSIONS: Final = 4
MAX_ARRAY_DEPTH: Final = 4
MAX_ALIGNMENT: Final = 1_048_576

#: Beyond these a file is unusual: legal, and worth a warning.
MANY_KEYS: Final = 65_536
MANY_TENSORS: Final = 65_536
USUAL_ALIGNMENT: Final = 65_536

#: ggml keeps a tensor name in 64 bytes with its NUL (GGML_MAX_NAME), so 63 are left.
TENSOR_NAME_BYTES: Final = 63

DEFAULT_ALIGNMENT: Final = 32

#: GGUF versions that are read; version 1 had 32-bit counts and is refused by every loader.
VERSIONS: Final = (2, 3)
