"""A Dask cluster of processes of this machine, which only this process can use.

Loopback has no owner: every user of a machine can connect to its ports, and a Dask scheduler runs any code that is sent
to it. So scheduler and workers speak TLS with a certificate that exists only in the memory of these processes, and none
of them opens an HTTP server, which Dask does without asking.
"""

from __future__ import annotations

import logging
from typing import Any

from distributed import Nanny, Scheduler, Security, SpecCluster, Worker

HOST = "127.0.0.1"


class _NoHTTP:
    """A node that is reached over its own protocol only."""

    def start_http_server(self, *args: Any, **keywords: Any) -> None:
        """Start no HTTP server."""


class _Scheduler(_NoHTTP, Scheduler):  # type: ignore[misc]
    """A scheduler without an HTTP server."""


class _Worker(_NoHTTP, Worker):  # type: ignore[misc]
    """A worker without an HTTP server."""


class _Nanny(Nanny):  # type: ignore[misc]
    """The parent of a worker; it replaces one that dies."""

    def __init__(self, *args: Any, **keywords: Any) -> None:
        super().__init__(*args, worker_class=_Worker, **keywords)


def local_cluster(workers: int) -> SpecCluster:
    """Return a cluster with so many worker processes of one thread each; as a context manager it ends with the block.

    :raises RuntimeError: if a worker ends while it starts
    """
    security = Security.temporary()
    both = {"host": HOST, "protocol": "tls://", "security": security}
    worker = {"cls": _Nanny, "options": {**both, "nthreads": 1, "silence_logs": logging.CRITICAL}}
    return SpecCluster(
        scheduler={"cls": _Scheduler, "options": {**both, "port": 0, "dashboard": False}},
        workers=dict.fromkeys(range(workers), worker),
        worker=worker,
        security=security,
        silence_logs=logging.CRITICAL,
    )
