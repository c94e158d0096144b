"""This module is the inside of a worker process: it answers each item that comes in with the result of one function.

Messages are pickles with their length before them, between a process and its own children only.
"""

from __future__ import annotations

import os
import pickle
import signal
import struct
from typing import Any

_LENGTH = struct.Struct("<Q")


def send(pipe: int, value: Any) -> None:
    """Write one message."""
    data = pickle.dumps(value, pickle.HIGHEST_PROTOCOL)
    left = memoryview(_LENGTH.pack(len(data)) + data)
    while left:
        left = left[os.write(pipe, left) :]


def receive(pipe: int) -> Any:
    """Read one message, and not a byte more: whoever waits for the next one waits on the pipe itself.

    :raises EOFError: where the other side has gone
    """
    return pickle.loads(_exactly(pipe, _LENGTH.unpack(_exactly(pipe, _LENGTH.size))[0]))


def _exactly(pipe: int, length: int) -> bytearray:
    data = bytearray()
    while len(data) < length:
        more = os.read(pipe, min(length - len(data), 1 << 20))
        if not more:
            raise EOFError
        data += more
    return data


def main() -> None:
    """Answer items until the pipe is closed. Whatever is printed meanwhile goes to stderr, not among the answers."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # Ctrl-C is for the parent, which ends its workers
    # Before NumPy is imported: the threads that its matrix products start in every worker would wait for each other.
    os.environ.setdefault("OPENBLAS_NUM_THREADS", "1")
    items, answers = os.dup(0), os.dup(1)
    os.dup2(2, 1)
    os.dup2(os.open(os.devnull, os.O_RDONLY), 0)
    try:
        function = receive(items)
        while True:
            send(answers, function(receive(items)))
    except (EOFError, BrokenPipeError):
        os._exit(0)  # the parent has gone, or needs no more
