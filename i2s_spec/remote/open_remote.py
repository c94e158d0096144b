"""This module opens addresses: `open_remote` gives a source, or the path of a copy in the hub's cache."""

from __future__ import annotations

from collections.abc import Iterator

from i2s_spec.errors import FormatError, MissingExtra
from i2s_spec.remote.addresses import BucketAddress, HubAddress, WebAddress, parse
from i2s_spec.remote.policy import current, refused
from i2s_spec.remote.range_source import RangeSource

SUFFIX = ".gguf"


def require_extra(address: str) -> None:
    """Say what is to be installed, where the library is not there that asks servers.

    :raises MissingExtra: with one sentence
    """
    try:
        import urllib3  # noqa: F401
    except ImportError:
        raise MissingExtra(f"reading {address.partition('://')[0]}://", "remote") from None


def open_remote(text: str) -> RangeSource | str:
    """What an address of one file leads to: a source, or the path of the file in the hub's cache.

    :raises FormatError: S911 to S918, with the address
    :raises MissingExtra: where the extra [remote] is not installed
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
        names = [name for name in hub.list_files(address) if name.lower().endswith(SUFFIX)]
        if len(names) != 1:
            raise refused(f"it names a repository with {len(names):,} GGUF files; one of them is needed")
        address = address._replace(path=names[0])
    try:
        return hub.open_file(text, address)
    except hub.CachedError as found:
        return found.path


def files_of(text: str) -> Iterator[str]:
    """The addresses that an address stands for: a hub's repository for all its GGUF files, any other for itself.

    :raises FormatError: S911 to S918, with the address
    :raises MissingExtra: where the extra [remote] is not installed
    """
    require_extra(text)
    try:
        address = parse(text)
        if not isinstance(address, HubAddress) or address.path:
            yield text
            return
        from i2s_spec.remote import hub

        some = False
        for name in hub.list_files(address):
            if name.lower().endswith(SUFFIX):
                some = True
                yield address.file(name)
        if not some:
            raise refused("it names a repository without any *.gguf file")
    except FormatError as error:
        raise error.of_file(text) from None
