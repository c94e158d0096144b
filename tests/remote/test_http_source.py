"""Files on a web server: the requests that are made, and servers that answer something else."""

from __future__ import annotations

import random
import socket
import threading
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from range_server import Handler, Seen, Server, drip, endless, every, once, status

from i2s_spec.errors import FormatError
from i2s_spec.gguf.reader import open as open_file
from i2s_spec.remote.http_source import FIRST, LEAST_STEP, HttpSource
from i2s_spec.remote.open import open_remote
from i2s_spec.remote.policy import Policy, require_public, using
from i2s_spec.remote.transport import CONNECTIONS, Transport, wait_of

pytestmark = pytest.mark.usefixtures("private")

DATA = random.Random(1).randbytes(5 << 20)


@pytest.fixture
def url(server: Server) -> str:
    server.files["/f"] = DATA
    return server.url + "/f"


def opened(url: str) -> HttpSource:
    source = open_remote(url)
    assert isinstance(source, HttpSource)
    return source


def fault(url: str, start: int = 3 << 20, length: int = 10) -> str:
    """The code of reading so many bytes at a place, which are not in the first answer."""
    with pytest.raises(FormatError) as error:
        read_at(url, start, length)
    assert error.value.message.isprintable()
    return error.value.code


def read_at(url: str, start: int, length: int) -> None:
    source = opened(url)
    try:
        source.read(start, length)
    finally:
        source.close()


# --- requests ---


def test_every_byte_is_that_of_the_file(url: str) -> None:
    source, draw = opened(url), random.Random(2)
    assert (source.size, source.version, source.changed(), source.view) == (len(DATA), '"one"', None, None)
    for _ in range(60):
        start = draw.randrange(len(DATA))
        length = draw.randrange(1, 1 + min(len(DATA) - start, 1 << draw.randrange(1, 21)))
        if draw.random() < 0.2:
            source.expect([(at, at + 50) for at in draw.sample(range(len(DATA) - 50), 9)])
        assert source.read(start, length) == DATA[start : start + length]
    assert source.read(0, len(DATA)) == DATA
    source.close()


def test_a_walk_is_read_ahead_and_kept(server: Server, url: str) -> None:
    source = opened(url)
    for at in range(0, len(DATA), 1 << 16):
        source.read(at, min(1 << 16, len(DATA) - at))
    steps = [seen.ranges for seen in server.seen]
    assert steps[0] == [(0, FIRST)]
    assert steps[1] == [(FIRST, FIRST + LEAST_STEP)]
    assert len(steps) == 1 + -(-(len(DATA) - FIRST) // LEAST_STEP)
    source.read(0, len(DATA))
    assert source.usage == (len(steps), len(DATA))
    source.close()


def test_announced_ranges_are_asked_for_together(server: Server, url: str) -> None:
    places = [(at, at + 32) for at in range(3 << 20, 5 << 20, 1 << 17)]
    source = opened(url)
    source.expect(places)
    assert len(server.seen) == 1
    for start, stop in places:
        assert source.read(start, stop - start) == DATA[start:stop]
    assert [len(seen.ranges) for seen in server.seen] == [1, len(places)]
    assert server.seen[1].headers["If-Range"] == '"one"'
    assert server.seen[1].headers["Accept-Encoding"] == "identity"
    source.close()


@pytest.mark.parametrize("near", [True, False])
def test_near_ranges_are_joined(server: Server, url: str, near: bool) -> None:
    source = opened(url)
    gap = 100 if near else 1 << 16
    source.prefetch([(at, at + 10) for at in range(3 << 20, (3 << 20) + 5 * gap, gap)])
    assert len(server.seen[1].ranges) == (1 if near else 5)
    source.close()


def first_alone(handler: Handler, seen: Seen) -> None:
    handler.ranges(DATA, seen._replace(headers={**seen.headers, "Range": seen.headers["Range"].partition(",")[0]}))


def whole_for_many(handler: Handler, seen: Seen) -> None:
    handler.answer(200, {"ETag": handler.server.etag}, DATA)


#: Answers of servers that ignore a request for several ranges, and the number of ranges (of four) still missing then.
ALONE: dict[str, tuple[Callable[[Handler, Seen], None], int]] = {
    "the first": (first_alone, 3),
    "the file": (whole_for_many, 4),
    **{str(code): (status(code), 4) for code in (400, 416, 501)},
}


@pytest.mark.parametrize("name", ALONE)
def test_a_server_without_several_ranges_is_asked_for_each(server: Server, url: str, name: str) -> None:
    answer, missing = ALONE[name]

    def fault(handler: Handler, seen: Seen) -> bool:
        if len(seen.ranges) < 2:
            return False
        answer(handler, seen)
        return True

    server.faults.append(fault)
    places = [(at, at + 32) for at in range(3 << 20, 4 << 20, 1 << 18)]
    source = opened(url)
    for _ in range(2):
        source.prefetch(places)
        assert [source.read(a, b - a) for a, b in places] == [DATA[a:b] for a, b in places]
    assert [len(seen.ranges) for seen in server.seen] == [1, 4, *[1] * missing]
    assert not source.many_at_once
    source.close()


def test_single_ranges_are_asked_for_side_by_side(server: Server, url: str) -> None:
    """A few connections, each for many requests."""
    server.multipart = False
    together = threading.Barrier(CONNECTIONS, timeout=300)
    waiting = iter(range(CONNECTIONS))

    def fault(handler: Handler, seen: Seen) -> bool:
        if handler.number > 2 and next(waiting, None) is not None:
            together.wait()  # passes only after several simultaneous requests
        return False

    server.faults.append(fault)
    places = [(at, at + 32) for at in range(3 << 20, 5 << 20, 1 << 15)]
    source = opened(url)
    source.prefetch(places)
    assert [source.read(a, b - a) for a, b in places] == [DATA[a:b] for a, b in places]
    assert len(server.seen) == 1 + len(places)
    assert server.connections <= 1 + CONNECTIONS  # one is closed: the connection whose answer was not needed to the end
    source.close()


def test_side_by_side_an_address_that_expired_is_resolved_again(server: Server, url: str) -> None:
    server.multipart = False
    server.redirects["/link"] = "/f?Signature=1"
    source = opened(server.url + "/link")
    server.redirects["/link"] = "/f?Signature=2"

    def fault(handler: Handler, seen: Seen) -> bool:
        if not seen.path.endswith("Signature=1"):
            return False
        handler.answer(403)
        return True

    server.faults.append(fault)
    places = [(at, at + 32) for at in range(3 << 20, 5 << 20, 1 << 16)]
    source.many_at_once = False
    source.prefetch(places)
    assert [source.read(a, b - a) for a, b in places] == [DATA[a:b] for a, b in places]
    source.close()


def test_side_by_side_the_first_fault_ends_all(server: Server, url: str) -> None:
    source = opened(url)
    source.many_at_once = False
    places = [(at, at + 32) for at in range(3 << 20, 5 << 20, 1 << 14)]

    def fault(handler: Handler, seen: Seen) -> bool:
        """All answers but the first one read, which takes so long that all others could be requested meanwhile."""
        if seen.ranges == [places[0]]:
            time.sleep(0.5)
            return False
        handler.answer(404)
        return True

    server.faults.append(fault)
    with pytest.raises(FormatError, match="S912"):
        source.prefetch(places)
    assert len(server.seen) <= 1 + CONNECTIONS  # each connection fails once
    source.close()


def test_far_ranges_of_a_sample(server: Server, url: str) -> None:
    places = [(at, at + 32) for at in range(3 << 20, 5 << 20, 1 << 17)]
    with using(Policy(private=True, sample=7)):
        source = opened(url)
    assert source.far_ranges([(0, 10), (1 << 20, 2 << 20)]) is None  # everything is in memory
    assert source.far_ranges([(0, 10), places[0]]) is None
    assert len(server.seen) == 1
    assert source.far_ranges(places) is None
    assert server.seen[1].ranges == [places[0], places[-1]]
    assert source.holds(*places[0])
    assert not source.holds(*places[1])
    source.close()
    server.multipart = False
    with using(Policy(private=True, sample=7)):
        source = opened(url)
    assert source.far_ranges(places) == 7 - 3
    assert (source.usage.requests, source.holds(*places[-1])) == (3, True)
    source.close()


@pytest.mark.parametrize("wrong", [b"--sep", b"bytes 3", b"--sep--"])
def test_parts_that_are_wrong_are_not_taken(server: Server, url: str, wrong: bytes) -> None:
    """Each range is then asked for by itself, and checked."""

    class Broken(bytes):
        """Written as the body of an answer, with something else in the place of a few bytes."""

    def answer(handler: Handler, seen: Seen) -> None:
        write = handler.wfile.write
        handler.wfile.write = lambda data: write(data.replace(wrong, b"X" * len(wrong)))  # type: ignore[method-assign]
        handler.ranges(DATA, seen)
        handler.wfile.write = write  # type: ignore[method-assign]

    server.faults.append(once(2, answer))
    places = [(at, at + 32) for at in range(3 << 20, 4 << 20, 1 << 18)]
    source = opened(url)
    source.prefetch(places)
    assert [source.read(a, b - a) for a, b in places] == [DATA[a:b] for a, b in places]
    assert [len(seen.ranges) for seen in server.seen] == [1, 4, 1, 1, 1, 1]
    source.close()


def test_threads_share_a_source(url: str) -> None:
    source = opened(url)
    wrong: list[int] = []

    def work(number: int) -> None:
        draw = random.Random(number)
        for _ in range(10):
            start = draw.randrange(len(DATA) - 100)
            if source.read(start, 100) != DATA[start : start + 100]:
                wrong.append(start)

    threads = [threading.Thread(target=work, args=(n,)) for n in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert wrong == []
    source.close()


def test_an_empty_file(server: Server) -> None:
    server.files["/empty"] = b""
    source = opened(server.url + "/empty")
    assert source.size == 0
    source.close()
    with pytest.raises(FormatError, match="G001"):
        open_file(server.url + "/empty")


def test_a_pointer_of_git_lfs_is_recognised(server: Server) -> None:
    server.files["/raw/model.gguf"] = (
        b"version https://git-lfs.github.com/spec/v1\noid sha256:" + b"a" * 64 + b"\nsize 12\n"
    )
    with pytest.raises(FormatError, match="G003 lfs-pointer"):
        open_file(server.url + "/raw/model.gguf")


# --- invalid answers ---


def length_of(handler: Handler, seen: Seen) -> None:
    (start, stop), *_ = seen.ranges
    headers = {"Content-Range": f"bytes {start}-{stop - 1}/{len(DATA)}", "ETag": handler.server.etag}
    handler.answer(206, headers, DATA[start : stop - 1], stop - start)
    handler.close_connection = True


def whole(handler: Handler, seen: Seen) -> None:
    handler.answer(200, {"ETag": handler.server.etag}, DATA)


def changed(**headers: str) -> Callable[[Handler, Seen], None]:
    named = {name.replace("_", "-"): value for name, value in headers.items()}
    return lambda handler, seen: handler.ranges(DATA, seen, headers=named)


ANSWERS: dict[str, tuple[Callable[[Handler, Seen], None], str]] = {
    "200 for 206": (whole, "S918"),
    "short body": (length_of, "S918"),
    "another range": (changed(Content_Range=f"bytes 0-9/{len(DATA)}"), "S918"),
    "no range": (changed(Content_Range="bytes"), "S918"),
    "gzip": (changed(Content_Encoding="gzip"), "S918"),
    "204": (status(204), "S918"),
    "500": (status(500), "S915"),
    "403": (status(403), "S911"),
    "404": (status(404), "S912"),
    "a long header": (status(206, X_Long="a" * (1 << 16)), "S918"),
    "many headers": (status(206, **{f"X_{i}": "a" for i in range(101)}), "S918"),
    "endless": (endless, ""),
}


@pytest.mark.parametrize("first", [1, 2], ids=["at once", "later"])
@pytest.mark.parametrize("name", ANSWERS)
@pytest.mark.requirement("R12.4-4")
def test_wrong_answers_are_faults_unless_harmless(server: Server, url: str, name: str, first: int) -> None:
    answer, code = ANSWERS[name]
    server.faults.append(every(first, answer))
    if code:
        assert fault(url) == code
    else:  # no more bytes than requested
        source = opened(url)
        assert source.read(3 << 20, 10) == DATA[3 << 20 :][:10]
        assert source.usage.bytes <= FIRST + (1 << 13)
        source.close()


def test_headers_beyond_the_limit_are_asked_for_once(server: Server, url: str) -> None:
    server.faults.append(every(1, ANSWERS["a long header"][0]))
    with pytest.raises(FormatError, match="sends a header of more than 65,536 bytes"):
        opened(url)
    assert len(server.seen) == 1


def test_a_body_that_ends_early_once_is_asked_for_again(server: Server, url: str) -> None:
    server.faults.append(once(2, length_of))
    source = opened(url)
    assert source.read(3 << 20, 10) == DATA[3 << 20 :][:10]
    assert server.seen[2].ranges == [((3 << 20) + (1 << 12) - 1, (3 << 20) + (1 << 12))]
    source.close()


def other_size(handler: Handler, seen: Seen) -> None:
    handler.ranges(DATA + b"more", seen)


@pytest.mark.requirement("R12.4-4")
def test_a_file_that_changes_midway(server: Server, url: str) -> None:
    source = opened(url)
    server.etag = '"two"'  # If-Range no longer matches: the server sends the whole new file
    with pytest.raises(FormatError, match=r"S903.*was '.one.' and is '.two.'"):
        source.read(3 << 20, 10)
    source.close()
    server.faults.append(once(4, changed(ETag='"three"')))  # a server that ignores If-Range
    assert fault(url) == "S903"
    server.etag = ""
    server.faults[:] = [once(6, other_size)]
    assert fault(url) == "S903"
    server.faults[:] = [once(7, changed(Last_Modified="monday")), once(8, changed(Last_Modified="tuesday"))]
    assert fault(url) == "S903"


def test_if_range_is_only_sent_with_a_strong_tag(server: Server, url: str) -> None:
    server.etag = 'W/"one"'
    source = opened(url)
    source.read(3 << 20, 10)
    assert "If-Range" not in server.seen[1].headers
    source.close()


# --- redirects ---


def test_the_address_behind_a_redirect_is_asked_until_it_expires(server: Server, url: str) -> None:
    server.redirects["/link"] = "/f?Signature=1"
    source = opened(server.url + "/link")
    source.read(3 << 20, 10)
    assert [seen.path for seen in server.seen] == ["/link", "/f?Signature=1", "/f?Signature=1"]
    server.faults.append(once(4, status(403)))
    server.redirects["/link"] = "/f?Signature=2"
    assert source.read(4 << 20, 10) == DATA[4 << 20 :][:10]
    source.read((4 << 20) + (1 << 19), 10)
    assert [seen.path[-1] for seen in server.seen[3:]] == ["1", "k", "2", "2"]
    server.faults.append(every(8, status(403)))
    with pytest.raises(FormatError, match="S911"):
        source.read((4 << 20) + (1 << 18), 10)
    source.close()


@pytest.mark.parametrize(
    ("target", "reason"),
    [
        ("/loop", "circles"), ("ftp://example.org/x", "than a web server"), ("file:///etc/passwd", "than a web server"),
        ("http://[::1", "other than a web server"), ("//", "circles"), ("/a\x1bb", "cannot be printed"),
    ],
)  # fmt: skip
def test_redirects_that_are_not_followed(server: Server, target: str, reason: str) -> None:
    server.redirects["/loop"] = target
    with pytest.raises(FormatError, match=f"S916.*{reason}") as error:
        opened(server.url + "/loop")
    assert str(error.value).isprintable()


def test_redirects_are_bounded(server: Server) -> None:
    for number in range(30):
        server.redirects[f"/{number}"] = f"/{number + 1}"
    with pytest.raises(FormatError, match="S916"):
        opened(server.url + "/0")
    assert len(server.seen) < 12


@pytest.mark.parametrize("place", ["169.254.10.20", "[fe80::1]", "[::ffff:169.254.10.20]", "2851998228"])
def test_no_redirect_leads_to_a_link_local_address(server: Server, place: str) -> None:
    """Not even where private networks are allowed: there, clouds keep the secrets of a machine."""
    server.redirects["/out"] = f"http://{place}/f"
    with using(Policy(private=True)), pytest.raises(FormatError, match=r"S916.*link-local"):
        opened(server.url + "/out")
    require_public("169.254.10.20", "169.254.10.20", Policy(private=True))  # the user may name one


def test_a_redirect_to_a_private_network_is_refused(server: Server, url: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """The host that the address names is public; the one that it redirects to is not."""
    from i2s_spec.remote import transport

    real = transport.require_public

    def named(host: str, numeric: str, policy: Policy, redirected: bool) -> None:
        if host != "127.0.0.1":
            real(host, numeric, policy, redirected)

    monkeypatch.setattr(transport, "require_public", named)
    server.redirects["/out"] = server.other_url + "/f"
    with using(Policy()), pytest.raises(FormatError, match=r"S916.*localhost"):
        opened(server.url + "/out")
    assert [seen.path for seen in server.seen] == ["/out"]


def test_redirects_from_https_to_http_are_refused() -> None:
    asked = Transport(Policy(private=True))
    with pytest.raises(FormatError, match=r"S916.*plain HTTP"):
        asked._next("https://example.org/a", "http://example.org/b", set(), 1)
    asked.close()


# --- waiting, budgets ---


class Sleeps:
    """Time that is only counted."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self.seconds: list[float] = []
        monkeypatch.setattr(
            "i2s_spec.remote.transport.Transport._wait", lambda _, seconds: self.seconds.append(seconds)
        )


@pytest.mark.parametrize(
    ("headers", "seconds"),
    [
        ({"Retry-After": "7"}, 7.0), ({"RateLimit": '"resolvers";r=0;t=9'}, 9.0), ({}, 1.0),
        ({"Retry-After": "x", "RateLimit": '"api";r=3;t=9'}, 1.0), ({"Retry-After": "Mon, 01 Jan 2001 00:00:00 GMT"}, 0.0),
    ],
)  # fmt: skip
def test_a_limit_of_the_rate_is_waited_for(
    server: Server, url: str, headers: dict[str, str], seconds: float, monkeypatch: pytest.MonkeyPatch
) -> None:
    sleeps = Sleeps(monkeypatch)
    server.faults.append(once(1, lambda handler, seen: handler.answer(429, headers)))
    opened(url).close()
    assert sleeps.seconds == [seconds]


def test_waits_are_bounded(server: Server, url: str, monkeypatch: pytest.MonkeyPatch) -> None:
    sleeps = Sleeps(monkeypatch)
    server.faults.append(every(1, status(429)))
    with using(Policy(private=True, seconds=10_000)):
        assert fault(url) == "S913"
    assert sleeps.seconds == [1, 2, 4, 8, 16, 32]
    server.faults[:] = [every(1, status(429, Retry_After="100000"))]
    assert fault(url) == "S913"
    assert len(sleeps.seconds) == 6


def test_dates_to_wait_for() -> None:
    from email.utils import formatdate

    seconds = wait_of({"Retry-After": formatdate(time.time() + 100, usegmt=True)})
    assert seconds is not None
    assert 10 < seconds <= 100


def test_temporary_failures_are_retried(server: Server, url: str, monkeypatch: pytest.MonkeyPatch) -> None:
    Sleeps(monkeypatch)
    server.faults.append(once(1, status(502)))
    opened(url).close()
    assert len(server.seen) == 2


@pytest.mark.parametrize("slow", [1, 2], ids=["at once", "later"])
def test_a_slow_server_is_given_up(server: Server, url: str, slow: int) -> None:
    """It sends a byte now and then, so that no timeout of a socket is reached."""
    server.faults.append(every(slow, drip))
    start = time.monotonic()
    with using(Policy(private=True, timeout=100, seconds=1)):
        assert fault(url) == "S917"
    assert time.monotonic() - start < 90


def test_a_silent_server_is_given_up(server: Server, url: str, monkeypatch: pytest.MonkeyPatch) -> None:
    Sleeps(monkeypatch)
    silence = threading.Event()
    server.faults.append(every(1, lambda handler, seen: silence.wait(300) and None))
    with using(Policy(private=True, timeout=1, seconds=2)):
        assert fault(url) in ("S915", "S917")
    silence.set()


def test_budgets(server: Server, url: str) -> None:
    with using(Policy(private=True, bytes=FIRST + 100)):
        assert fault(url) == "S917"
    with using(Policy(private=True, requests=1)):
        assert fault(url) == "S917"
    assert len(server.seen) == 3


def test_unreachable_servers_are_reported(monkeypatch: pytest.MonkeyPatch) -> None:
    looked_up = socket.getaddrinfo

    def resolved(host: str, *args: Any, **more: Any) -> Any:
        """Simulates a name that does not resolve; in a real network, the time and the answer vary."""
        if host == "name.invalid":
            raise socket.gaierror(socket.EAI_NONAME, "Name or service not known")
        return looked_up(host, *args, **more)

    monkeypatch.setattr(socket, "getaddrinfo", resolved)
    with socket.socket() as silent:  # the port is reserved, but nothing listens on it
        silent.bind(("127.0.0.1", 0))
        assert fault(f"http://127.0.0.1:{silent.getsockname()[1]}/f") == "S915"
    assert fault("http://name.invalid/f") == "S915"


def test_connections_are_closed(url: str) -> None:
    import gc
    import warnings

    gc.collect()  # garbage of earlier tests
    descriptors = set(Path("/proc/self/fd").iterdir()) if Path("/proc/self/fd").exists() else set()
    opened(url).close()
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        gc.collect()
    if descriptors:
        deadline = time.monotonic() + 60  # a separate thread closes the server's end of the connection
        while len(left := set(Path("/proc/self/fd").iterdir())) > len(descriptors) and time.monotonic() < deadline:
            time.sleep(0.01)
        assert len(left) <= len(descriptors)
