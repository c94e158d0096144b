"""This module makes requests to web servers: it follows redirects, waits as servers ask, and keeps the budget of one file.

Redirects are followed here and not by the library, because a token must go only to its own host, and because every hop
counts. An answer is read only up to the requested length; then its connection is closed.
"""

from __future__ import annotations

import re
import threading
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from email.utils import parsedate_to_datetime
from http.client import HTTPException, IncompleteRead, LineTooLong
from typing import Any, NamedTuple
from urllib.parse import urljoin, urlsplit

import urllib3

from i2s_spec._version import __version__
from i2s_spec.errors import FormatError, Span, TrustedText, counted, quote
from i2s_spec.remote.connections import Deadline, over_budget, pools, proxy_for
from i2s_spec.remote.policy import Policy, refused
from i2s_spec.schema import faults

#: Parallel connections to a host.
CONNECTIONS = 6

#: Most redirects from an address to its bytes.
MOST_REDIRECTS = 8

#: How often a request is repeated after a failed transfer, and after the server asked to wait.
TRIES = 3
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
        self._token = token
        self._token_for = _origin(token_for) if token else None
        self._sleep = sleep
        self._pools: dict[str | None, urllib3.PoolManager] = {}

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
        while True:
            try:
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
        with self._counting:
            self.requests += 1
            requests = self.requests
        if requests > self.policy.requests:
            raise over_budget("requests", self.policy.requests)
        sent = {"User-Agent": f"i2s-spec/{__version__}", "Accept-Encoding": "identity", **headers}
        if self._token and _origin(url) == self._token_for:
            sent["Authorization"] = f"Bearer {self._token}"
        timeout = min(self.policy.timeout, self._deadline.left())
        return self._pool(proxy_for(url, self.policy)).request(
            "GET", url, headers=sent, redirect=False, retries=False, preload_content=False, decode_content=False,
            timeout=urllib3.Timeout(connect=timeout, read=timeout),
        )  # fmt: skip

    def _pool(self, proxy: str | None) -> urllib3.PoolManager:
        """Connections, direct or through a proxy."""
        with self._counting:
            if proxy not in self._pools:
                self._pools[proxy] = pools(CONNECTIONS, proxy)
            return self._pools[proxy]

    def _next(self, url: str, location: str, seen: set[str], hops: int) -> str:
        """The target of a redirect."""
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
    """The seconds that a server asks to wait: `Retry-After`, in seconds or as a date, or `RateLimit`."""
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
    """The fault for an error status; hubs give details in `X-Error-Code`."""
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
    """The fault of a server that gives an invalid answer; the words need no quoting."""
    return _fault(faults.REMOTE_MISBEHAVES, f"{host_of(url)} {words}")


def host_of(url: str) -> str:
    """The host of an address, for a message."""
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
    """The limit that the headers of an answer exceed, in words; None if something else went wrong."""
    cause = _cause(error)
    if isinstance(cause, LineTooLong):
        return f"a {'status line' if 'status line' in str(cause) else 'header'} of more than 65,536 bytes"
    # http.client has no separate class for this, and its message begins like that of `LineTooLong`.
    if isinstance(cause, HTTPException) and re.fullmatch(r"got more than \d+ headers", str(cause)):
        return "more than 100 headers"
    return None


def _cause(error: Exception) -> BaseException:
    """The fault for an exception of urllib3."""
    cause: BaseException = error
    while isinstance(cause, urllib3.exceptions.HTTPError) and (cause.__cause__ or cause.__context__):
        cause = cause.__cause__ or cause.__context__ or cause
    return cause


def _words(error: Exception) -> str:
    """The error of the transfer, without the names of classes and objects."""
    cause = _cause(error)
    if isinstance(cause, TimeoutError) or isinstance(error, urllib3.exceptions.TimeoutError):
        return "no data arrived in time"
    text = cause.strerror if isinstance(cause, OSError) and cause.strerror else str(cause)
    return quote(text or type(cause).__name__, 120, bare=True)
