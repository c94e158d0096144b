"""Faults of servers: why the bytes of a remote file cannot be fetched. They say nothing about the file itself."""

from i2s_spec.linter.rule import raised
from i2s_spec.schema import faults

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
