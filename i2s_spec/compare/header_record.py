"""The header of a file as a record, with which later copies are compared: keys, the chat template among them, and tensors.

`i2s show --format record` prints a record, and `i2s lint --expect` compares files with it (rule S905). What is pinned are
version and byte order, the type and value of each key, and type, shape and offset of each tensor; their order is not, nor
are the weights, which `i2s hash` identifies.

    {"schema_version": 1, "header": {"version": 3, "byte_order": "little"},
     "keys": [{"key": "llama.block_count", "type": "u32", "sha256": "...", "value": 16}, ...],
     "tensors": [{"name": "output_norm.weight", "type": "F32", "ne": [512], "offset": 0}, ...]}

`sha256` is of the type and the value in a little-endian file (`hash.canonical_value`); `value` is there for numbers and
short texts, and only for messages.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterator, Mapping
from typing import TYPE_CHECKING, Any, Final, NamedTuple

from i2s_spec.draw.text import json_string
from i2s_spec.errors import SettingError, Span, counted, quote
from i2s_spec.gguf.source import read_regular
from i2s_spec.inspect.show import type_name
from i2s_spec.schema.faults import KEY_COUNT_SPAN, TENSOR_COUNT_SPAN, VERSION_SPAN

if TYPE_CHECKING:
    from i2s_spec.gguf.reader import File, KeyValue, Tensor

SCHEMA_VERSION: Final = 1

#: No record that is read has more bytes.
LARGEST: Final = 64 << 20

#: Longest text whose value a record gives.
_SHORT: Final = 200

MISSING: Final = "missing"


class HeaderDrift(NamedTuple):
    """A difference between a file and a record: what differs, where, and what each of the two has, in words."""

    what: str
    span: Span
    got: str
    want: str


def header_record(file: File) -> dict[str, Any]:
    """Return the record of a file whose header can be read, as plain data.

    :raises FormatError: for a file with a fault
    """
    if file.fault is not None:
        raise file.fault
    return {
        "schema_version": SCHEMA_VERSION,
        "header": _header(file),
        "keys": [_key(file, file.index.key(i)) for i in range(file.index.keys)],
        "tensors": [_tensor(tensor) for tensor in file.tensors.rows],
    }


def _header(file: File) -> dict[str, Any]:
    return {"version": file.version, "byte_order": file.byte_order}


def _key(file: File, entry: KeyValue) -> dict[str, Any]:
    from i2s_spec.compare.hash import canonical_value

    digest = hashlib.sha256()
    for part in canonical_value(file, entry):
        digest.update(part)
    row = {"key": json_string(entry.name), "type": entry.label, "sha256": digest.hexdigest()}
    if not entry.label.startswith("arr") and entry.count <= _SHORT:
        value = file.metadata.decode(entry)
        row["value"] = json_string(value) if isinstance(value, str) else value
    return row


def _tensor(tensor: Tensor) -> dict[str, Any]:
    kind = type_name(tensor) or f"type {tensor.number}"
    return {"name": json_string(tensor.raw_name), "type": kind, "ne": list(tensor.ne), "offset": tensor.offset}


class HeaderRecord:
    """A record that was read.

    :raises SettingError: for a file that cannot be read or is no record; it names the file
    """

    def __init__(self, path: str) -> None:
        try:
            data = read_regular(path, LARGEST)
            document = json.loads(data)
        except OSError as error:
            raise SettingError(f"{_shown(path)}: {error.strerror or type(error).__name__}") from None
        except (ValueError, RecursionError):
            raise _no_record(path, "it is not JSON") from None
        self.path = path
        #: The SHA-256 of the file, which stands for the record where options are compared.
        self.digest = hashlib.sha256(data).hexdigest()
        if not isinstance(document, dict) or document.get("schema_version") != SCHEMA_VERSION:
            raise _no_record(path, f"it has no schema_version {SCHEMA_VERSION}")
        header = document.get("header")
        if not isinstance(header, dict) or not all(isinstance(value, int | str) for value in header.values()):
            raise _no_record(path, "header is no object of numbers and texts")
        self._header: Mapping[str, Any] = header
        self._keys = _rows(path, document, "keys", "key", {"type": str, "sha256": str})
        self._tensors = _rows(path, document, "tensors", "name", {"type": str, "ne": list, "offset": int})

    def drift(self, file: File) -> Iterator[HeaderDrift]:
        """Yield the differences of a file whose header could be read: the header, keys and tensors in the order of the file,
        then what is missing. Where something moved tensors, those behind it are left out that only lie elsewhere."""
        for name, value in _header(file).items():
            if name in self._header and self._header[name] != value:
                yield HeaderDrift(name.replace("_", " "), VERSION_SPAN, str(value), _words(self._header[name]))
        left = dict(self._keys)
        for i in range(file.index.keys):
            entry = file.index.key(i)
            got, want = _key(file, entry), left.pop(entry.name, None)
            if want is None or (got["type"], got["sha256"]) != (want["type"], want["sha256"]):
                span = entry.value_span if want is not None else entry.key_span
                yield HeaderDrift(_named("key", entry.name), span, _key_words(got), _key_words(want))
        for raw, want in left.items():
            yield HeaderDrift(_named("key", raw), KEY_COUNT_SPAN, MISSING, _key_words(want))
        left, moves = dict(self._tensors), False
        for i, tensor in enumerate(file.tensors.rows):
            info = file.index.tensor(i)
            got, want = _tensor(tensor), left.pop(tensor.raw_name, None)
            what = _named("tensor", tensor.raw_name)
            if want is None:
                yield HeaderDrift(what, info.name_span, _tensor_words(got), MISSING)
                moves = True
                continue
            spans = {"type": info.type_span, "ne": info.ne_span, "offset": info.offset_span}
            differing = next((field for field in spans if got[field] != want[field]), None)
            if differing is not None and not (moves and differing == "offset"):
                moves = True
                yield HeaderDrift(what, spans[differing], _tensor_words(got), _tensor_words(want))
        for raw, want in left.items():
            yield HeaderDrift(_named("tensor", raw), TENSOR_COUNT_SPAN, MISSING, _tensor_words(want))

    def __repr__(self) -> str:
        return f"<HeaderRecord {self.digest}>"


def _no_record(path: str, why: str) -> SettingError:
    return SettingError(f"{_shown(path)}: this is no record that 'i2s show --format record' wrote: {why}")


def _rows(
    path: str, document: Mapping[str, Any], table: str, name: str, kinds: Mapping[str, type]
) -> dict[bytes, dict[str, Any]]:
    """Return the rows of a table of a record, by name; of two of one name the first.

    :raises SettingError: for what is no such table
    """
    from i2s_spec.compare.hash import name_bytes

    rows = document.get(table)
    if not isinstance(rows, list):
        raise _no_record(path, f"it has no list of {table}")
    found: dict[bytes, dict[str, Any]] = {}
    for i, row in enumerate(rows):
        raw = name_bytes(row.get(name)) if isinstance(row, dict) else None
        if raw is None or not all(isinstance(row.get(each), kind) for each, kind in kinds.items()):
            raise _no_record(path, f"{table}[{i}] lacks one of {name}, {', '.join(kinds)}")
        found.setdefault(raw, row)
    return found


def _named(what: str, name: bytes) -> str:
    return f"{what} {quote(name, 128)}"


def _words(value: Any) -> str:
    return quote(value, 64) if isinstance(value, str) else quote(str(value), 64, bare=True)


def _key_words(row: Mapping[str, Any] | None) -> str:
    if row is None:
        return MISSING
    kind = quote(row["type"], 64, bare=True)
    value = row.get("value")
    if isinstance(value, str | int | float):
        return f"{kind} {_words(str(value).lower() if isinstance(value, bool) else value)}"
    return f"{kind} with SHA-256 {quote(row['sha256'], 12, bare=True)}"


def _tensor_words(row: Mapping[str, Any]) -> str:
    ne = " x ".join(map(str, row["ne"][:8])) or "scalar"
    return f"{quote(row['type'], 64, bare=True)}, {quote(ne, 100, bare=True)}, at {counted(row['offset'], 'byte')}"


def _shown(path: str) -> str:
    return quote(path, limit=4096, bare=True)
