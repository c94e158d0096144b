"""The manifest of a run: the address, the identity (etag) and the size of every file; and what a census counts by.

A line of a manifest is a JSON object, so the listing of a hub or a bucket is converted with a line of any language:

    {"url": "/models/a.gguf", "etag": "18c9f3a-18c9f3a", "size": 189376}

A folder of safetensors can be an entry, too; for one on a hub, the line has `"checkpoint": true`.

Only `url` is required. `etag` is any text that changes with the content, `sha256` the digest of the content if it is
known. An address with `://` is used unchanged, and its record gets the etag and the size that the server gave; a path
of this machine gets its etag and its size from the file's state.

`origin_facts` gathers facts about the origin of a file while it is checked: architecture, the program that wrote the
file, its layout.
"""

from __future__ import annotations

import hashlib
import json
import os
import stat
from collections.abc import Callable, Iterable, Iterator, Mapping
from typing import TYPE_CHECKING, Any, BinaryIO, Final, NamedTuple
from urllib.parse import urlsplit

from i2s_spec.errors import SettingError, quote
from i2s_spec.gguf.source import open_regular
from i2s_spec.linter.paths import Input, inputs, is_checkpoint

if TYPE_CHECKING:
    from i2s_spec.inspect.questions import Observed
    from i2s_spec.linter.analysis.context import LintContext

#: Endings of lists: manifests, and lists with one name a line.
MANIFEST_SUFFIX: Final = ".jsonl"
LIST_SUFFIX: Final = ".txt"

#: The longest line of a manifest, in bytes.
LONGEST_LINE: Final = 1 << 16


class Entry(NamedTuple):
    """A file to check: its address, its identity, its size and digest if they are known; or why it cannot be read.

    `requests` is the number of requests that one check makes to the host, for the limit of that host; `checkpoint` says
    whether it is a folder of safetensors, here or on a hub.
    """

    url: str
    etag: str | None = None
    size: int | None = None
    sha256: str | None = None
    requests: float = 1
    problem: str = ""
    checkpoint: bool = False

    @property
    def is_local(self) -> bool:
        """Whether the address is a path of this machine."""
        return "://" not in self.url

    @property
    def has_no_identity(self) -> bool:
        """Whether it is an address for which the manifest gives no identity of the content."""
        return not self.is_local and not self.problem and self.etag is None and self.sha256 is None

    @property
    def host(self) -> str:
        """The host that requests go to; empty for a path."""
        return host_of(self.url)

    def as_dict(self) -> dict[str, Any]:
        """Return the entry as a line of a manifest; unknown values are left out."""
        plain = {"url": self.url, "etag": self.etag, "size": self.size, "sha256": self.sha256}
        return {name: value for name, value in plain.items() if value is not None} | (
            {"checkpoint": True} if self.checkpoint else {}
        )


def host_of(url: str) -> str:
    """Return the host of an address: that of a web address, the Hub's for `hf://`, the scheme for buckets; empty for
    a path.

    >>> host_of("https://Example.org:8080/m.gguf"), host_of("s3://bucket/m.gguf"), host_of("/models/m.gguf")
    ('example.org', 's3', '')
    """
    scheme, sign, _ = url.partition("://")
    if not sign:
        return ""
    if scheme == "hf":
        url = os.environ.get("HF_ENDPOINT") or "https://huggingface.co"
    elif scheme not in ("http", "https"):
        return scheme
    try:
        return urlsplit(url).hostname or ""
    except ValueError:
        return ""


def manifest(names: Iterable[str]) -> Iterator[Entry]:
    """Yield the entries that the names denote, in order, each address once.

    :param names: files, folders and globs as for `lint`, `@LIST` and names that end in `.txt` for lists of these, names
        that end in `.jsonl` for manifests, and addresses with `://`
    :raises SettingError: for an invalid line of a manifest
    """
    seen: set[str] = set()
    for entry in _entries(names):
        if entry.url not in seen:
            seen.add(entry.url)
            yield entry


def _entries(names: Iterable[str]) -> Iterator[Entry]:
    plain: list[str] = []
    for name in names:
        if name.endswith(MANIFEST_SUFFIX):
            yield from _local(inputs(plain))
            plain = []
            yield from _read(name.removeprefix("@"))
        elif name.endswith(LIST_SUFFIX) and not name.startswith("@"):
            plain.append(f"@{name}")
        else:
            plain.append(name)
    yield from _local(inputs(plain))


def _local(found: Iterable[Input]) -> Iterator[Entry]:
    for file in found:
        if "://" in file.path:
            yield Entry(file.path, checkpoint=file.checkpoint)
        elif file.problem:
            yield Entry(file.path, problem=str(file.problem))
        else:
            yield entry_of_path(file.path)


def entry_of_path(path: str) -> Entry:
    """Return the entry of a file of this machine; a file that cannot be read has neither etag nor size.

    The etag consists of the times of the last write (mtime) and of the last change of state (ctime): it changes with
    every write, even if the mtime was set back. The etag of a folder of safetensors is made from those of the files of
    the checkpoint, and its size is the sum of their sizes.
    """
    url = os.path.join(os.getcwd(), path.removeprefix("./"))
    if "\0" in path:
        return Entry(url)
    try:
        status = os.stat(path)
    except OSError:
        return Entry(url)  # `lint_path` will report the reason
    if stat.S_ISDIR(status.st_mode):
        return _entry_of_folder(url)
    if not stat.S_ISREG(status.st_mode):
        return Entry(url)
    return Entry(url, f"{status.st_mtime_ns:x}-{status.st_ctime_ns:x}", status.st_size)


def _entry_of_folder(url: str) -> Entry:
    digest, size = hashlib.blake2b(digest_size=16), 0
    try:
        names = sorted(os.listdir(url))
        if not is_checkpoint(names):
            return Entry(url)
        for name in names:
            if name.endswith((".json", ".safetensors")):
                status = os.stat(os.path.join(url, name))
                state = name, status.st_size, status.st_mtime_ns, status.st_ctime_ns
                digest.update(f"{state!r}\n".encode("utf-8", "surrogatepass"))
                size += status.st_size
    except OSError:
        return Entry(url, checkpoint=True)
    return Entry(url, digest.hexdigest(), size, checkpoint=True)


def _read(name: str) -> Iterator[Entry]:
    """Yield the entries of a manifest."""
    try:
        with open_regular(name) as stream:
            for number, line in enumerate(_lines(stream), 1):
                if line.strip():
                    yield _entry_of_line(line, f"{quote(name, 4096, bare=True)}:{number}")
    except OSError as error:
        raise SettingError(f"{quote(name, 4096, bare=True)}: {error.strerror or type(error).__name__}") from None


def _lines(stream: BinaryIO) -> Iterator[bytes]:
    while line := stream.readline(LONGEST_LINE + 1):
        yield line


def _entry_of_line(line: bytes, place: str) -> Entry:
    if len(line) > LONGEST_LINE:
        raise SettingError(f"{place}: the line is longer than {LONGEST_LINE:,} bytes")
    try:
        fields = json.loads(line)
    except (ValueError, RecursionError):
        raise SettingError(f"{place}: the line is not a JSON object") from None
    try:
        return entry_of(fields)
    except ValueError as error:
        raise SettingError(f"{place}: {error}") from None


def entry_of(fields: str | Mapping[str, Any]) -> Entry:
    """Return an entry from an address, or from the fields of a line of a manifest.

    A path without an etag gets that of the file.

    :raises ValueError: for an invalid entry
    """
    if isinstance(fields, str):
        fields = {"url": fields}
    if not isinstance(fields, Mapping):
        raise ValueError("an entry is a JSON object with a url")
    url, etag, size, sha256 = (_value(fields, name) for name in ("url", "etag", "size", "sha256"))
    requests, checkpoint = _value(fields, "requests"), _value(fields, "checkpoint")
    if not isinstance(url, str) or not url:
        raise ValueError("an entry needs a url that is a string")
    if not isinstance(etag, str | None) or not isinstance(sha256, str | None):
        raise ValueError("etag and sha256 of an entry must be strings")
    if size is not None and (not isinstance(size, int) or isinstance(size, bool) or size < 0):
        raise ValueError("the size of an entry must be a number of bytes")
    if requests is not None and not (isinstance(requests, int | float) and 0 < requests < 1e9):
        raise ValueError("the requests of an entry must be a number above 0")
    if not isinstance(checkpoint, bool | None):
        raise ValueError("checkpoint of an entry must be true or false")
    if sha256 is not None and (len(sha256) != 64 or set(sha256) - set("0123456789abcdef")):
        raise ValueError("the sha256 of an entry must have 64 hexadecimal digits")
    if "://" not in url and (etag is None or size is None):
        found = entry_of_path(url)
        return found._replace(sha256=sha256) if etag is None else found._replace(etag=etag, sha256=sha256)
    if "://" not in url and checkpoint is None:
        checkpoint = os.path.isdir(url)
    return Entry(url, etag, size, sha256, 1 if requests is None else requests, checkpoint=bool(checkpoint))


def _value(fields: Mapping[str, Any], name: str) -> Any:
    """Return a field; table libraries give NaN for a missing value, and their own types for numbers."""
    value = fields.get(name)
    if value is None or value != value:  # noqa: PLR0124  # NaN
        return None
    item = getattr(value, "item", None)
    if item is not None:
        value = item()
    if isinstance(value, float) and name == "size" and value.is_integer():
        return int(value)
    return value


def as_lines(entries: Iterable[Entry]) -> Iterator[str]:
    """Yield entries as the lines of a manifest."""
    for entry in entries:
        yield json.dumps(entry.as_dict()) + "\n"


# --- facts about the origin of a file --------------------------------------------------------------------------------
# A census counts by them. They use only what the linter has read anyway. A fact that the file does not show is `cannot
# tell`; a fact that does not apply (a layout without I2_S tensors) is None.

CANNOT_TELL: Final = "cannot tell"

#: Most answers that are cached, and most keys of a file whose answer is cached.
MOST_PRODUCERS: Final = 256
MOST_KEYS: Final = 256

#: Answers of `converter`, by everything that it examines.
_PRODUCERS: Final[dict[tuple[tuple[bytes, ...], str, bool, str], str]] = {}


class WithFacts:
    """A `details` function that gives the facts, and the details that the options ask for."""

    def __init__(self, details: Callable[[Any], Any] | None) -> None:
        self._details = details

    def __call__(self, subject: LintContext) -> dict[str, Any]:
        found: dict[str, Any] = {"facts": origin_facts(subject)}
        if self._details is not None:
            found["details"] = self._details(subject)
        return found


def origin_facts(subject: LintContext) -> dict[str, Any]:
    """Return facts about one file as plain data; text of the file is escaped.

    :returns: `architecture`, `version`, `tensors`, `producer` (the program that wrote the metadata), and `layout`: the
    layout that the weights of I2_S tensors show, None if there are none or they were not read
    """
    from i2s_spec.inspect.questions import Observed

    file = subject.file
    if file.version is None:
        return {"architecture": "", "version": None, "tensors": 0, "producer": None, "layout": None}
    seen = Observed(file, None)
    return {
        "architecture": quote(seen.architecture, bare=True),
        "version": file.version,
        "tensors": file.index.tensors,
        "producer": _producer(seen),
        "layout": _layout(subject),
    }


def _producer(seen: Observed) -> str:
    """Return the program that wrote the metadata. Files of one program have the same keys, so the answer is computed
    once.
    """
    from i2s_spec.inspect.origin import converter

    name, index = seen.value("general.name"), seen.file.index
    synthetic = isinstance(name, str) and name.startswith("synthetic-")
    short = index.keys <= MOST_KEYS
    keys = tuple([index.key(i).name for i in range(index.keys)]) if short else ()
    asked = keys, seen.architecture, synthetic, seen.layer_order
    found = _PRODUCERS.get(asked) if short else None
    if found is None:
        answer = converter(seen).answer
        found = CANNOT_TELL if answer is None else answer.name
        if short:
            if len(_PRODUCERS) >= MOST_PRODUCERS:
                _PRODUCERS.clear()
            _PRODUCERS[asked] = found
    return found


def _layout(subject: LintContext) -> str | None:
    """Return the layout that the weights show; the linter has computed it already."""
    from i2s_spec.linter.analysis.layout import weight_layout

    if subject.file.fault is not None or not subject.has_i2s or subject.reading.mode == "none":
        return None
    found = weight_layout(subject)
    if found is None or found.mixed:
        return CANNOT_TELL if found is None else "mixed"
    return CANNOT_TELL if found.decided is None else found.decided.name
