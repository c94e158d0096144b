"""Requests to web servers: redirects, waiting as servers ask, the budget of one file, and the connections.

    Transport          the requests for one file, and their cost (`Usage`)
    Deadline, pools    its connections: allowed networks only, and only until a deadline

Redirects are followed here and not by the library, because a token must go only to its own host, and because every
hop counts. An answer is read only up to the requested length; then its connection is closed.
"""

from __future__ import annotations

import re
import socket
import threading
import time
import unicodedata
import urllib.request
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager, suppress
from email.utils import parsedate_to_datetime
from http.client import HTTPException, HTTPResponse, IncompleteRead, LineTooLong, parse_headers
from typing import Any, NamedTuple
from urllib.parse import unquote, urljoin, urlsplit
from urllib.request import getproxies_environment

import urllib3
from urllib3.connection import HTTPConnection, HTTPSConnection

from i2s_spec._version import __version__
from i2s_spec.errors import FormatError, Span, TrustedText, counted, quote
from i2s_spec.remote.policy import Policy, refused, require_public
from i2s_spec.schema import faults


class Usage(NamedTuple):
    """The cost of reading a file: requests, and bytes of content."""

    requests: int
    bytes: int


#: How often a request that failed, or a body that ended early, is tried in all.
TRIES = 3

#: Parallel connections to a host.
CONNECTIONS = 6

#: Most redirects from an address to its bytes.
MOST_REDIRECTS = 8

WAITS = 6

_REDIRECTS = (301, 302, 303, 307, 308)
_PASSING = (500, 502, 503, 504)

#: `"resolvers";r=0;t=37`: the number of remaining requests, and the seconds until there are more.
_RATE_LIMIT = re.compile(r".*;\s*r=(?P<left>\d{1,9})\s*;\s*t=(?P<seconds>\d{1,9})\s*")


class UnreadAnswer(NamedTuple):
    """An answer whose body was not read: status, headers, and the final address.

    `first` are the headers of the first hop, which on hubs describe the file.
    """

    status: int
    headers: Mapping[str, str]
    url: str
    first: Mapping[str, str]
    body: Any


class Transport:
    """Requests for one file, and their cost.

    :param token: sent only to `token_for` (scheme, host and port)
    :param sleep: the function that waits; tests replace it
    """

    def __init__(
        self,
        policy: Policy,
        token: str | None = None,
        token_for: str = "",
        sleep: Callable[[float], None] = time.sleep,
    ) -> None:
        self.policy = policy
        self.requests = 0
        self.bytes = 0
        self._counting = threading.Lock()
        self._deadline = Deadline(policy)
        self._sleep = sleep
        self.authorize(token, token_for, {})
        self._pools: dict[str | None, urllib3.PoolManager] = {}
        #: The host that was asked for first; others are those of redirects.
        self._host = ""

    def charge(self, usage: Usage) -> None:
        """Count requests and bytes that others made for the same file."""
        with self._counting:
            self.requests += usage.requests
            self.bytes += usage.bytes

    def authorize(self, token: str | None, token_for: str, headers: Mapping[str, str]) -> None:
        """Send a token to one origin, and headers with every request."""
        self._token, self._token_for, self._headers = token, _origin(token_for) if token else None, headers

    def left(self) -> float:
        """Return the remaining seconds.

        :raises FormatError: S917 if there are none
        """
        return self._deadline.left()

    def count(self, requests: int) -> None:
        """Count requests, before they are made.

        :raises FormatError: S917 if these are too many
        """
        with self._counting:
            self.requests += requests
            total = self.requests
        if total > self.policy.requests:
            raise over_budget("requests", self.policy.requests)

    @contextmanager
    def get(self, url: str, headers: Mapping[str, str], accept: tuple[int, ...]) -> Iterator[UnreadAnswer]:
        """Request an address; redirects are followed, requested waits are made, and temporary failures are retried.

        :param accept: statuses that are returned besides those of success; others raise
        :raises FormatError: S911 to S918
        """
        with self._deadline.watching():
            answer = self._answer(url, headers, accept)
            try:
                yield answer
            finally:
                if answer.body.length_remaining == 0:
                    answer.body.drain_conn()  # nothing is left to read, or the body is empty
                    answer.body.release_conn()
                else:  # the rest of the body is not read
                    answer.body.close()

    def _answer(self, url: str, headers: Mapping[str, str], accept: tuple[int, ...]) -> UnreadAnswer:
        failures = waits = hops = 0
        first: Mapping[str, str] | None = None
        seen = {url}
        self._host = self._host or host_of(url)
        while True:
            try:
                _OPENING.redirected = host_of(url) != self._host
                body = self._once(url, headers)
                if self._deadline.passed:  # an answer that the deadline cut off looks complete
                    body.close()
                    self._deadline.left()
            except (urllib3.exceptions.HTTPError, OSError, ValueError) as error:
                if isinstance(error, FormatError):
                    raise
                failures += 1
                self._deadline.left()
                if (limit := _limit_of_headers(error)) is not None:  # a retry would give the same answer
                    raise misbehaves(url, f"sends {limit}") from error
                if failures == TRIES:
                    raise _unreachable(url, _words(error)) from error
                self._wait(0.25 * failures)
                continue
            answer = UnreadAnswer(body.status, body.headers, url, first or body.headers, body)
            if body.status in _REDIRECTS and "Location" in body.headers:
                hops += 1
                first = first or body.headers
                body.close()
                url = self._next(url, body.headers["Location"], seen, hops)
                continue
            if body.status == 429 or (body.status == 503 and "Retry-After" in body.headers):
                body.close()
                self._wait_as_asked(url, body, waits)
                waits += 1
                continue
            if body.status in _PASSING and failures + 1 < TRIES:
                failures += 1
                body.close()
                self._wait(0.25 * failures)
                continue
            if body.status < 300 or body.status in accept:
                return answer
            body.close()
            raise fault_of(answer)

    def _once(self, url: str, headers: Mapping[str, str]) -> urllib3.BaseHTTPResponse:
        self.count(1)
        sent = {"User-Agent": f"i2s-spec/{__version__}", "Accept-Encoding": "identity", **self._headers, **headers}
        if self._token and _origin(url) == self._token_for:
            sent["Authorization"] = f"Bearer {self._token}"
        timeout = min(self.policy.timeout, self._deadline.left())
        return self._pool(proxy_for(url, self.policy)).request(
            "GET", url, headers=sent, redirect=False, retries=False, preload_content=False, decode_content=False,
            timeout=urllib3.Timeout(connect=timeout, read=timeout),
        )  # fmt: skip

    def _pool(self, proxy: str | None) -> urllib3.PoolManager:
        """Return connections, direct or through a proxy."""
        with self._counting:
            if proxy not in self._pools:
                self._pools[proxy] = pools(CONNECTIONS, proxy)
            return self._pools[proxy]

    def _next(self, url: str, location: str, seen: set[str], hops: int) -> str:
        """Return the target of a redirect."""
        if not location.isprintable():
            raise refused(f"{host_of(url)} redirects to an address that cannot be printed")
        target, scheme, host = location, "", None
        try:
            target = urljoin(url, location)
            scheme, host = urlsplit(target).scheme, urlsplit(target).hostname
            _ = urlsplit(target).port
        except ValueError:
            host = None
        if scheme not in ("http", "https") or not host:
            raise refused(f"{host_of(url)} redirects to something other than a web server: {quote(target)}")
        if scheme == "http" and url.startswith("https:"):
            raise refused(f"{host_of(url)} redirects from HTTPS to plain HTTP at {quote(host, bare=True)}")
        if hops > MOST_REDIRECTS or target in seen:
            raise refused(f"{host_of(url)} redirects in circles, or more than {MOST_REDIRECTS} times")
        seen.add(target)
        return target

    def read(self, body: Any, buffer: memoryview) -> int:
        """Read a body into a buffer until it is full or the body ends; returns the number of bytes.

        :raises FormatError: S915 if the connection breaks, S917 at the end of a budget
        """
        done = 0
        while done < buffer.nbytes:
            self._deadline.left()
            try:
                part = body.read1(min(buffer.nbytes - done, 1 << 20))
            except (urllib3.exceptions.HTTPError, OSError, ValueError) as error:
                self._deadline.left()
                if isinstance(error, IncompleteRead) or isinstance(error.__cause__, IncompleteRead):
                    break  # the body is shorter than announced
                raise _unreachable(body.url or "", _words(error)) from error
            if not part:
                self._deadline.left()  # a connection that the deadline ended looks like the end of the body
                break
            with self._counting:
                self.bytes += len(part)
                total = self.bytes
            if total > self.policy.bytes:
                raise over_budget("bytes", self.policy.bytes)
            buffer[done : done + len(part)] = part
            done += len(part)
        return done

    def _wait(self, seconds: float) -> None:
        self._sleep(min(seconds, self._deadline.left()))

    def _wait_as_asked(self, url: str, body: urllib3.BaseHTTPResponse, waits: int) -> None:
        """Wait for a rate limit, if the budget allows it."""
        asked = wait_of(body.headers)
        seconds = asked if asked is not None else float(2**waits)
        most = min(self.policy.wait, self._deadline.left())
        if waits >= WAITS or seconds > most:
            words = (
                f"{host_of(url)} asks for {seconds:,.0f} seconds"
                if asked is not None
                else f"{host_of(url)} does not say how long"
            )
            more = f"; that is after {counted(waits, 'wait')}" if waits else f"; {most:,.0f} are left"
            raise FormatError(
                faults.REMOTE_RATE_LIMITED, Span(0, 0), round(seconds, 3), reason=TrustedText(words + more)
            )
        self._wait(seconds)

    def close(self) -> None:
        for each in self._pools.values():
            each.clear()


def wait_of(headers: Mapping[str, str]) -> float | None:
    """Return the seconds that a server asks to wait: `Retry-After`, in seconds or as a date, or `RateLimit`."""
    stated = headers.get("Retry-After", "").strip()
    if stated.isascii() and stated.isdigit() and len(stated) < 10:
        return float(stated)
    if stated:
        try:
            return max(0.0, parsedate_to_datetime(stated).timestamp() - time.time())
        except (ValueError, OverflowError, TypeError):
            pass
    found = _RATE_LIMIT.fullmatch(headers.get("RateLimit", "")[:200])
    return float(found["seconds"]) if found is not None and int(found["left"]) == 0 else None


def fault_of(answer: UnreadAnswer) -> FormatError:
    """Return the fault for an error status; hubs give details in `X-Error-Code`."""
    code = answer.headers.get("X-Error-Code") or answer.first.get("X-Error-Code") or ""
    host, status = host_of(answer.url), answer.status
    if code == "GatedRepo":
        words = "the repository is gated: accept its conditions on its page, and set HF_TOKEN"
        return _fault(faults.REMOTE_DENIED, words)
    if code == "RepoNotFound":
        return _fault(
            faults.REMOTE_MISSING, f"{host} has no such repository, or it is private and HF_TOKEN gives no access"
        )
    if code == "RevisionNotFound":
        return _fault(faults.REMOTE_MISSING, "the repository has no such revision")
    if code == "EntryNotFound":
        return _fault(faults.REMOTE_MISSING, "the repository has no such file at this revision")
    if status in (401, 403, 407, 451):
        return _fault(faults.REMOTE_DENIED, f"{host} answers {status}")
    if status in (404, 410):
        return _fault(faults.REMOTE_MISSING, f"{host} answers {status}")
    if status >= 500:
        return _fault(faults.REMOTE_UNREACHABLE, f"{host} answers {status}")
    return _fault(faults.REMOTE_MISBEHAVES, f"{host} answers {status}")


def misbehaves(url: str, words: str) -> FormatError:
    """Return the fault of a server that gives an invalid answer; the words need no quoting."""
    return _fault(faults.REMOTE_MISBEHAVES, f"{host_of(url)} {words}")


def host_of(url: str) -> str:
    """Return the host of an address, for a message."""
    try:
        return quote(urlsplit(url).netloc.rpartition("@")[2], bare=True) or "the server"
    except ValueError:
        return "the server"


def _origin(url: str) -> tuple[str, str, int | None]:
    parts = urlsplit(url)
    return parts.scheme, parts.hostname or "", parts.port or {"http": 80, "https": 443}.get(parts.scheme)


def _fault(fault: Any, words: str) -> FormatError:
    return FormatError(fault, Span(0, 0), reason=TrustedText(words))


def _unreachable(url: str, words: str) -> FormatError:
    return _fault(faults.REMOTE_UNREACHABLE, f"{host_of(url)}: {words}")


def _limit_of_headers(error: Exception) -> str | None:
    """Return the limit that the headers of an answer exceed, in words; None if something else went wrong."""
    cause = _cause(error)
    if isinstance(cause, LineTooLong):
        return f"a {'status line' if 'status line' in str(cause) else 'header'} of more than 65,536 bytes"
    # http.client has no separate class for this, and its message begins like that of `LineTooLong`.
    if isinstance(cause, HTTPException) and re.fullmatch(r"got more than \d+ headers", str(cause)):
        return "more than 100 headers"
    return None


def _cause(error: Exception) -> BaseException:
    """Return the fault for an exception of urllib3."""
    cause: BaseException = error
    while isinstance(cause, urllib3.exceptions.HTTPError) and (cause.__cause__ or cause.__context__):
        cause = cause.__cause__ or cause.__context__ or cause
    return cause


def _words(error: Exception) -> str:
    """Return the error of the transfer, without the names of classes and objects."""
    cause = _cause(error)
    if isinstance(cause, TimeoutError) or isinstance(error, urllib3.exceptions.TimeoutError):
        return "no data arrived in time"
    text = cause.strerror if isinstance(cause, OSError) and cause.strerror else str(cause)
    return quote(text or type(cause).__name__, 120, bare=True)


# --- connections -----------------------------------------------------------------------------------------------------
# Connections are opened only to networks that the policy allows, and only until a deadline.
#
# The resolved address is checked when the connection is made, so a name that resolves to another address a moment later
# is no attack. A timer shuts every socket down at the deadline, whatever the server does: socket timeouts restart with
# every byte, so a server that sends one byte a second would never time out.

#: Names of this machine that are known without a resolver.
LOCAL = ("localhost", "localhost6", "ip6-localhost", "ip6-loopback")

#: Most interim answers that are skipped, and the one after which no HTTP follows.
MOST_INTERIM = 16
SWITCHING = 101


class _Opening(threading.local):
    """What the current thread opens connections for: until when, and whether a redirect leads there.

    At the deadline, another thread, with a duplicate of each socket, shuts sockets down.
    """

    deadline: Any = None
    redirected = False


_OPENING = _Opening()


class Deadline:
    """The time at which all requests for one file end."""

    def __init__(self, policy: Policy) -> None:
        self.policy = policy
        self._end = time.monotonic() + policy.seconds
        self._sockets: set[socket.socket] = set()
        self._lock = threading.Lock()
        self.passed = False

    def left(self) -> float:
        """Return the remaining seconds.

        :raises FormatError: S917 if there are none
        """
        left = self._end - time.monotonic()
        if left <= 0 or self.passed:
            raise over_budget("seconds", self.policy.seconds)
        return left

    @contextmanager
    def watching(self) -> Iterator[None]:
        """End at the deadline the connections that are opened or used in the block."""
        timer = threading.Timer(self.left(), self._end_all)
        timer.daemon = True
        before, _OPENING.deadline = _OPENING.deadline, self
        timer.start()
        try:
            yield
        finally:
            timer.cancel()
            _OPENING.deadline = before

    def add(self, opened: socket.socket) -> socket.socket:
        """Return a second handle on a socket, with which it can be shut down even if it was wrapped meanwhile."""
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
    """Return the fault of a file that needs more than the policy allows."""
    words = f"more than {most:,} {name} would be needed; --remote-limit {name}=N allows more"
    return FormatError(faults.REMOTE_OVER_BUDGET, Span(0, 0), reason=TrustedText(words))


def proxy_for(url: str, policy: Policy) -> str | None:
    """Return the proxy that the environment names for an address: HTTPS_PROXY, HTTP_PROXY or ALL_PROXY, unless NO_PROXY
    excludes it.

    The proxy resolves names and decides what to allow; a numeric address is still checked here.

    :raises FormatError: S916 for an address of a private network behind a proxy
    """
    parts = urlsplit(url)
    proxies, host = getproxies_environment(), parts.hostname or ""
    proxy = proxies.get(parts.scheme) or proxies.get("all")
    whole = host if parts.port is None else f"{host}:{parts.port}"
    if not proxy or urllib.request.proxy_bypass_environment(whole, proxies):  # type: ignore[attr-defined]
        return None
    try:
        require_public(host, _numeric(host), policy, _OPENING.redirected)
    except ValueError as error:
        if isinstance(error, FormatError):
            raise
    return proxy


def _numeric(host: str) -> str:
    """Return the numeric address of a host in any spelling that resolvers accept; other hosts are returned unchanged.

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
    """Return a socket to the first address of a name that accepts a connection; all its addresses must be allowed."""
    deadline: Deadline = _OPENING.deadline
    found = socket.getaddrinfo(connection.host, connection.port, type=socket.SOCK_STREAM)
    for *_, place in found if connection.proxy is None else ():  # a proxy is chosen by the user, so it is not checked
        require_public(connection.host, str(place[0]), deadline.policy, _OPENING.redirected)
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


class _Final(HTTPResponse):
    """The final answer: servers may send interim ones (1xx) before it, of which the library skips only 100."""

    def _read_status(self) -> tuple[str, int, str]:
        for _ in range(MOST_INTERIM):
            found: tuple[str, int, str] = super()._read_status()  # type: ignore[misc]
            if not 100 <= found[1] < 200 or found[1] == SWITCHING:
                return found
            parse_headers(self.fp)
        raise HTTPException(f"got more than {MOST_INTERIM} interim answers")


class _Watched:
    """A connection to an allowed network that ends at the deadline."""

    twin: Any = None
    response_class = _Final

    def _new_conn(self) -> socket.socket:
        return _connect(self)

    def close(self) -> None:
        if self.twin is not None:
            (twin, deadline), self.twin = self.twin, None
            deadline.remove(twin)
        super().close()  # type: ignore[misc]


class _Plain(_Watched, HTTPConnection):  # type: ignore[misc]
    """Such a connection over HTTP."""


class _Secure(_Watched, HTTPSConnection):  # type: ignore[misc]
    """Such a connection over HTTPS."""


class _PlainPool(urllib3.HTTPConnectionPool):
    ConnectionCls = _Plain


class _SecurePool(urllib3.HTTPSConnectionPool):
    ConnectionCls = _Secure


def pools(most: int, proxy: str | None = None) -> urllib3.PoolManager:
    """Return connections by host; a limited number stays open between requests.

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
