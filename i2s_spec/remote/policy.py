"""The limits for one remote file: bytes, requests, seconds, and networks.

A policy applies to the code in a `using` block; otherwise the defaults apply.

    >>> with using(Policy(bytes=1 << 20)):
    ...     current().bytes
    1048576
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from contextvars import ContextVar
from typing import NamedTuple

from i2s_spec.errors import FormatError, Span, TrustedText, quote
from i2s_spec.schema import faults


class Policy(NamedTuple):
    """The budget of one remote file, and the allowed networks.

    :param bytes: most bytes of content that servers may send for it
    :param requests: most requests for it, including redirects and repeated requests
    :param seconds: most seconds from the first request to the last, including waits
    :param timeout: seconds without a byte after which a server counts as unreachable
    :param wait: the longest wait in seconds that a server may ask for, within the time budget
    :param sample: requests of a sample from a server that gives one range per request: they read the scales of as many
    tensors as possible, at least of two
    :param private: whether servers in private, local and reserved networks may be contacted
    """

    bytes: int = 1 << 36
    requests: int = 20_000
    seconds: int = 3600
    timeout: int = 30
    wait: int = 600
    sample: int = 12
    private: bool = False


#: The numbers that `--remote-limit` sets, and their meanings.
NUMBERS = {
    "bytes": "that servers may send for one file",
    "requests": "for one file",
    "seconds": "for one file",
    "timeout": "in seconds without a byte",
    "wait": "in seconds that a server may ask to wait",
    "sample": "for a sample, if a server gives one range per request",
}

_IN_FORCE: ContextVar[Policy | None] = ContextVar("remote policy", default=None)


def current() -> Policy:
    """Return the current policy."""
    return _IN_FORCE.get() or Policy()


def with_numbers(policy: Policy, numbers: Mapping[str, int]) -> Policy:
    """Return a policy with other numbers.

    :raises ValueError: for an unknown name, or a value below 1
    """
    for name, value in numbers.items():
        if name not in NUMBERS:
            raise ValueError(f"unknown remote limit {quote(name)}; there are: {', '.join(NUMBERS)}")
        if not 1 <= value < 1 << 63:
            raise ValueError(f"the remote limit {name} must be a number of at least 1")
    return Policy(**{**policy._asdict(), **numbers})


@contextmanager
def using(policy: Policy | None) -> Iterator[None]:
    """Apply a policy to the code in the block, in this thread; None keeps the current one."""
    if policy is None:
        yield
        return
    token = _IN_FORCE.set(policy)
    try:
        yield
    finally:
        _IN_FORCE.reset(token)


def require_public(host: str, numeric: str, policy: Policy, redirected: bool = False) -> None:
    """Refuse a numeric address outside the public internet, unless the policy allows it.

    :param host: the name of the host, for the message
    :param redirected: whether a redirect leads there; it may never lead to a link-local address, such as that of a
        cloud's service for its machines
    :raises FormatError: S916
    """
    import ipaddress  # large, and every lint imports this module

    def within(*networks: str) -> bool:
        return any(address in ipaddress.ip_network(each) for each in networks)

    address: ipaddress.IPv4Address | ipaddress.IPv6Address = ipaddress.ip_address(numeric.partition("%")[0])
    if isinstance(address, ipaddress.IPv6Address):
        inner = address.ipv4_mapped or address.sixtofour or (address.teredo or (None, None))[1]
        if inner is None and within("64:ff9b::/96"):  # NAT64
            inner = ipaddress.IPv4Address(int(address) & 0xFFFFFFFF)
        address = inner or address
    if address.version == 6:  # no other addresses are assigned; 3fff::/20 is for documentation
        public = address.is_global and within("2000::/3") and not within("3fff::/20")
    else:  # 6to4 relays, and addresses for protocols
        public = address.is_global and not address.is_multicast and not within("192.88.99.0/24", "192.0.0.0/24")
    name = str(address) if host == str(address) else f"{quote(host, bare=True)} is {address}, which"
    if redirected and address.is_link_local:
        raise refused(f"{name} is a link-local address, to which no redirect may lead")
    if policy.private or public:
        return
    raise refused(f"{name} is in no public network; --allow-private allows it")


def refused(reason: str) -> FormatError:
    """Return the fault of an address that is not followed; the reason is in words that need no quoting."""
    return FormatError(faults.REMOTE_REFUSED, Span(0, 0), reason=TrustedText(reason))
