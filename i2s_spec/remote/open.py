"""Addresses, opened: `open_remote` gives a source, or the path of a copy in the hub's cache.

`pinned_folder` lists a folder of a hub's repository at one commit; `identity_of` asks for the identity of a file's
content.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from typing import TYPE_CHECKING, NamedTuple

from i2s_spec.errors import FormatError, MissingExtra
from i2s_spec.remote.addresses import BucketAddress, HubAddress, WebAddress, endpoint, parse
from i2s_spec.remote.policy import current, refused

if TYPE_CHECKING:
    from i2s_spec.remote.http_source import RangeSource

SUFFIX = ".gguf"


def require_extra(address: str) -> None:
    """Check that the HTTP library is installed.

    :raises MissingExtra: if it is not, with a sentence that says what to install
    """
    try:
        import urllib3  # noqa: F401
    except ImportError:
        raise MissingExtra(f"reading {address.partition('://')[0]}://", "remote") from None


def open_remote(text: str) -> RangeSource | str:
    """Return the file at an address: a source, or the path of the file in the hub's cache.

    :raises FormatError: S911 to S918, with the address
    :raises MissingExtra: if the extra [remote] is not installed
    """
    require_extra(text)
    try:
        address = parse(text)
        if isinstance(address, BucketAddress):
            from i2s_spec.remote.bucket_source import BucketSource

            return BucketSource(text, address)
        if isinstance(address, WebAddress):
            from i2s_spec.remote.http_source import HttpSource
            from i2s_spec.remote.transport import Transport

            return HttpSource(text, address.url, Transport(current()))
        return _of_hub(text, address)
    except FormatError as error:
        raise error.of_file(text) from None


def _of_hub(text: str, address: HubAddress) -> RangeSource | str:
    from i2s_spec.remote import hub

    if not address.path:
        names = [name for name in hub.list_files(address).names if name.lower().endswith(SUFFIX)]
        if len(names) != 1:
            raise refused(f"it names a repository with {len(names):,} GGUF files; name one of them")
        address = address._replace(path=names[0])
    try:
        return hub.open_file(text, address)
    except hub.CachedError as found:
        return found.path


class Found(NamedTuple):
    """An address to check, and whether it is a repository with a checkpoint rather than a file."""

    address: str
    checkpoint: bool = False


def files_of(text: str, is_checkpoint: Callable[[Iterable[str]], bool] = lambda names: False) -> Iterator[Found]:
    """Yield the addresses to check for one address: all GGUF files of a hub's repository or folder; any other
    address is itself.

    A name without the ending of a GGUF file may be a folder: then the hub is asked for the files of the repository.

    :param is_checkpoint: whether a folder without GGUF files below it is a checkpoint, by the names of its own files;
    such a folder is one address
    :raises FormatError: S911 to S918, with the address
    :raises MissingExtra: where the extra [remote] is not installed
    """
    require_extra(text)
    try:
        address = parse(text)
        if not isinstance(address, HubAddress) or address.path.lower().endswith(SUFFIX):
            yield Found(text)
            return
        from i2s_spec.remote import hub

        names = hub.list_files(address).names
        before = f"{address.path}/" if address.path else ""
        names = [name for name in names if name.startswith(before)]
        if before and not names:
            yield Found(text)  # a file, or nothing; the hub will report that
            return
        some = False
        for name in names:
            if name.lower().endswith(SUFFIX):
                some = True
                yield Found(address.file(name))
        if some:
            return
        own = (name.removeprefix(before) for name in names)
        if not is_checkpoint(name for name in own if "/" not in name):
            what = "a folder" if before else "a repository"
            raise refused(f"it names {what} without any *.gguf file")
        yield Found(text, checkpoint=True)
    except FormatError as error:
        raise error.of_file(text) from None


class PinnedFolder(NamedTuple):
    """A folder of a hub's repository at one commit.

    :param address: the address with the commit; with `/NAME` appended, the address of a file
    :param name: the last part of the name of the repository or folder
    :param repository: `ORG/REPO`, if it is a repository of models
    :param names: the names of the files in the folder itself
    :param commit: the commit in the address
    :param usage: what listing it has cost: requests and bytes
    """

    address: str
    name: str
    repository: str | None
    names: list[str]
    commit: str
    usage: tuple[int, int] = (0, 0)


def pinned_folder(text: str) -> PinnedFolder:
    """Return the contents of a hub's repository, or of a folder in it, with one request.

    The revision is resolved here, so everything that is read with the resulting address has the same commit.

    :raises FormatError: S911 to S918, with the address
    :raises MissingExtra: where the extra [remote] is not installed
    """
    require_extra(text)
    try:
        address = parse(text)
        if not isinstance(address, HubAddress):
            raise refused("it names one file; a folder or a repository of a hub is needed")
        from i2s_spec.remote import hub
        from i2s_spec.remote.transport import misbehaves

        commit, names = hub.list_files(address)
        if commit is None:
            raise misbehaves(endpoint(), "does not say which commit the repository is at")
        before = f"{address.path}/" if address.path else ""
        own = [name.removeprefix(before) for name in names if name.startswith(before)]
        if not own:
            raise refused("the repository has no such folder, or nothing in it")
        pinned = address._replace(revision=commit)
        return PinnedFolder(
            pinned.file(address.path).rstrip("/"),
            (address.path or address.repository).rpartition("/")[2],
            None if address.kind else address.repository,
            [name for name in own if "/" not in name],
            commit,
            hub.listing_cost(address),
        )
    except FormatError as error:
        raise error.of_file(text) from None


# --- content identity ------------------------------------------------------------------------------------------------
# The identity (ETag) shows whether the content of a file changed; to ask for it, one byte is read.


class ContentIdentity(NamedTuple):
    """The server's identity of a file's content, and its size in bytes."""

    etag: str
    size: int


def identity_of(text: str) -> ContentIdentity | None:
    """Return the identity of the file at an address; None if the server does not give it, and for a repository.

    It equals `etag` and `size` of the source of the same address.

    :raises FormatError: S911 to S918
    :raises MissingExtra: where the extra [remote] is not installed
    """
    require_extra(text)
    address = parse(text)
    from i2s_spec.remote import hub
    from i2s_spec.remote.http_source import CONTENT_RANGE, etag_of
    from i2s_spec.remote.transport import Transport

    if isinstance(address, BucketAddress):
        from i2s_spec.remote.bucket_source import of_bucket

        url, transport, _ = of_bucket(address)
    elif isinstance(address, HubAddress):
        if not address.path or hub.is_offline():
            return None
        url, transport = hub.url_of(address), hub.transport(hub.ETAG_TIMEOUT)
    else:
        url, transport = address.url, Transport(current())
    try:
        with transport.get(url, {"Range": "bytes=0-0"}, (416,)) as answer:
            etag = etag_of(answer)
            found = CONTENT_RANGE.fullmatch(answer.headers.get("Content-Range", "").strip())
            if etag is None or answer.status != 206 or found is None:
                return None
            return ContentIdentity(etag, int(found["size"]))
    finally:
        transport.close()
