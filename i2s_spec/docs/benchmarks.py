"""This module shows the committed results of the benchmarks as tables: medians with their range, the machine, the claims."""

from __future__ import annotations

import json
from html import escape
from typing import Any

from i2s_spec.docs.checkout import root


def parts() -> list[str]:
    """The parts of the benchmarks that results are committed of."""
    return sorted(path.stem for path in (root() / "bench" / "results").glob("*.json"))


def table(part: str, name: str = "") -> str:
    """A benchmark of a part, or all of them, as HTML.

    :raises ValueError: for a part or a benchmark that there is not
    """
    if part not in parts():
        raise ValueError(f"no results are committed of {part!r}; there are {', '.join(parts())}")
    result = json.loads((root() / "bench" / "results" / f"{part}.json").read_text(encoding="utf-8"))
    if name and name not in result["benchmarks"]:
        raise ValueError(f"{part} has no benchmark {name!r}; there are {', '.join(result['benchmarks'])}")
    machine = result["machine"]
    versions = ", ".join(f"{each} {version}" for each, version in machine["versions"].items())
    about = f"{machine['date']}, {machine['cpu']}, {machine['cores']} cores, {machine['memory']}; {versions}"
    chosen = [result["benchmarks"][name]] if name else result["benchmarks"].values()
    return f'<p class="i2s-machine">{escape(about)}</p>' + "".join(_benchmark(each) for each in chosen)


def _benchmark(benchmark: dict[str, Any]) -> str:
    rows = "".join(
        f"<tr><td>{escape(row['name'])}</td>\n<td>{_number(row['median'])}</td>\n"
        f"<td>{_number(row['low'])} to {_number(row['high'])}</td>\n<td>{escape(row['unit'])}</td></tr>\n"
        for row in benchmark["rows"]
    )
    head = "\n".join(f'<th scope="col">{each}</th>' for each in ("what", "median", "range", "unit"))
    notes = "".join(f"<li>{escape(str(note))}</li>" for note in benchmark["notes"])
    text = f"<ul>{notes}</ul>" if notes else ""
    caption = f"<caption>{escape(benchmark['title'])}</caption>"
    return f"<table>{caption}<thead><tr>{head}</tr></thead><tbody>{rows}</tbody></table>{text}"


def _number(value: float) -> str:
    """Three digits that count, or all before the point.

    >>> _number(0.012345), _number(12345.6)
    ('0.0123', '12,346')
    """
    return f"{value:,.0f}" if abs(value) >= 100 else f"{value:.3g}"
