"""Faults of servers: why the bytes of a remote file cannot be had. Nothing is known of the file itself then."""

from i2s_spec.linter.rule import raised
from i2s_spec.schema import faults

raised(
    faults.REMOTE_DENIED,
    """The server does not give the file to this caller.

    Why: the repository is gated or private, and the token is missing, has expired or has no access; or the server
    answers 401 or 403 for a reason of its own.

    Example: a gated repository without HF_TOKEN.

    Fix: accept the conditions on the page of the repository and set HF_TOKEN, or ask its owner.
    """,
    clause="12.4",
)

raised(
    faults.REMOTE_MISSING,
    """The server has no file of that name.

    Why: the repository, the revision or the file does not exist. Hubs say the same of private repositories to those
    who may not see them.

    Example: an address with a typing error, or a file that was renamed.

    Fix: correct the address.
    """,
    clause="12.4",
)

raised(
    faults.REMOTE_RATE_LIMITED,
    """The server answers 429, and the wait that it asks for is too long.

    Why: hubs count requests by address and by token. i2s waits as it is told, but not beyond the budget of the file.

    Example: many files checked in a row without a token.

    Fix: wait, set HF_TOKEN (signed-in callers may ask more), or raise the budget of seconds.
    """,
    clause="12.4",
)

raised(
    faults.REMOTE_OFFLINE,
    """No server is to be asked, and the file is not in the cache of the hub.

    Why: HF_HUB_OFFLINE is set.

    Example: HF_HUB_OFFLINE=1 on a machine that never downloaded the file.

    Fix: unset the variable, or download the file before.
    """,
    clause="12.4",
)

raised(
    faults.REMOTE_UNREACHABLE,
    """The server cannot be reached, or fails.

    Why: no such host, no connection, a certificate that does not fit, no answer in time, or answers of the 500s.

    Example: a machine without a network.

    Fix: try again later; check the address and the network.
    """,
    clause="12.4",
)

raised(
    faults.REMOTE_REFUSED,
    """The address leads where i2s does not go.

    Why: an address or a redirect names a private or local network, plain HTTP after HTTPS, another scheme, credentials
    in the address, or goes round in circles. Programs that follow such addresses can be made to ask servers inside a
    network that the outside cannot reach.

    Example: a redirect to 169.254.169.254, where cloud providers keep credentials of the machine.

    Fix: --allow-private, if the server is your own.
    """,
    clause="12.4",
    cwe=918,
)

raised(
    faults.REMOTE_OVER_BUDGET,
    """Reading the file takes more bytes, requests or time than is allowed for one remote file.

    Why: a server can send bytes without end, or one byte at a time; and a header can declare strings of gigabytes.

    Example: a server that sends one byte a second.

    Fix: --payload sample, --header-only, or a larger budget: --remote-limit seconds=7200.
    """,
    clause="12.4",
    cwe=400,
)

raised(
    faults.REMOTE_MISBEHAVES,
    """The server does not answer a request for a range as HTTP wants it.

    Why: the whole file for a range, another range than was asked for, fewer bytes than were announced, compressed
    bytes, or more headers than clients take. Whoever takes such bytes as they come reads another file than the one that
    is there.

    Example: a development server that does not know ranges, and answers 200.

    Fix: download the file and check it on the disk, or use another server.
    """,
    clause="12.4",
)
