"""Addresses, parsed: a file or a repository of a hub, a file of a web server, an object of a bucket.

    >>> parse("hf://microsoft/bitnet-b1.58-2B-4T-gguf@main/ggml-model-i2_s.gguf")
    HubAddress(kind='', repository='microsoft/bitnet-b1.58-2B-4T-gguf', revision='main', path='ggml-model-i2_s.gguf')
    >>> parse("https://huggingface.co/org/repo/blob/main/a/b.gguf").path
    'a/b.gguf'
    >>> parse("s3://bucket/key.gguf").scheme
    's3'
    >>> is_remote("folder/model.gguf")
    False

No part of an address is ever used as a path of this machine; a cached copy of a hub's file is found by names that were
checked part by part (`hub`).
"""

from __future__ import annotations

import os
from typing import NamedTuple
from urllib.parse import unquote, urlsplit

from i2s_spec.errors import counted, quote
from i2s_spec.remote.policy import refused

#: Schemes of web servers and buckets; those of buckets are fsspec's.
WEB = ("https", "http")
BUCKETS = ("s3", "s3a", "gs", "gcs", "az", "abfs", "abfss")

SCHEMES = frozenset(("hf", *WEB, *BUCKETS))

#: Hosts of the hub's pages, besides the host of HF_ENDPOINT.
HUB_HOSTS = ("huggingface.co", "www.huggingface.co", "hf.co")
DEFAULT_ENDPOINT = "https://huggingface.co"

#: Kinds of repositories besides models: the first word of an address.
KINDS = ("datasets", "spaces")

LONGEST = 8192


class HubAddress(NamedTuple):
    """A file of a hub's repository, or the whole repository if `path` is empty; `kind` is empty for models."""

    kind: str
    repository: str
    revision: str
    path: str

    def file(self, path: str) -> str:
        """Return the address of a file of the same repository and revision."""
        kind = f"{self.kind}/" if self.kind else ""
        revision = "" if self.revision == "main" else "@" + self.revision.replace("/", "%2F")
        return f"hf://{kind}{self.repository}{revision}/{path}"


class WebAddress(NamedTuple):
    """A file of a web server."""

    url: str


class BucketAddress(NamedTuple):
    """An object of a bucket."""

    scheme: str
    url: str


Address = HubAddress | WebAddress | BucketAddress


def is_remote(origin: object) -> bool:
    """Whether a name is an address; for a local file with such a name, write `./` before it."""
    return isinstance(origin, str) and "://" in origin and origin.partition("://")[0].lower() in SCHEMES


def endpoint() -> str:
    """Return the base URL of the hub: HF_ENDPOINT, or Hugging Face."""
    return (os.environ.get("HF_ENDPOINT") or DEFAULT_ENDPOINT).rstrip("/")


def parse(text: str) -> Address:
    """Parse an address.

    :raises FormatError: S916 if it cannot be followed: control characters, credentials, missing parts
    """
    if len(text) > LONGEST:
        raise refused(f"it has {counted(len(text), 'character')}; the limit is {LONGEST:,}")
    if not text.isprintable() or " " in text or "\\" in text:
        raise refused("it holds spaces, backslashes or characters that cannot be printed")
    scheme, _, rest = text.partition("://")
    scheme = scheme.lower()
    if scheme == "hf":
        return _hub(rest)
    if scheme in BUCKETS:
        bucket, _, key = rest.partition("/")
        if not bucket or not key:
            raise refused("it names no object: BUCKET/KEY is needed")
        return BucketAddress(scheme, f"{scheme}://{rest}")
    if scheme not in WEB:
        raise refused(f"{quote(scheme)} is not a supported scheme; there are: {', '.join(sorted(SCHEMES))}")
    try:
        parts = urlsplit(text)
        host = parts.hostname or ""
        _ = parts.port
    except ValueError:
        raise refused("its host or port is invalid") from None
    if not host:
        raise refused("it has no host")
    if "@" in parts.netloc:
        raise refused("it holds credentials, which would be printed in reports")
    if host in HUB_HOSTS or parts.netloc == urlsplit(endpoint()).netloc:
        page = _page(parts.path)
        if page is not None:
            return page
    return WebAddress(parts._replace(fragment="").geturl())


def _hub(rest: str) -> HubAddress:
    """`[datasets/|spaces/]org/repo[@rev][/path]`."""
    words = rest.split("/")
    kind = words.pop(0) if words[0] in KINDS else ""
    if words[0] == "buckets":
        raise refused("buckets of the hub are not supported, only repositories")
    if len(words) < 2:
        raise refused("it names no repository: ORG/REPO is needed")
    name, at, revision = words[1].partition("@")
    return _checked(kind, words[0], name, unquote(revision) if at else "main", "/".join(words[2:]))


def _page(path: str) -> HubAddress | None:
    """Return a pasted page of the hub: the page of a repository, a folder or a file, or a download link."""
    words = [unquote(word) for word in path.strip("/").split("/")]
    kind = words.pop(0) if words and words[0] in KINDS else ""
    if len(words) == 2:
        return _checked(kind, words[0], words[1], "main", "")
    if len(words) > 4 and words[2] in ("blob", "resolve", "raw"):
        return _checked(kind, words[0], words[1], words[3], "/".join(words[4:]))
    if len(words) > 3 and words[2] == "tree":
        return _checked(kind, words[0], words[1], words[3], "/".join(words[4:]))
    return None


def _checked(kind: str, owner: str, name: str, revision: str, path: str) -> HubAddress:
    path = path.rstrip("/")
    for word in (owner, name):
        if not word or word.strip(".") == "" or not all(c.isascii() and (c.isalnum() or c in "-_.") for c in word):
            raise refused(f"{quote(word)} is not the name of an owner or a repository")
    for word in (*revision.split("/"), *(path.split("/") if path else ())):
        if not word or word.strip(".") == "" or not word.isprintable() or "\\" in word:
            raise refused(f"{quote(word)} is not a valid part of a revision or a file name")
    return HubAddress(kind, f"{owner}/{name}", revision, path)
