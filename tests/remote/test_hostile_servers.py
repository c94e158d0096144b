"""Servers that violate HTTP: each request ends within its limits, with one sentence or with exactly the file's bytes."""

from __future__ import annotations

import gzip
import socket
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from itertools import count

import pytest

from i2s_spec.errors import FormatError
from i2s_spec.remote.http_source import FIRST
from i2s_spec.remote.open import open_remote
from i2s_spec.remote.policy import Policy, using

DATA = bytes(range(256)) * (3 << 12)

#: Ranges read after the first answer: alone, and as several.
LATER = (FIRST + 4096, FIRST + 4196)

#: Seconds allowed for a file, and extra seconds for a slow test machine.
SECONDS, MORE = 2, 6

#: Sends bytes, and returns whether the client is still connected.
Send = Callable[[bytes], bool]

#: Answers a request: its number from 1, the first and last byte requested, and the function that sends.
Answer = Callable[[int, int, int, Send], None]


def head(first: int, last: int, *more: str, status: str = "206 Partial Content", length: int | None = -1) -> bytes:
    """Status and headers of a good answer, and others behind them."""
    lines = [f"HTTP/1.1 {status}", f"Content-Range: bytes {first}-{last}/{len(DATA)}", *more]
    if length is not None:
        lines.append(f"Content-Length: {last - first + 1 if length < 0 else length}")
    return "\r\n".join([*lines, "", ""]).encode("latin-1")


def good(number: int, first: int, last: int, send: Send) -> None:
    send(head(first, last, 'ETag: "one"') + DATA[first : last + 1])


def first_good(answer: Answer) -> Answer:
    """A server that is good until the file is open."""
    return lambda number, first, last, send: (good if number == 1 else answer)(number, first, last, send)


def plain(*more: str, status: str = "206 Partial Content", body: bytes | None = None) -> Answer:
    """A good answer with other headers, another status, or another body."""

    def answer(number: int, first: int, last: int, send: Send) -> None:
        data = DATA[first : last + 1] if body is None else body
        send(head(first, last, *more, status=status, length=len(data)) + data)

    return answer


def location(target: str) -> Answer:
    return lambda number, first, last, send: (
        send(f"HTTP/1.1 302 Found\r\nLocation: {target}\r\nContent-Length: 0\r\n\r\n".encode("latin-1")) and None
    )


def redirect_chain(number: int, first: int, last: int, send: Send) -> None:
    """Every hop leads to another place, each with a cookie."""
    send(f"HTTP/1.1 307 Go\r\nLocation: /f?{number}\r\nSet-Cookie: a={number}\r\nContent-Length: 0\r\n\r\n".encode())


def forever(begin: bytes, piece: bytes, pause: float = 0.0) -> Answer:
    """A beginning, then one piece after another until the client disconnects."""

    def answer(number: int, first: int, last: int, send: Send) -> None:
        heard = send(begin.replace(b"FIRST", b"%d" % first).replace(b"LAST", b"%d" % last))
        while heard:
            heard = send(piece)
            time.sleep(pause)

    return answer


_RANGE = b"HTTP/1.1 206 Partial Content\r\nContent-Range: bytes FIRST-LAST/%d\r\n" % len(DATA)
_PARTS = b"HTTP/1.1 206 P\r\nContent-Type: multipart/byteranges; boundary=b\r\nTransfer-Encoding: chunked\r\n\r\n"


def other_total(number: int, first: int, last: int, send: Send) -> None:
    send(head(first, last).replace(b"/%d" % len(DATA), b"/%d" % (len(DATA) + number)) + DATA[first : last + 1])


def zipped(number: int, first: int, last: int, send: Send) -> None:
    data = gzip.compress(DATA[first : last + 1])
    send(head(first, last, "Content-Encoding: gzip", length=len(data)) + data)


def until_closed(number: int, first: int, last: int, send: Send) -> None:
    """HTTP/1.0 without a length: the body ends where the connection does."""
    send(head(first, last, length=None).replace(b"HTTP/1.1", b"HTTP/1.0") + DATA[first : last + 1])


def interim(number: int, first: int, last: int, send: Send) -> None:
    """A few answers of 103 before the one that counts."""
    send(b"HTTP/1.1 103 Early Hints\r\nLink: </a>\r\n\r\n" * 3)
    good(number, first, last, send)


def endless_chunks(number: int, first: int, last: int, send: Send) -> None:
    """The range in one chunk, and chunks behind it."""
    begin = head(first, last, "Transfer-Encoding: chunked", length=None) + b"%x\r\n" % (last + 1 - first)
    forever(begin + DATA[first : last + 1] + b"\r\n", b"1\r\na\r\n")(number, first, last, send)


def two_lengths(number: int, first: int, last: int, send: Send) -> None:
    send(head(first, last, "Content-Length: 7") + DATA[first : last + 1])


def split_chunk(number: int, first: int, last: int, send: Send) -> None:
    """A length of a chunk that no number can hold."""
    send(head(first, last, "Transfer-Encoding: chunked", length=None) + b"f" * 40 + b"\r\nabc\r\n0\r\n\r\n")


@contextmanager
def serving(answer: Answer) -> Iterator[str]:
    """A server on this machine that answers every request like this."""
    listening = socket.create_server(("127.0.0.1", 0))
    numbers, lock = count(1), threading.Lock()

    def serve(connection: socket.socket) -> None:
        with connection, suppress(OSError):
            connection.settimeout(20)
            data = b""
            while b"\r\n\r\n" not in data:
                if not (part := connection.recv(1 << 16)):
                    return
                data += part
            spans = data.partition(b"bytes=")[2].partition(b"\r\n")[0].split(b",")
            first, last = map(int, spans[0].split(b"-"))
            with lock:
                number = next(numbers)
            answer(number, first, min(last, len(DATA) - 1), lambda more: connection.sendall(more) is None)

    def accept() -> None:
        with suppress(OSError):
            while True:
                threading.Thread(target=serve, args=(listening.accept()[0],), daemon=True).start()

    threading.Thread(target=accept, daemon=True).start()
    try:
        yield f"http://127.0.0.1:{listening.getsockname()[1]}/f"
    finally:
        listening.shutdown(socket.SHUT_RDWR)
        listening.close()


#: Servers by behavior, with the codes that must end the reading; no codes if the bytes are accepted.
HOSTILE: dict[str, tuple[Answer, set[str]]] = {
    "redirect to a file": (location("file:///etc/passwd"), {"S916"}),
    "redirect to data": (location("data:text/plain,GGUF"), {"S916"}),
    "redirect to another port by IPv6": (location("http://[::1]:1/f"), {"S915"}),
    "redirect to a broken IPv6 address": (location("http://[::1/f"), {"S916"}),
    "redirect to IPv4 in IPv6": (location("http://[::ffff:127.0.0.1]:1/f"), {"S915"}),
    "redirect with a name and a password": (location("http://a:b@127.0.0.1:1/f"), {"S915"}),
    "redirect to a port out of range": (location("http://127.0.0.1:99999/f"), {"S916"}),
    "redirect to an escape sequence": (location("http://127.0.0.1/\x1b[2J"), {"S916"}),
    "redirects without end, with cookies": (redirect_chain, {"S916"}),
    "a header of a megabyte": (plain("X-Long: " + "a" * (1 << 20)), {"S918"}),
    "a thousand headers": (plain(*(f"X-{number}: a" for number in range(1000))), {"S918"}),
    "headers without end": (forever(b"HTTP/1.1 206 P\r\n", b"X: a\r\n"), {"S918"}),
    "a header that drips": (forever(b"HTTP/1.1 206 P\r\nX: ", b"a", 0.2), {"S917"}),
    "a hundred times continue": (forever(b"", b"HTTP/1.1 100 C\r\n\r\n" * 100), {"S915"}),
    "interim answers": (interim, set()),
    "interim answers without end": (forever(b"", b"HTTP/1.1 103 E\r\n\r\n" * 99), {"S915"}),
    "chunks without end": (endless_chunks, set()),
    "chunks that drip": (forever(_RANGE + b"Transfer-Encoding: chunked\r\n\r\n", b"1\r\na\r\n", 0.2), {"S917"}),
    "a chunk of a length without end": (split_chunk, {"S915", "S918"}),
    "parts without end": (first_good(forever(_PARTS, b"4\r\n\r\n--\r\n")), {"S915", "S918", "S917"}),
    "parts of 206 for one range": (plain("Content-Type: multipart/byteranges; boundary=b", body=b"--b--"), {"S918"}),
    "another total midway": (first_good(other_total), {"S903"}),
    "a compressed range": (first_good(zipped), {"S918"}),
    "a body without a length": (until_closed, set()),
    "two lengths": (two_lengths, {"S915", "S918"}),
    "a weak tag in place of the strong one": (first_good(plain('ETag: W/"one"')), {"S903"}),
    "another tag midway": (first_good(plain('ETag: "two"')), {"S903"}),
    "416 midway": (first_good(plain(status="416 Range Not Satisfiable", body=b"")), {"S903"}),
    "no HTTP": (forever(b"", b"\0" * 4096), {"S918"}),
    "a status that is not a number": (plain(status="2O6 Partial"), {"S915"}),
    "204 without content": (plain(status="204 No Content", body=b""), {"S918"}),
    "switching protocols": (plain("Upgrade: h2c", status="101 Switching Protocols", body=b""), {"S915", "S918"}),
}  # fmt: skip


@pytest.mark.parametrize("name", HOSTILE)
def test_requests_to_servers_that_violate_http_end(name: str) -> None:
    answer, codes = HOSTILE[name]
    begin, met, said = time.monotonic(), "", "nothing"
    with serving(answer) as url, using(Policy(private=True, timeout=SECONDS, seconds=SECONDS)):
        try:
            source = open_remote(url)
            try:
                source.expect([LATER, (LATER[1] + 9000, LATER[1] + 9001)])
                assert source.read(LATER[0], 100) == DATA[LATER[0] : LATER[1]]
            finally:
                source.close()
        except FormatError as error:
            met, said = error.code, error.message
    assert said.isprintable()
    assert len(said) < 400
    assert time.monotonic() - begin < SECONDS + MORE
    assert (met in codes) if codes else not met, met
