"""Access to the hub: addresses of files, contents of repositories, and the cache of the hub's client.

HF_ENDPOINT, HF_TOKEN, HF_HUB_OFFLINE, HF_HUB_CACHE (or HF_HOME), HF_HUB_ETAG_TIMEOUT and HF_HUB_DOWNLOAD_TIMEOUT have
the same meaning as for the hub's own client. The token is sent only to the endpoint. A cached file is used if its
commit is the one that the hub names; if the address names a commit, or the mode is offline, it is used without a
request.

This is not left to that client (huggingface_hub 2.4.0): its one HTTP session serves all of a process, and networks can
be refused there, but not time limits kept: each byte of a slow header starts its timeout again. Importing it takes twice
the time of this module, and 11 MB more memory.
"""

from __future__ import annotations

import json
import os
import re
from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path
from typing import NamedTuple
from urllib.parse import quote as percent

from i2s_spec.errors import FormatError, Span, TrustedText, quote
from i2s_spec.remote.addresses import HubAddress, endpoint
from i2s_spec.remote.http_source import HttpSource
from i2s_spec.remote.policy import Policy, current
from i2s_spec.remote.transport import Transport, Usage, misbehaves
from i2s_spec.schema import faults

_COMMIT = re.compile(r"[0-9a-f]{40}")

#: Variables of the hub's client: timeouts in seconds for a file's metadata, and for its bytes.
ETAG_TIMEOUT = "HF_HUB_ETAG_TIMEOUT"
DOWNLOAD_TIMEOUT = "HF_HUB_DOWNLOAD_TIMEOUT"

#: Most bytes of a repository's description, and most files that it may list.
MOST_DESCRIPTION = 1 << 26
MOST_FILES = 100_000


class CachedError(Exception):
    """The file is in the cache: `path` is where."""

    def __init__(self, path: str) -> None:
        super().__init__(path)
        self.path = path


def is_offline() -> bool:
    """Whether HF_HUB_OFFLINE forbids requests."""
    return os.environ.get("HF_HUB_OFFLINE", "").strip().upper() in ("1", "ON", "YES", "TRUE")


def transport(timeout: str) -> Transport:
    """Return requests to the hub, with the token of the environment.

    :param timeout: the variable with the seconds without a byte after which the hub counts as unreachable, unless the
    current policy differs from the default
    :raises FormatError: S911 if HF_TOKEN cannot be a token
    """
    policy = current()
    stated = os.environ.get(timeout, "").strip()
    if stated.isascii() and stated.isdigit() and int(stated[:9]) > 0 and policy.timeout == Policy().timeout:
        policy = policy._replace(timeout=int(stated[:9]))
    token = (os.environ.get("HF_TOKEN") or "").strip() or None
    if token is not None and not (token.isascii() and token.isprintable() and " " not in token):
        # Checked before it is sent: an error about an invalid header would contain it.
        raise FormatError(faults.REMOTE_DENIED, Span(0, 0), reason=TrustedText("HF_TOKEN is not the text of a token"))
    return Transport(policy, token, endpoint())


def cached(address: HubAddress, commit: str | None = None) -> str | None:
    """Return the path of a file in the cache of the hub's client, or None.

    Names in it come from an address whose parts were checked; a link must stay below the folder of the repository.

    :param commit: the wanted version; without it, the commit of the revision at the last download
    """
    root, commit = _folder(address), commit or _cached_commit(address)
    if commit is None:
        return None
    try:
        path = root / "snapshots" / commit / address.path
        if path.resolve(strict=True).is_relative_to(root.resolve(strict=True)) and path.is_file():
            return str(path)
    except (OSError, ValueError):
        pass
    return None


def open_file(name: str, address: HubAddress) -> HttpSource:
    """Return a file of a repository.

    :raises CachedError: if it is in the cache
    :raises FormatError: S911 to S918
    """
    if is_offline() or _COMMIT.fullmatch(address.revision) is not None:
        path = cached(address)
        if path is not None:
            raise CachedError(path)
    if is_offline():
        raise _offline()

    url = url_of(address)

    def pin(headers: Mapping[str, str]) -> tuple[str, str | None]:
        commit = headers.get("X-Repo-Commit", "")
        if _COMMIT.fullmatch(commit) is None:
            return url, headers.get("X-Linked-Etag") or None
        if commit != address.revision and _COMMIT.fullmatch(address.revision) is not None:
            raise misbehaves(url, f"gives a file of commit {commit} instead of {address.revision}")
        path = cached(address, commit)
        if path is not None:
            raise CachedError(path)
        pinned.append(commit)
        return _url(address, commit), commit

    pinned: list[str] = []
    requests = transport(DOWNLOAD_TIMEOUT)
    folder = address.path.rpartition("/")[0]

    def path_of(name: str) -> str:
        return f"{folder}/{name}" if folder else name

    def missing(names: Iterable[str]) -> int | None:
        held = set(list_files(address).names)
        requests.charge(listing_cost(address))
        return sum(path_of(each) not in held for each in names)

    def beside(name: str) -> str:
        """Return a file of the same commit."""
        revision = pinned[-1] if pinned else address.revision
        return address._replace(revision=revision).file(path_of(name))

    requests.charge(listing_cost(address))
    source = HttpSource(name, url, requests, pin, missing, beside)
    source.address = address.file(address.path)
    return source


class Listing(NamedTuple):
    """The files of a repository, and their commit, if the hub names it."""

    commit: str | None
    names: list[str]


def list_files(address: HubAddress) -> Listing:
    """Return the names of all files of a repository at a revision; in offline mode, those in the cache.

    :raises FormatError: S911 to S918
    """
    if is_offline():
        commit = _cached_commit(address)
        found = [] if commit is None else sorted(_cached_files(address, commit))
        if not found:
            raise _offline()
        return Listing(commit, found)
    kind = address.kind or "models"
    url = f"{endpoint()}/api/{kind}/{address.repository}/revision/{percent(address.revision, safe='')}"
    requests = transport(ETAG_TIMEOUT)
    try:
        with requests.get(url, {"Accept": "application/json"}, ()) as answer:
            data = bytearray(1 << 16)
            length = 0
            while True:
                part = requests.read(answer.body, memoryview(data)[length:])
                length += part
                if length < len(data):
                    break
                if length >= MOST_DESCRIPTION:
                    raise misbehaves(url, f"describes the repository in more than {MOST_DESCRIPTION:,} bytes")
                data += bytes(len(data))
        return _listing(url, bytes(data[:length]))
    finally:
        before = _COSTS.get(address[:2], Usage(0, 0))
        _COSTS[address[:2]] = Usage(before.requests + requests.requests, before.bytes + requests.bytes)
        requests.close()


#: What lists of a repository's files have cost that no file or folder of it was charged with yet.
_COSTS: dict[tuple[str, ...], Usage] = {}


def listing_cost(address: HubAddress) -> Usage:
    """Return what the lists of a repository have cost since the last call; the caller counts it as its own cost."""
    return _COSTS.pop(address[:2], Usage(0, 0))


def _listing(url: str, text: bytes) -> Listing:
    """Return the files that a description of a repository lists, without names that no address can contain."""
    try:
        description = json.loads(text)
        names = [each["rfilename"] for each in description["siblings"][: MOST_FILES + 1]]
        commit = description.get("sha")
    except (ValueError, TypeError, KeyError, RecursionError):
        raise misbehaves(url, "does not describe the repository as JSON with the names of its files") from None
    if len(names) > MOST_FILES:
        raise misbehaves(url, f"lists more than {MOST_FILES:,} files")
    is_commit = isinstance(commit, str) and _COMMIT.fullmatch(commit) is not None
    return Listing(commit if is_commit else None, sorted({each for each in names if _is_plain(each)}))


def _is_plain(name: object) -> bool:
    """Whether an address can contain a file name: no empty parts, no dots as parts, nothing unprintable."""
    if not isinstance(name, str):
        return False
    parts = name.split("/")
    return name.isprintable() and not any(c in name for c in " \\?#%") and all(part.strip(".") for part in parts)


def _cached_commit(address: HubAddress) -> str | None:
    """Return the commit of a revision at the last download; None if there was none."""
    commit = address.revision
    try:
        if _COMMIT.fullmatch(commit) is None:
            commit = (_folder(address) / "refs" / commit).read_text("ascii")[:64].strip()
    except (OSError, ValueError):
        return None
    return commit if _COMMIT.fullmatch(commit) is not None else None


def _cached_files(address: HubAddress, commit: str) -> Iterator[str]:
    snapshot = _folder(address) / "snapshots" / commit
    for folder, _, files in os.walk(snapshot):
        for file in files:
            yield (Path(folder) / file).relative_to(snapshot).as_posix()


def _folder(address: HubAddress) -> Path:
    """Return the folder in which the hub's client keeps a repository."""
    home = os.environ.get("HF_HOME") or os.path.join(
        os.environ.get("XDG_CACHE_HOME") or os.path.expanduser("~/.cache"), "huggingface"
    )
    cache = os.environ.get("HF_HUB_CACHE") or os.path.join(home, "hub")
    return Path(cache) / "--".join((address.kind or "models", *address.repository.split("/")))


def url_of(address: HubAddress) -> str:
    """Return the first address of a file of a repository."""
    return _url(address, address.revision)


def _url(address: HubAddress, revision: str) -> str:
    kind = f"{address.kind}/" if address.kind else ""
    return f"{endpoint()}/{kind}{address.repository}/resolve/{percent(revision, safe='')}/{percent(address.path)}"


def _offline() -> FormatError:
    words = f"HF_HUB_OFFLINE is {quote(os.environ.get('HF_HUB_OFFLINE', ''))}, and the cache does not hold it"
    return FormatError(faults.REMOTE_OFFLINE, Span(0, 0), reason=TrustedText(words))
