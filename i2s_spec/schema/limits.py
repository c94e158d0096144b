"""The bounds that keep time and memory proportional to the file.

Every count in a file is first compared with the remaining bytes divided by the size of the smallest record; these
limits are additional. Those in `NAMED` can be set by name while a file is checked:

    with limits.using({"tensors": 1000}):
        ...  # a file of 1,001 tensors is refused
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextvars import ContextVar, Token
from typing import TYPE_CHECKING, Final, NamedTuple

#: Smallest key-value record: empty key (8 bytes of length), value type (4), one byte of value.
SMALLEST_KEY_VALUE: Final = 13
#: Smallest tensor info: empty name (8), n_dims = 0 (4), type (4), offset (8).
SMALLEST_TENSOR_INFO: Final = 24

#: Hard limits: beyond them a reader stops.
MAX_KEY_LENGTH: Final = 65_535
MAX_NAME_LENGTH: Final = 65_535
#: Bytes of all keys above `MAX_KEY_LENGTH`: a reader reports each and goes on, since loaders read them; beyond, it stops.
MAX_LONG_KEYS: Final = 1 << 20
MAX_DIMENSIONS: Final = 4
MAX_ARRAY_DEPTH: Final = 4

#: ggml stores a tensor name in 64 bytes including its NUL (GGML_MAX_NAME), so 63 are left.
TENSOR_NAME_BYTES: Final = 63

#: Elements of a tensor, and bytes of a file, must be fewer: runtimes count them in signed 64-bit integers.
INT64_END: Final = 1 << 63

DEFAULT_ALIGNMENT: Final = 32
#: Alignments that writers use, the likeliest first.
ALIGNMENTS: Final = (32, 64, 16, 8, 128, 256, 512, 1024, 2048, 4096)

#: GGUF versions that are read; version 1 had 32-bit counts; no loader of I2_S reads it.
VERSIONS: Final = (2, 3)


class NamedLimit(NamedTuple):
    """A bound that can be set: the attribute of this module that holds it, its default, and the effect of exceeding it."""

    attribute: str
    default: int
    beyond: str


#: Every bound that can be set, by its name.
NAMED: Final = {
    "keys": NamedLimit("MAX_KEYS", 1_048_576, "key-values in a file: a reader stops"),
    "tensors": NamedLimit("MAX_TENSORS", 1_048_576, "tensors in a file: a reader stops"),
    "alignment": NamedLimit("MAX_ALIGNMENT", 1_048_576, "bytes of alignment: a reader stops"),
    "usual-keys": NamedLimit("MANY_KEYS", 65_536, "key-values: legal, and worth a finding"),
    "usual-tensors": NamedLimit("MANY_TENSORS", 65_536, "tensors: legal, and worth a finding"),
    "usual-alignment": NamedLimit("USUAL_ALIGNMENT", 65_536, "bytes of alignment: legal, and worth a finding"),
    "findings": NamedLimit("FINDINGS_PER_RULE", 100, "findings of one rule in a report: counted, not listed"),
}

if TYPE_CHECKING:
    MAX_KEYS: int
    MAX_TENSORS: int
    MAX_ALIGNMENT: int
    MANY_KEYS: int
    MANY_TENSORS: int
    USUAL_ALIGNMENT: int
    FINDINGS_PER_RULE: int

_DEFAULTS: Final = {limit.attribute: limit.default for limit in NAMED.values()}
_IN_FORCE: Final[ContextVar[Mapping[str, int]]] = ContextVar("limits", default=_DEFAULTS)


def __getattr__(attribute: str) -> int:
    """Return the current bound, for the names in `NAMED`."""
    try:
        return _IN_FORCE.get()[attribute]
    except KeyError:
        raise AttributeError(f"module {__name__!r} has no attribute {attribute!r}") from None


class using:  # noqa: N801 - a `with` statement reads it as words
    """Set bounds by name for the code in the block, in this thread.

    :raises ValueError: for an unknown name, or a value that is not a positive number
    """

    def __init__(self, values: Mapping[str, int]) -> None:
        self._values = {NAMED[name].attribute: value for name, value in checked(values)}
        self._token: Token[Mapping[str, int]] | None = None

    def __enter__(self) -> None:
        if self._values:
            self._token = _IN_FORCE.set({**_IN_FORCE.get(), **self._values})

    def __exit__(self, *raised: object) -> None:
        if self._token is not None:
            _IN_FORCE.reset(self._token)


def checked(values: Mapping[str, int]) -> Iterator[tuple[str, int]]:
    """Names and values of bounds that can be set.

    :raises ValueError: for an unknown name, or a value that is not a positive number
    """
    for name, value in values.items():
        if name not in NAMED:
            raise ValueError(f"unknown limit {name!r}; there are: {', '.join(NAMED)}")
        if isinstance(value, bool) or not isinstance(value, int) or not 1 <= value < 1 << 63:
            raise ValueError(f"the limit {name!r} must be a number of at least 1, not {value!r}")
        yield name, value
