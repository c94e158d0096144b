"""Functions that tests run in workers, in a separate module: a worker imports it without importing pytest."""

from __future__ import annotations

import os
import signal
import sys
import time
from typing import Any

from i2s_spec.linter.options import Options
from i2s_spec.linter.paths import Input, lint_path


def doubled(item: int) -> int:
    return 2 * item


def slow_first(item: int) -> int:
    time.sleep(0.3 if item == 0 else 0)
    return item


def deadly(item: int) -> int:
    if item % 7 == 3:
        os.kill(os.getpid(), signal.SIGKILL)
    if item % 7 == 5:
        os._exit(9)
    return item


def stuck(item: int) -> int:
    time.sleep(0 if item == 0 else 86400)
    return item


def interrupted(item: int) -> int:
    os.kill(os.getpid(), signal.SIGINT)
    time.sleep(0.01)
    return item


def talkative(item: int) -> int:
    print("printed among the answers", file=sys.stdout, flush=True)
    return item


def large(item: int) -> bytes:
    return bytes(item)


def dies_at_dup(file: Input, options: Options, folders: object = None) -> dict[str, Any]:
    if "dup" in file.path:
        os.kill(os.getpid(), signal.SIGKILL)
    return lint_path(file.path, options)


def killing_details(subject: Any) -> None:
    """A `details` of options that kills the process at a file of a certain name."""
    if "deadly" in subject.path:
        os.kill(os.getpid(), signal.SIGKILL)
