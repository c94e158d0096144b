"""This module draws the picture of the README: a lint of a broken file, the map of that file, and one byte of I2_S.

The file is the sound model of `i2s new` after a mishap, so that every word and every byte in the picture is what the
commands print. It is one SVG for light and dark pages, with nothing outside of it.
"""

from __future__ import annotations

import re
import tempfile
import textwrap
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Final

from i2s_spec.convert.synthetic.new import new
from i2s_spec.docs.figures import byte_bits
from i2s_spec.draw.plot import Segment
from i2s_spec.draw.svg import drawing, rect, text
from i2s_spec.draw.text import size_words
from i2s_spec.linter.engine import lint
from i2s_spec.linter.report import details_of, kind, make
from i2s_spec.linter.report.html.details import gather
from i2s_spec.linter.report_data import Report, Totals
from i2s_spec.testing.mishaps import mishaps

WIDTH: Final = 900
_EDGE: Final = 16

#: Characters of a line of the terminal, and its height.
_COLUMNS: Final = 116
_LINE: Final = 17

#: What is drawn of each kind of region: its class, and the word in the legend.
_KINDS: Final = {
    "header": ("meta", "header, keys, tensor infos"),
    "key": ("meta", ""),
    "info": ("meta", ""),
    "payload": ("codes", "I2_S payload"),
    "tail": ("tail", "tail (scale)"),
    "elements": ("floats", "other tensors"),
    "gap": ("gap", "bytes of no tensor"),
    "padding": ("gap", ""),
}

_STYLE: Final = """
.back{fill:#fff}.screen{fill:#15191f}text{font:13px system-ui,sans-serif;fill:#1f2328}
.t{font:12.1px ui-monospace,SFMono-Regular,Menlo,Consolas,'DejaVu Sans Mono',monospace;fill:#e6edf3;white-space:pre}
.t.dim{fill:#9aa4af}.t.error{fill:#ff8f86}.t.next{fill:#7ee2a8}.h{font-weight:700;font-size:14px}.s{font-size:12px;fill:#59636e}
.meta{fill:#8c959f}.codes{fill:#4051b5}.tail{fill:#e65100}.floats{fill:#0097a7}.gap{fill:#d29922}.mark{fill:#d1242f}
.digit{font-size:15px}.offset,.side{font-size:11px;fill:#59636e}.bit,.lane{stroke:#fff;stroke-width:2}
.g0{fill:#4051b52e}.g1{fill:#0097a72e}.g2{fill:#e651002e}.g3{fill:#8e24aa2e}.stem{fill:#8c959f}
@media(prefers-color-scheme:dark){.back{fill:#0d1117}.screen{fill:#1c2128}text{fill:#e6edf3}.s,.offset,.side{fill:#9aa4af}
.bit,.lane{stroke:#0d1117}.g0{fill:#8c9eff59}.g1{fill:#4dd0e159}.g2{fill:#ffab4059}.g3{fill:#ce93d859}.codes{fill:#8c9eff}
.tail{fill:#ffab40}.floats{fill:#4dd0e1}.mark{fill:#ff8f86}}
"""


def picture() -> str:
    """The whole picture as an SVG file."""
    mishap = next(each for each in mishaps() if each.name == "no-tail")
    with tempfile.TemporaryDirectory(prefix="i2s-picture-") as folder:
        path = Path(folder) / "model.gguf"
        new(path)
        path.write_bytes(mishap.apply(path.read_bytes()))
        report = replace(lint(path, details=details_of([kind("text"), kind("html")])), path="model.gguf")
        regions = lint(path, details=gather).details["regions"]
    lines = list(_terminal(report))
    parts = [rect(_EDGE, _EDGE, WIDTH - 2 * _EDGE, _LINE * len(lines) + 22, "screen")]
    y: float = _EDGE + 24
    for line in lines:
        begins = (("  ", "t dim"), ("$ ", "t next"), ("next: ", "t next"), ("model.gguf:", "t error"))
        style = next((style for start, style in begins if line.startswith(start)), "t")
        parts.append(text(_EDGE + 14, y, line, style))
        y += _LINE
    y += 32
    parts += _map(regions, report, y)
    y += 100
    parts += [
        text(_EDGE, y, "Byte 1 of a payload holds elements 1, 33, 65 and 97, not four neighbors", "h"),
        text(
            _EDGE,
            y + 18,
            "Nothing in a file says so. Readers that took them for neighbors passed their own tests.",
            "s",
        ),
        _placed(byte_bits(0x49, 1), _EDGE + 130, y + 34, 560),
    ]
    height = y + 34 + 174 + _EDGE
    more = (
        "A terminal with the output of i2s lint, a map of the file with the place of the error, and the bits of a byte."
    )
    svg = drawing(
        WIDTH, height, "i2s lint names the bytes that are wrong", more, rect(0, 0, WIDTH, height, "back"), *parts
    )
    head = f'<svg xmlns="http://www.w3.org/2000/svg" width="{WIDTH}" height="{height:.0f}" '
    return head + svg.removeprefix("<svg ").replace("><title>", f"><style>{_STYLE}</style><title>", 1) + "\n"


def _terminal(report: Report) -> Iterator[str]:
    """What a terminal shows of a lint, its lines as long as the picture is wide."""
    written, totals = make("text"), Totals()
    shown = written.file(report)
    totals.add(report.as_dict())
    yield "$ i2s lint model.gguf"
    for line in (shown + written.end(totals)).splitlines():
        yield from textwrap.wrap(line, _COLUMNS, drop_whitespace=not line.startswith("  ")) or [""]


def _map(regions: list[list[int | str]], report: Report, y: float) -> Iterator[str]:
    """The file from its first byte to its last, to scale, with the place of every finding."""
    size = report.size or 1
    wide = WIDTH - 2 * _EDGE
    yield text(_EDGE, y, f"The file to scale, {size_words(size)}, and where the error is", "h")
    drawn: list[Segment] = []
    for start, stop, what, *_ in regions:
        style = _KINDS.get(str(what), ("gap", ""))[0]
        if drawn and drawn[-1].style == style and drawn[-1].stop == start:
            drawn[-1] = drawn[-1]._replace(stop=int(stop))
        else:
            drawn.append(Segment(int(start), int(stop), style, str(what)))
    for segment in drawn:
        x = _EDGE + wide * segment.start / size
        yield rect(x, y + 12, max(0.8, wide * (segment.stop - segment.start) / size), 26, segment.style, segment.says)
    for finding in report.findings:
        x = _EDGE + wide * finding.span.start / size
        yield rect(x - 1, y + 6, 3, 38, "mark", f"{finding.code} at {finding.span}")
    x = float(_EDGE)
    shown = {segment.style for segment in drawn}
    for style, label in (each for each in _KINDS.values() if each[1] and each[0] in shown):
        yield rect(x, y + 50, 11, 11, style)
        yield text(x + 16, y + 60, label, "s")
        x += 16 + 6.2 * len(label) + 18
    yield rect(x, y + 50, 3, 11, "mark")
    yield text(x + 9, y + 60, ", ".join(sorted({finding.code for finding in report.findings})), "s")


def _placed(svg: str, x: float, y: float, wide: float) -> str:
    """A drawing inside of another one."""
    match = re.match(r'<svg viewBox="0 0 ([\d.]+) ([\d.]+)"', svg)
    assert match is not None
    high = wide * float(match[2]) / float(match[1])
    return svg.replace("<svg ", f'<svg x="{x:g}" y="{y:g}" width="{wide:g}" height="{high:.0f}" ', 1)
