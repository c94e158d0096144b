"""This module opens connections to servers: only to networks that the policy allows, and only until a deadline.

The resolved address is checked when the connection is made, so a name that resolves to another address a moment later
is no attack. A timer shuts every socket down at the deadline, whatever the server does: socket timeouts restart with
every byte, so a server that sends one byte a second would never time out.
"""

from __future__ import annotations

import socket
import threading
import time
import unicodedata
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from http.client import HTTPException, HTTPResponse, parse_headers
from typing import Any
from urllib.parse import unquote, urlsplit
from urllib.request import getproxies_environment, proxy_bypass_environment  # type: ignore[attr-defined]

import urllib3
from urllib3.connection import HTTPConnection, HTTPSConnection

from i2s_spec.errors import FormatError, Span, TrustedText
from i2s_spec.remote.policy import Policy, refused, require_public
from i2s_spec.schema import faults

#: Names of this machine that are known without a resolver.
LOCAL = ("localhost", "localhost6", "ip6-localhost", "ip6-loopback")

#: Most interim answers that are skipped, and the one after which no HTTP follows.
MOST_INTERIM = 16
SWITCHING = 101

#: The deadline of the current thread; another thread, with a duplicate of each socket, shuts sockets down then.
_OPENING = threading.local()


class Deadline:
    """The time at which all requests for one file end."""

    def __init__(self, policy: Policy) -> None:
        self.policy = policy
        self._end = time.monotonic() + policy.seconds
        self._sockets: set[socket.socket] = set()
        self._lock = threading.Lock()
        self.passed = False

    def left(self) -> float:
        """The remaining seconds.

        :raises FormatError: S917 if there are none
        """
        left = self._end - time.monotonic()
        if left <= 0 or self.passed:
            raise over_budget("seconds", self.policy.seconds)
        return left

    @contextmanager
    def watching(self) -> Iterator[None]:
        """Connections that are opened or used in the block end at the deadline."""
        timer = threading.Timer(self.left(), self._end_all)
        timer.daemon = True
        before, _OPENING.deadline = getattr(_OPENING, "deadline", None), self
        timer.start()
        try:
            yield
        finally:
            timer.cancel()
            _OPENING.deadline = before

    def add(self, opened: socket.socket) -> socket.socket:
        """A second handle on a socket, with which it can be shut down even if it was wrapped meanwhile."""
        twin = opened.dup()
        with self._lock:
            self._sockets.add(twin)
        return twin

    def remove(self, twin: socket.socket) -> None:
        with self._lock:
            self._sockets.discard(twin)
        twin.close()

    def _end_all(self) -> None:
        self.passed = True
        with self._lock:
            for twin in self._sockets:
                with suppress(OSError):
                    twin.shutdown(socket.SHUT_RDWR)


def over_budget(name: str, most: int) -> FormatError:
    """The fault of a file that needs more than the policy allows."""
    words = f"more than {most:,} {name} would be needed; --remote-limit {name}=N allows more"
    return FormatError(faults.REMOTE_OVER_BUDGET, Span(0, 0), reason=TrustedText(words))


def proxy_for(url: str, policy: Policy) -> str | None:
    """The proxy that the environment names for an address: HTTPS_PROXY, HTTP_PROXY or ALL_PROXY, unless NO_PROXY
    excludes it.

    The proxy resolves names and decides what to allow; a numeric address is still checked here.

    :raises FormatError: S916 for an address of a private network behind a proxy
    """
    parts = urlsplit(url)
    proxies, host = getproxies_environment(), parts.hostname or ""
    proxy = proxies.get(parts.scheme) or proxies.get("all")
    if not proxy or proxy_bypass_environment(host if parts.port is None else f"{host}:{parts.port}", proxies):
        return None
    try:
        require_public(host, _numeric(host), policy)
    except ValueError as error:
        if isinstance(error, FormatError):
            raise
    return proxy


def _numeric(host: str) -> str:
    """The numeric address of a host in any spelling that resolvers accept; other hosts are returned unchanged.

    >>> _numeric("2130706433"), _numeric("0x7f.1"), _numeric("localhost."), _numeric("hub.example")
    ('127.0.0.1', '127.0.0.1', '127.0.0.1', 'hub.example')
    """
    name = unicodedata.normalize("NFKC", host).replace("\u3002", ".").rstrip(".").lower()
    if name in LOCAL or name.endswith((".localhost", ".localdomain")):
        return "127.0.0.1"
    try:
        return socket.inet_ntoa(socket.inet_aton(name)) if "0" <= name[:1] <= "9" and name.isascii() else name
    except OSError:
        return name


def _connect(connection: Any) -> socket.socket:
    """A socket to the first address of a name that accepts a connection; all its addresses must be allowed."""
    deadline: Deadline = _OPENING.deadline
    found = socket.getaddrinfo(connection.host, connection.port, type=socket.SOCK_STREAM)
    for *_, place in found if connection.proxy is None else ():  # a proxy is chosen by the user, so it is not checked
        require_public(connection.host, str(place[0]), deadline.policy)
    failure: OSError = OSError("the name has no address")
    for family, kind, protocol, _, place in found:
        opened = socket.socket(family, kind, protocol)
        try:
            opened.settimeout(min(deadline.policy.timeout, deadline.left()))
            opened.connect(place)
            opened.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
            connection.twin = deadline.add(opened), deadline
        except OSError as error:
            opened.close()
            failure = error
        except BaseException:
            opened.close()
            raise
        else:
            return opened
    raise failure


def _let_go(connection: Any) -> None:
    if connection.twin is not None:
        twin, deadline = connection.twin
        connection.twin = None
        deadline.remove(twin)


class _Final(HTTPResponse):
    """The final answer: servers may send interim ones (1xx) before it, of which the library skips only 100."""

    def _read_status(self) -> tuple[str, int, str]:
        for _ in range(MOST_INTERIM):
            found: tuple[str, int, str] = super()._read_status()  # type: ignore[misc]
            if not 100 <= found[1] < 200 or found[1] == SWITCHING:
                return found
            parse_headers(self.fp)
        raise HTTPException(f"got more than {MOST_INTERIM} interim answers")


class _Plain(HTTPConnection):
    twin: Any = None
    response_class = _Final

    def _new_conn(self) -> socket.socket:
        return _connect(self)

    def close(self) -> None:
        _let_go(self)
        super().close()


class _Secure(HTTPSConnection):
    twin: Any = None
    response_class = _Final

    def _new_conn(self) -> socket.socket:
        return _connect(self)

    def close(self) -> None:
        _let_go(self)
        super().close()


class _PlainPool(urllib3.HTTPConnectionPool):
    ConnectionCls = _Plain


class _SecurePool(urllib3.HTTPSConnectionPool):
    ConnectionCls = _Secure


def pools(most: int, proxy: str | None = None) -> urllib3.PoolManager:
    """Connections by host; a limited number is kept open between requests.

    :param proxy: the address of a proxy, with user and password if it requires them
    :raises FormatError: S916 if the proxy cannot be used
    """
    settings: dict[str, Any] = {"num_pools": 8, "maxsize": most, "block": False, "retries": False}
    if proxy is None:
        manager = urllib3.PoolManager(**settings)
    else:
        try:
            parts = urlsplit(proxy if "://" in proxy else f"http://{proxy}")
            user = f"{unquote(parts.username or '')}:{unquote(parts.password or '')}"
            place = parts._replace(netloc=parts.netloc.rpartition("@")[2]).geturl()
            headers = urllib3.make_headers(proxy_basic_auth=user) if parts.username else None
            manager = urllib3.ProxyManager(place, proxy_headers=headers, **settings)
        except (ValueError, urllib3.exceptions.HTTPError):
            raise refused("the proxy in the environment is not an http:// or https:// address") from None
    manager.pool_classes_by_scheme = {"http": _PlainPool, "https": _SecurePool}
    return manager
