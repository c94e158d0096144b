"""Rules about a file beyond its bytes: the other parts of a split model, and servers.

Faults of servers are the reasons why the bytes of a remote file cannot be fetched. They say nothing about the file.
"""

import os
import re
from collections.abc import Iterator
from typing import Any, Final

from i2s_spec.errors import Span, TrustedText, counted
from i2s_spec.linter.analysis.context import Subject
from i2s_spec.linter.rule import Finding, Fix, raised, rule
from i2s_spec.schema import faults
from i2s_spec.schema.types import ValueType

#: How loaders name the parts of a model: a prefix, the number of the part (from 1), the number of parts.
_PART: Final = r"(?s)(?P<prefix>.*)-(?P<no>\d{5})-of-(?P<count>\d{5})\.gguf"
_WANTED = {
    b"split.no": ValueType.UINT16,
    b"split.count": ValueType.UINT16,
    b"split.tensors.count": ValueType.INT32,
}


@rule("G230", "split-number", "split.no is {got} in a model of {want:part}; parts are numbered from 0", clause="2.8",
      cwe=129)  # fmt: skip
def split_number(subject: Subject) -> Iterator[Finding]:
    """The number of a part is not smaller than the number of parts.

    Why: loaders use the number to build file names and to index a list. At best they refuse a part beyond the end.

    Example: split.no = 3 with split.count = 3.

    Fix: number the parts from 0.
    """
    number, count = _value(subject, b"split.no"), _value(subject, b"split.count")
    if number is not None and count is not None and count > 0 and number >= count:
        yield split_number.at(_span(subject, b"split.no"), got=number, want=count)


@rule("G231", "split-incomplete", "this is part {got} of a model of {want:part}, and {reason}", clause="2.8")  # fmt: skip
def split_incomplete(subject: Subject) -> Iterator[Finding]:
    """Other parts of a split model are missing.

    Why: a single part does not load. Loaders look for the others beside the first part, by the name pattern
    '-00001-of-00003.gguf', and refuse the model if a part is missing or a name does not match the pattern.

    Example: model-00001-of-00003.gguf without its two companions.

    Fix: put all parts into one folder under their own names, or merge them.
    """
    number, count = _value(subject, b"split.no"), _value(subject, b"split.count")
    if number is None or count is None or count < 2 or number >= count:
        return
    reason = _what_is_missing(subject, number, count)
    if reason:
        yield split_incomplete.at(
            _span(subject, b"split.count"), got=number + 1, want=count, reason=TrustedText(reason)
        )


@rule(
    "G232",
    "split-type",
    "{key} has type {got}; loaders expect {want}",
    clause="2.8",
    cwe=843,
    fix=Fix.UNSAFE,
)
def split_type(subject: Subject) -> Iterator[Finding]:
    """A key about splitting does not have the type that loaders expect.

    Why: loaders compare types strictly and refuse the file.

    Example: split.count as a u32 instead of a u16.

    Fix: write split.no and split.count as u16 and split.tensors.count as i32.
    """
    for key, wanted in _WANTED.items():
        i = subject.places.get(key)
        if i is not None and subject.file.index.key(i).type != wanted:
            entry = subject.file.index.key(i)
            yield split_type.at(entry.type_span, got=TrustedText(entry.label), want=TrustedText(wanted.label), key=key)


def _value(subject: Subject, key: bytes) -> int | None:
    """The value of a key about splitting, if it has the right type."""
    i = subject.places.get(key)
    if i is None or subject.file.index.key(i).type != _WANTED[key]:
        return None
    value: Any = subject.file.metadata.decode(subject.file.metadata.by_index(i))
    return int(value)


def _span(subject: Subject, key: bytes) -> Span:
    return subject.file.metadata.by_index(subject.places[key]).value_span


def _what_is_missing(subject: Subject, number: int, count: int) -> str:
    """Why the model is not complete, if it is not; only names that are derived from the file's own name are searched."""
    asked = getattr(subject.file.source, "neighbours_missing", None)
    path = subject.file.source.name if asked is not None else subject.path
    if path is None:
        return "the other parts were not given"
    folder, name = os.path.split(path)
    part = re.fullmatch(_PART, name)
    if part is None:
        return "its name is not of the form NAME-00001-of-00003.gguf by which loaders find the others"
    if (int(part["no"]), int(part["count"])) != (number + 1, count):
        return f"its name says part {int(part['no']):,} of {int(part['count']):,}"
    names = (f"{part['prefix']}-{no:05d}-of-{count:05d}.gguf" for no in range(1, count + 1))
    if asked is None:
        missing = sum(not os.path.isfile(os.path.join(folder, other)) for other in names)
    elif (missing := asked(names)) is None:
        return "its server was not asked for the other parts"
    return counted(missing, *(f"of the other parts {be} not in its folder" for be in ("is", "are"))) if missing else ""


# --- remote files ----------------------------------------------------------------------------------------------------
# The reader raises these faults.

raised(
    faults.REMOTE_DENIED,
    """The server does not give the file to this caller.

    Why: the repository is gated or private, and the token is missing, has expired or has no access; or the server
    answers 401 or 403 for another reason.

    Example: a gated repository without HF_TOKEN.

    Fix: accept the conditions on the page of the repository and set HF_TOKEN, or ask its owner.
    """,
    clause="12.4",
)

raised(
    faults.REMOTE_MISSING,
    """The server has no file of that name.

    Why: the repository, the revision or the file does not exist. Hubs give the same answer for private repositories to
    users without access.

    Example: an address with a typing error, or a file that was renamed.

    Fix: correct the address.
    """,
    clause="12.4",
)

raised(
    faults.REMOTE_RATE_LIMITED,
    """The server answers 429 and asks for a wait that is too long.

    Why: hubs limit requests by network address and by token. i2s waits as the server asks, but not longer than the
    time budget of the file.

    Example: many files checked in a row without a token.

    Fix: wait, set HF_TOKEN (users who are signed in have higher limits), or raise the time budget (`--remote-limit
    seconds=N`).
    """,
    clause="12.4",
)

raised(
    faults.REMOTE_OFFLINE,
    """The offline mode is on, and the file is not in the cache of the hub.

    Why: HF_HUB_OFFLINE is set, so i2s contacts no server.

    Example: HF_HUB_OFFLINE=1 on a machine that never downloaded the file.

    Fix: unset the variable, or download the file first.
    """,
    clause="12.4",
)

raised(
    faults.REMOTE_UNREACHABLE,
    """The server cannot be reached, or fails.

    Why: the host does not exist, there is no connection, the certificate is invalid, the answer takes too long, or the
    server answers with a 5xx status.

    Example: a machine without a network.

    Fix: try again later; check the address and the network.
    """,
    clause="12.4",
)

raised(
    faults.REMOTE_REFUSED,
    """i2s refuses to follow the address.

    Why: the address or a redirect names a private or local network, leads from HTTPS to plain HTTP, has another scheme,
    contains credentials, or forms a loop. A program that follows such addresses can be made to contact servers inside a
    network that is closed to the outside.

    Example: a redirect to 169.254.169.254, where cloud providers serve the machine's credentials.

    Fix: use --allow-private if the server is your own.
    """,
    clause="12.4",
    cwe=918,
)

raised(
    faults.REMOTE_OVER_BUDGET,
    """Reading the file takes more bytes, requests or time than allowed for one remote file.

    Why: a server can send bytes without end, or one byte at a time, and a header can declare strings of gigabytes.

    Example: a server that sends one byte a second.

    Fix: use --payload sample or --header-only, or raise the limit, for example --remote-limit seconds=7200.
    """,
    clause="12.4",
    cwe=400,
)

raised(
    faults.REMOTE_MISBEHAVES,
    """The server does not answer a range request as HTTP requires.

    Why: it sent the whole file, another range, fewer bytes than announced, compressed bytes, or too many headers. A
    client that accepts such bytes reads something else than the file.

    Example: a development server that does not support ranges and answers 200.

    Fix: download the file and check the local copy, or use another server.
    """,
    clause="12.4",
)
