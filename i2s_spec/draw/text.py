r"""Values as text: untrusted text escaped, numbers, sizes and faults in words, JSON, and hex dumps.

    >>> print(visible("\x1b]52;c;...\x07"))
    '\x1b]52;c;...\x07'
    >>> size_words(1_187_801_280), count_words(2_412_820_480)
    ('1.11 GiB', '2.41 B')

`report_footer` is the footer of a page; `rows` draws bytes:

    >>> for row in rows(b"GGUF\x03", 0x1e, 8): print(f"{row.address:04x}  {row.hex}  |{row.ascii}|")
    0018                    47 47  |      GG|
    0020  55 46 03                 |UF.     |
"""

from __future__ import annotations

import os
import re
import struct
from collections.abc import Iterator, Mapping
from datetime import UTC, datetime
from math import isfinite
from typing import Any, Final, NamedTuple, TextIO

from i2s_spec._version import __version__
from i2s_spec.errors import FormatError, counted, quote

#: Characters that Python calls printable although they are invisible: they could hide text.
_INVISIBLE: Final = "[\u034f\u115f\u1160\u17b4\u17b5\u180b-\u180f\u2800\u3164\ufe00-\ufe0f\uffa0\U000e0100-\U000e01ef]"

_ELLIPSIS: Final = "…"


def visible(text: str | bytes, limit: int = 60, bare: bool = False) -> str:
    """Untrusted text as one line in which every character is visible: `errors.quote`, with invisible ones escaped, too.

    :param limit: longest text that is shown whole, in characters; the rest of a longer one is counted
    :param bare: without quotation marks
    """
    if isinstance(text, bytes) and len(text) <= 4 * limit:
        text = text.decode("utf-8", "surrogateescape")
    shown = quote(text, limit, bare)
    return shown if shown.isascii() else re.sub(_INVISIBLE, lambda match: f"\\u{ord(match[0]):04x}", shown)


def encodable(text: str, stream: TextIO) -> str:
    """Return a text as a stream can encode it: a character that it cannot is written as its number."""
    if text.isascii():
        return text
    encoding = getattr(stream, "encoding", None) or "utf-8"
    return text.encode(encoding, "backslashreplace").decode(encoding)


def xml_text(text: str) -> str:
    """Escape text for an element or an attribute of XML or HTML, in ASCII; what XML 1.0 cannot hold becomes U+FFFD."""
    from html import escape

    allowed = re.sub("[^\t\n\r\x20-\ud7ff\ue000-\ufffd\U00010000-\U0010ffff]", "\ufffd", text)
    return escape(allowed).encode("ascii", "xmlcharrefreplace").decode("ascii")


def width(text: str) -> int:
    """Return the width of a text on a terminal, in columns: two for wide characters, none for combining marks."""
    if text.isascii():
        return len(text)
    import unicodedata

    return sum(
        0 if unicodedata.category(char) in ("Mn", "Me") else 2 if unicodedata.east_asian_width(char) in "WF" else 1
        for char in text
    )


def cut(text: str, columns: int, middle: bool = False) -> str:
    """Return a text cut to a number of columns: a longer text loses its end, or its middle."""
    if width(text) <= columns:
        return text
    if middle:
        tail = (columns - 1) // 2
        return _fitting(text, columns - 1 - tail) + _ELLIPSIS + _fitting(text[::-1], tail)[::-1]
    return _fitting(text, columns - 1) + _ELLIPSIS


def _fitting(text: str, columns: int) -> str:
    """As many characters from the start of a text as fit into a number of columns."""
    taken = 0
    for i, char in enumerate(text):
        taken += width(char)
        if taken > columns:
            return text[:i]
    return text


def size_words(size: int) -> str:
    """Return a size in a suitable unit: `101 bytes`, `468.4 KiB`, `1.11 GiB`."""
    if size < 1024:
        return counted(size, "byte")
    return _scaled(size, 1024, ("KiB", "MiB", "GiB", "TiB", "PiB", "EiB"))


def exact_size_words(size: int) -> str:
    """Return a size in bytes, and in a suitable unit if that is another: `864 bytes`, `479,642 bytes (468.4 KiB)`."""
    return f"{counted(size, 'byte')} ({size_words(size)})" if size >= 1024 else size_words(size)


def count_words(count: int) -> str:
    """Return a large count in a suitable unit: `940`, `335 K`, `2.41 B`."""
    return str(count) if count < 1000 else _scaled(count, 1000, ("K", "M", "B", "T", "P", "E"))


def _scaled(number: int, base: int, units: tuple[str, ...]) -> str:
    step = 1
    while step < len(units) and number >= base ** (step + 1):
        step += 1
    value = number / base**step
    digits = 2 if value < 10 else 1 if value < 100 or base == 1024 else 0
    return f"{value:.{digits}f} {units[step - 1]}"


def float32_words(value: float) -> str:
    """Return a float32 with the fewest digits that distinguish it from its neighbors."""
    if not isfinite(value):
        return str(float(value))
    for digits in range(6, 10):
        shown = f"{value:.{digits}g}"
        try:
            if struct.pack("<f", float(shown)) == struct.pack("<f", value):
                return shown if any(c in shown for c in ".en") else f"{shown}.0"
        except OverflowError:  # rounded beyond the largest float32: one more digit is needed
            continue
    return repr(float(value))


def fault_words(error: FormatError) -> str:
    """Return a fault in one sentence, with its code and, if it is about bytes of the file, their span."""
    where = f" at {error.span}" if error.span.stop > error.span.start else ""
    return f"{error.code} {error.fault.slug}{where}: {error.message}"


def json_text(value: Any) -> str:
    """Strict JSON on one line of printable ASCII; numbers that JSON lacks become the strings NaN, Infinity, -Infinity.

    Integers beyond 2^53 are there as text too (`with_exact`).
    """
    import json

    try:
        text = json.dumps(value, allow_nan=False)
    except ValueError:
        value = _strict(value)
        text = json.dumps(value, allow_nan=False)
    return json.dumps(with_exact(value), allow_nan=False) if _MANY_DIGITS.search(text) else text


#: As many digits as 2^53 has.
_MANY_DIGITS: Final = re.compile(r"\d{16}")


def with_exact(value: Any) -> Any:
    """Plain data in which each integer beyond 2^53 has its text beside it: many readers of JSON round such numbers.

    The text is a member `exact` beside `value`, and `NAME_exact` beside any other; that of a list is a list.

    >>> with_exact({"value": 2**63 + 1, "ne": [3, 2**60]})
    {'value': 9223372036854775809, 'exact': '9223372036854775809', 'ne': [3, 1152921504606846976], \
'ne_exact': [None, '1152921504606846976']}
    """
    if isinstance(value, list | tuple):
        return [with_exact(item) for item in value]
    if not isinstance(value, Mapping):
        return value
    found = {}
    for name, member in value.items():
        found[name] = with_exact(member)
        if _is_large(member):
            found["exact" if name == "value" else f"{name}_exact"] = _exact(member)
    return found


def _is_large(value: Any) -> bool:
    if isinstance(value, list | tuple):
        return any(map(_is_large, value))
    return isinstance(value, int) and abs(value) > 1 << 53


def _exact(value: Any) -> Any:
    if isinstance(value, list | tuple):
        return [_exact(item) for item in value]
    return str(value) if _is_large(value) else None


def json_document(members: Mapping[str, Any]) -> Iterator[str]:
    """Yield the lines of a JSON object: a line for each member, and for each item of a list; a list may be an
    iterator.
    """
    opening = "{"
    for name, value in _with_exact_members(members):
        start = f"{opening}\n  {json_text(name)}: "
        opening = ","
        if not isinstance(value, list | Iterator):
            yield start + json_text(value)
            continue
        before = start + "["
        for item in value:
            yield f"{before}\n    {json_text(item)}"
            before = ","
        yield start + "[]" if before != "," else "\n  ]"
    yield "\n}\n" if members else "{}\n"


def _with_exact_members(members: Mapping[str, Any]) -> Iterator[tuple[str, Any]]:
    for name, value in members.items():
        yield name, value
        if isinstance(value, int) and _is_large(value):
            yield f"{name}_exact", _exact(value)


def json_string(text: bytes | str) -> Any:
    """Text for JSON: a string, or `{"hex": ...}` where the bytes are not UTF-8."""
    data = text if isinstance(text, bytes) else text.encode("utf-8", "surrogateescape")
    try:
        return data.decode("utf-8")
    except UnicodeDecodeError:
        return {"hex": data.hex()}


def _strict(value: Any) -> Any:
    if isinstance(value, float) and not isfinite(value):
        return "Infinity" if value > 0 else "-Infinity" if value < 0 else "NaN"
    if isinstance(value, dict):
        return {name: _strict(item) for name, item in value.items()}
    if isinstance(value, list | tuple):
        return [_strict(item) for item in value]
    return value


# --- made by ---------------------------------------------------------------------------------------------------------
# The program that made a page, its version, when, and by which command.

#: Characters of a command that are shown.
COMMAND = 400

#: Seconds up to the year 5138.
_SECONDS: Final = r"[0-9]{1,11}"


def made_at() -> datetime:
    """Return the current time, or that of the environment variable `SOURCE_DATE_EPOCH`, so that equal input gives
    equal pages.
    """
    given = os.environ.get("SOURCE_DATE_EPOCH", "")
    return datetime.fromtimestamp(int(given), UTC) if re.fullmatch(_SECONDS, given) else datetime.now(UTC)


def report_footer(command: str = "") -> str:
    """Return the footer of a page as HTML: program, version, time, and the command if there is one.

    :param command: the command as it was typed
    """
    from html import escape

    when = made_at().strftime("%Y-%m-%d %H:%M UTC")
    by = f": <code>{escape(visible(command, COMMAND, bare=True))}</code>" if command else ""
    return f"made by i2s-spec {escape(__version__)}, {when}{by}"


# --- hexdump ---------------------------------------------------------------------------------------------------------
# Rows of hex and ASCII, in which a byte is always in the column of its address.
#
# Rows begin at multiples of their width; columns of other bytes stay empty, so that the rows of neighboring fields are
# aligned.


class HexRow(NamedTuple):
    """One row: the address of its first column, hex and ASCII of full width, and which columns are filled."""

    address: int
    hex: str
    ascii: str
    first: int
    last: int


def rows(data: bytes, start: int, width: int = 16) -> Iterator[HexRow]:
    """Yield the rows of bytes from `start` on.

    :param width: bytes in a row
    """
    stop = start + len(data)
    for address in range(start // width * width, stop if data else 0, width):
        first, last = max(start - address, 0), min(stop - address, width)
        part = data[address + first - start : address + last - start]
        before, after = first, width - last
        shown = "   " * before + part.hex(" ") + "   " * after
        yield HexRow(address, shown, " " * before + ascii_of(part) + " " * after, first, last)


def ruler(width: int = 16) -> HexRow:
    """Return the row that heads a dump: the last digit of the address of each column."""
    digits = [f"{i:x}"[-1] for i in range(width)]
    return HexRow(0, "  ".join(digits).rjust(3 * width - 1), "".join(digits), 0, width)


def blank(width: int = 16) -> HexRow:
    """Return a row in which no byte is shown."""
    return HexRow(0, " " * (3 * width - 1), " " * width, 0, 0)


def ascii_of(data: bytes) -> str:
    """Bytes as ASCII; a byte that is not printable ASCII is a dot."""
    return "".join(chr(byte) if 0x20 <= byte < 0x7F else "." for byte in data)


def digits_for(size: int) -> int:
    """Return the number of hex digits for addresses of a file of this size: at least four, always even."""
    return max(4, (len(f"{size:x}") + 1) // 2 * 2)


def hexdump(data: bytes, start: int = 0, width: int = 16) -> str:
    """Return a whole hex dump as text: addresses, hex, ASCII; for messages, pages and examples."""
    digits = digits_for(start + len(data))
    return "\n".join(f"{row.address:0{digits}x}  {row.hex}  |{row.ascii}|" for row in rows(data, start, width))
