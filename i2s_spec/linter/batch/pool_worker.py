"""This module runs in a worker process: it answers each item with the result of one function.

Messages are pickles with their length before them; they pass only between a process and its own children.
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
    """Read one message and not a byte more: the parent waits for the next message on the pipe itself.

    :raises EOFError: if the other side has ended
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
    """Answer items until the pipe is closed. Printed output goes to stderr, so that it does not mix with the answers."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # the parent handles Ctrl-C and ends its workers
    # Set before NumPy is imported: threads of matrix products in several workers would compete for the processors.
    os.environ.setdefault("OPENBLAS_NUM_THREADS", "1")
    items, answers = os.dup(0), os.dup(1)
    os.dup2(2, 1)
    os.dup2(os.open(os.devnull, os.O_RDONLY), 0)
    try:
        function = receive(items)
        while True:
            send(answers, function(receive(items)))
    except (EOFError, BrokenPipeError):
        os._exit(0)  # the parent has ended, or needs no more answers
