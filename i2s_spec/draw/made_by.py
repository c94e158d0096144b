"""This module says what made a page: the program, its version, when, and by which command."""

from __future__ import annotations

import os
import re
from datetime import UTC, datetime
from html import escape

from i2s_spec._version import __version__
from i2s_spec.draw.text import visible

#: Characters of a command that are shown.
COMMAND = 400

#: Seconds up to the year 5138.
_SECONDS = re.compile(r"[0-9]{1,11}")


def made_at() -> datetime:
    """The current time, or that of the environment variable `SOURCE_DATE_EPOCH`, so that equal input gives equal pages."""
    given = os.environ.get("SOURCE_DATE_EPOCH", "")
    return datetime.fromtimestamp(int(given), UTC) if _SECONDS.fullmatch(given) else datetime.now(UTC)


def made_by(command: str = "") -> str:
    """The sentence as HTML; the command is escaped, and left out if it is empty.

    :param command: the command as it was typed
    """
    when = made_at().strftime("%Y-%m-%d %H:%M UTC")
    by = f": <code>{escape(visible(command, COMMAND, bare=True))}</code>" if command else ""
    return f"made by i2s-spec {escape(__version__)}, {when}{by}"
