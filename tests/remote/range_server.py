"""A local web server with range requests and faults on demand, and a hub based on it.

Every request is recorded. A fault is a function of the handler that answers instead of it, or returns None to let it
answer.
"""

from __future__ import annotations

import json
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any, NamedTuple
from urllib.parse import unquote, urlsplit


class Seen(NamedTuple):
    """A request that came."""

    path: str
    headers: dict[str, str]

    @property
    def ranges(self) -> list[tuple[int, int]]:
        spans = self.headers.get("Range", "bytes=").removeprefix("bytes=").split(",")
        return [(int(a), int(b) + 1) for a, _, b in (span.partition("-") for span in spans if span)]


class Handler(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"
    server: Server

    def do_GET(self) -> None:
        server = self.server
        path = unquote(urlsplit(self.path).path)
        seen = Seen(self.path, dict(self.headers.items()))
        with server.counting:
            server.seen.append(seen)
            self.number = len(server.seen)
        for fault in server.faults:
            if fault(self, seen):
                return
        if path in server.redirects:
            self.answer(302, {"Location": server.redirects[path], **server.extra.get(path, {})})
        elif path in server.files:
            self.ranges(server.files[path], seen)
        else:
            self.answer(404, server.extra.get("404", {}))

    def answer(
        self, status: int, headers: dict[str, str] | None = None, body: bytes = b"", length: int | None = None
    ) -> None:
        self.send_response(status)
        for name, value in (headers or {}).items():
            self.send_header(name, value)
        self.send_header("Content-Length", str(len(body) if length is None else length))
        self.end_headers()
        self.wfile.write(body)

    def ranges(self, file: Any, seen: Seen, **changed: Any) -> None:
        """Answer as a good server does, but for what is changed."""
        size = len(file)
        headers = {"ETag": self.server.etag, "Content-Type": "application/octet-stream", **changed.get("headers", {})}
        if "If-Range" in seen.headers and seen.headers["If-Range"] != headers["ETag"]:
            return self.answer(200, headers, file[:100], size)
        if size == 0:
            return self.answer(416, {**headers, "Content-Range": "bytes */0"})
        spans = [(a, min(b, size)) for a, b in seen.ranges]
        if len(spans) == 1 or not self.server.multipart:
            start, stop = spans[0]
            headers.setdefault("Content-Range", f"bytes {start}-{stop - 1}/{size}")
            return self.answer(206, headers, file[start:stop])
        parts = b""
        for start, stop in spans:
            head = f"\r\n--sep\r\nContent-Type: a/b\r\nContent-Range: bytes {start}-{stop - 1}/{size}\r\n\r\n"
            parts += head.encode() + file[start:stop]
        headers["Content-Type"] = "multipart/byteranges; boundary=sep"
        return self.answer(206, headers, parts + b"\r\n--sep--\r\n")

    def log_message(self, *args: Any) -> None:
        pass


Fault = Callable[[Handler, Seen], bool]


class Server(ThreadingHTTPServer):
    """Files by their path; `etag` is that of all of them."""

    daemon_threads = True
    block_on_close = False

    def __init__(self) -> None:
        super().__init__(("127.0.0.1", 0), Handler)
        self.files: dict[str, Any] = {}
        self.redirects: dict[str, str] = {}
        self.extra: dict[str, dict[str, str]] = {}
        self.faults: list[Fault] = []
        self.seen: list[Seen] = []
        self.counting = threading.Lock()
        self.etag = '"one"'
        self.multipart = True
        self.connections = 0

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self.server_address[1]}"

    @property
    def other_url(self) -> str:
        """The same server under the name of another host."""
        return f"http://localhost:{self.server_address[1]}"

    def process_request(self, *args: Any) -> None:
        self.connections += 1
        super().process_request(*args)

    def handle_error(self, *args: Any) -> None:
        """A client that goes away is no error here."""

    def repository(self, name: str, files: dict[str, Any], commit: str = "c" * 40) -> None:
        """Be a hub with a repository whose files are given out under another host's name, at signed addresses."""
        siblings = [{"rfilename": file} for file in files]
        description = json.dumps({"sha": commit, "siblings": siblings}).encode()
        for revision in ("main", commit):
            self.files[f"/api/models/{name}/revision/{revision}"] = description
        for file, data in files.items():
            self.files[f"/cdn/{name}/{file}"] = data
            for revision in ("main", commit):
                path = f"/{name}/resolve/{revision}/{file}"
                self.redirects[path] = f"{self.other_url}/cdn/{name}/{file}?Signature=s3cret"
                self.extra[path] = {"X-Repo-Commit": commit, "X-Linked-Etag": self.etag}
        self.faults.append(_whole_descriptions)


def _whole_descriptions(handler: Handler, seen: Seen) -> bool:
    path = unquote(urlsplit(seen.path).path)
    if not path.startswith("/api/") or path not in handler.server.files:
        return False
    handler.answer(200, {"Content-Type": "application/json"}, handler.server.files[path])
    return True


@contextmanager
def serving() -> Iterator[Server]:
    server = Server()
    thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.01}, daemon=True)
    thread.start()
    try:
        yield server
    finally:
        server.shutdown()
        server.server_close()
        thread.join()


class Zeros:
    """A file of any size, of zeros but for its parts: `len` and slices are all that the server asks of one."""

    def __init__(self, size: int, parts: dict[int, bytes]) -> None:
        self.size = size
        self.parts = parts

    def __len__(self) -> int:
        return self.size

    def __getitem__(self, span: slice) -> bytes:
        start, stop, _ = span.indices(self.size)
        data = bytearray(stop - start)
        for place, part in self.parts.items():
            a, b = max(start, place), min(stop, place + len(part))
            if a < b:
                data[a - start : b - start] = part[a - place : b - place]
        return bytes(data)


# --- faults ---


def every(number: int, answer: Callable[[Handler, Seen], None]) -> Fault:
    """From the request of that number on, answer like this."""

    def fault(handler: Handler, seen: Seen) -> bool:
        if handler.number < number:
            return False
        answer(handler, seen)
        return True

    return fault


def once(number: int, answer: Callable[[Handler, Seen], None]) -> Fault:
    """Answer the request of that number like this."""

    def fault(handler: Handler, seen: Seen) -> bool:
        if handler.number != number:
            return False
        answer(handler, seen)
        return True

    return fault


def status(code: int, **headers: str) -> Callable[[Handler, Seen], None]:
    return lambda handler, seen: handler.answer(
        code, {name.replace("_", "-"): value for name, value in headers.items()}
    )


def drip(handler: Handler, seen: Seen) -> None:
    """Headers, a byte at a time, until the client disconnects."""
    try:
        handler.wfile.write(b"HTTP/1.1 206 Partial Content\r\nX-Slow: ")
        while True:
            handler.wfile.write(b"a")
            handler.wfile.flush()
            time.sleep(0.02)
    except OSError:
        handler.close_connection = True


def endless(handler: Handler, seen: Seen) -> None:
    """A body in chunks that does not end."""
    (start, stop), *_ = seen.ranges
    file = handler.server.files[unquote(urlsplit(seen.path).path)]
    stop = min(stop, len(file))
    handler.send_response(206)
    handler.send_header("Content-Range", f"bytes {start}-{stop - 1}/{len(file)}")
    handler.send_header("ETag", handler.server.etag)
    handler.send_header("Transfer-Encoding", "chunked")
    handler.end_headers()
    try:
        data = file[start:stop]
        while True:
            handler.wfile.write(b"%x\r\n%b\r\n" % (len(data), data))
    except OSError:
        handler.close_connection = True
