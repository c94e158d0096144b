"""This module draws the committed results of the benchmarks, with the machine, the claims, and all numbers as tables."""

from __future__ import annotations

import json
from collections.abc import Sequence
from html import escape
from typing import Any, Final

from i2s_spec.docs.checkout import root
from i2s_spec.draw.dot_plot import Dot, Measured, dot_plot

#: Rows are split into series where the lines that remain are this share of the rows at most.
LEAST_SHARE: Final = 0.6

#: Series that colors tell apart.
SERIES: Final = 8


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
    versions = ", ".join(f"{each} {version}" for each, version in machine["versions"].items() if version)
    about = f"{machine['date']}, {machine['cpu']}, {machine['cores']} cores, {machine['memory']}; {versions}"
    chosen = [result["benchmarks"][name]] if name else list(result["benchmarks"].values())
    return f'<p class="i2s-machine">{escape(about)}</p>' + "".join(map(_benchmarks, _alike(chosen)))


def _alike(benchmarks: Sequence[dict[str, Any]]) -> list[list[dict[str, Any]]]:
    """Benchmarks of the same things in the same units, which one plot shows; the others alone."""
    found: dict[object, list[dict[str, Any]]] = {}
    for benchmark in benchmarks:
        rows = tuple((row["name"], row["unit"]) for row in benchmark["rows"])
        plain = all(not series for series, _ in _series(benchmark["rows"])) and len({unit for _, unit in rows}) == 1
        found.setdefault(rows if plain else benchmark["title"], []).append(benchmark)
    return [group[at : at + SERIES] for group in found.values() for at in range(0, len(group), SERIES)]


def _benchmarks(group: Sequence[dict[str, Any]]) -> str:
    """A plot of benchmarks that are alike, with their notes and all their numbers."""
    several = len(group) > 1
    rows = [
        {**row, "series": benchmark["title"] if several else None} for benchmark in group for row in benchmark["rows"]
    ]
    cells = "".join(
        f"<tr><td>{escape(_named(row))}</td>\n<td>{_number(row['median'])}</td>\n"
        f"<td>{_number(row['low'])} to {_number(row['high'])}</td>\n<td>{escape(row['unit'])}</td></tr>\n"
        for row in rows
    )
    head = "\n".join(f'<th scope="col">{each}</th>' for each in ("what", "median", "range", "unit"))
    notes = "".join(f"<li>{escape(str(note))}</li>" for benchmark in group for note in benchmark["notes"])
    text = f"<ul>{notes}</ul>" if notes else ""
    table = f"<table><thead><tr>{head}</tr></thead><tbody>{cells}</tbody></table>"
    title = f"{len(group)} series of {len(group[0]['rows'])} measurements" if several else group[0]["title"]
    return (
        f'<h3 class="i2s-benchmark">{escape(title)}</h3>{_plots(title, rows)}{text}'
        f"<details><summary>{len(rows)} medians and their ranges</summary>{table}</details>"
    )


def _named(row: dict[str, Any]) -> str:
    return f"{row['series']}: {row['name']}" if row["series"] else str(row["name"])


def _plots(title: str, every: Sequence[dict[str, Any]]) -> str:
    """A plot for each unit; its series, where there are such, are told apart by colors."""
    units: dict[str, list[dict[str, Any]]] = {}
    for row in every:
        units.setdefault(row["unit"], []).append(row)
    made = ""
    for unit, rows in units.items():
        series = [(row["series"], row["name"]) for row in rows] if rows[0]["series"] else _series(rows)
        styles = {name: f"g{place}" for place, name in enumerate(dict.fromkeys(each for each, _ in series))}
        lines: dict[str, list[Dot]] = {}
        for row, (name, group) in zip(rows, series, strict=True):
            says = f"{_named(row)}: {_number(row['median'])} {unit} ({_number(row['low'])} to {_number(row['high'])})"
            lines.setdefault(group, []).append(Dot(row["median"], row["low"], row["high"], styles[name], says))
        more = "; ".join(dot.says for dots in lines.values() for dot in dots) + "."
        plot = dot_plot([Measured(name, dots) for name, dots in lines.items()], title, more, unit)
        legend = "".join(f'<li><i class="{style}"></i>{escape(name)}</li>' for name, style in styles.items() if name)
        made += f'<ul class="i2s-legend">{legend}</ul>' if legend else ""
        made += f'<figure class="i2s-wide">{plot}</figure>'
    return made


def _series(rows: Sequence[dict[str, Any]]) -> list[tuple[str, str]]:
    """Series and line of each row: `avx2, 640 x 2,560` and `avx2: pack` are series of lines if lines are then far fewer."""
    split = [_split(row["name"]) for row in rows]
    lines, names = {line for _, line in split}, {name for name, _ in split}
    if len(lines) <= LEAST_SHARE * len(rows) and len(names) <= SERIES and len(set(split)) == len(rows):
        return split
    return [("", row["name"]) for row in rows]


def _split(name: str) -> tuple[str, str]:
    for mark in (": ", ", "):
        first, found, rest = name.partition(mark)
        if found:
            return first, rest
    return "", name


def _number(value: float) -> str:
    """Three digits that count, or all before the point.

    >>> _number(0.012345), _number(12345.6)
    ('0.0123', '12,346')
    """
    return f"{value:,.0f}" if abs(value) >= 100 else f"{value:.3g}"
