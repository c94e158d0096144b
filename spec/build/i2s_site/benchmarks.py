"""The committed results of the benchmarks as plots: with the machine, the claims, and all numbers as tables.

`roofline` draws products under the limits of a processor: the reading of memory and the multiplications.
"""

from __future__ import annotations

import json
import math
from collections.abc import Sequence
from html import escape
from pathlib import Path
from typing import Any, Final, NamedTuple

from i2s_site.checkout import root
from i2s_spec.draw.chart import Axis, Dot, Measured, dot_plot, ticks
from i2s_spec.draw.svg import drawing, element, number, text, title
from i2s_spec.errors import counted

WIDTH: Final = 720
HEIGHT: Final = 330
LEFT: Final = 64
RIGHT: Final = WIDTH - 28
FLOOR: Final = 280
TOP: Final = 16

#: From a roof to the base of the words over it: a dot on the roof does not touch them.
ABOVE: Final = 13


class RooflinePoint(NamedTuple):
    """A kernel: work for each byte, work in a second, the class that it is drawn in, and what is said of it."""

    intensity: float
    speed: float
    style: str
    says: str


class Roof(NamedTuple):
    """The limits: bytes in a second, and work in a second, with the name of each."""

    bandwidth: float
    peak: float
    memory: str
    arithmetic: str


def roofline(roof: Roof, places: Sequence[RooflinePoint], says: str, more: str, units: tuple[str, str]) -> str:
    """Return the roof and the kernels under it, both axes logarithmic.

    :param units: of work for each byte, and of work in a second
    :raises ValueError: for a number that is not positive and finite, and without places
    """
    every = [roof.bandwidth, roof.peak, *(each for place in places for each in place[:2])]
    if not places or not all(0 < each < math.inf for each in every):
        raise ValueError("a roofline has kernels, and its numbers are positive and finite")
    left, right = min(place.intensity for place in places) / 2, max(place.intensity for place in places) * 2
    low = min(roof.bandwidth * left, *(place.speed for place in places)) / 2
    x = Axis(math.log10(left), math.log10(right), LEFT, RIGHT)
    y = Axis(math.log10(low), math.log10(roof.peak * 2.5), FLOOR, TOP)
    marks = _grid(x, y)
    knee = min(max(roof.peak / roof.bandwidth, left), right)
    points = [(left, roof.bandwidth * left), (knee, min(roof.peak, roof.bandwidth * knee)), (right, roof.peak)]
    path = "L".join(f"{number(x.place(a))} {number(y.place(b))}" for a, b in points)
    marks.append(
        element("path", {"class": "axis-line roof", "d": f"M{path}"}, title(f"{roof.memory}; {roof.arithmetic}"))
    )
    marks.append(text(RIGHT - 4, y.place(roof.peak) - ABOVE, roof.arithmetic, "side", "end"))
    marks.append(_along(points[0], points[1], x, y, roof.memory))
    for place in places:
        dot: dict[str, str | float | None] = {
            "class": f"measured {place.style}", "cx": x.place(place.intensity), "cy": y.place(place.speed), "r": 4.5
        }  # fmt: skip
        marks.append(element("g", {}, title(place.says), element("circle", dot)))
    marks.append(text(WIDTH / 2, HEIGHT - 8, f"{units[0]}, logarithmic axis", "side", "middle"))
    marks.append(text(0, 14, units[1], "side"))
    return drawing(WIDTH, HEIGHT, says, more, *marks, style="i2s-figure i2s-measured i2s-roof")


def _along(start: tuple[float, float], stop: tuple[float, float], x: Axis, y: Axis, words: str) -> str:
    """Words over the middle of a line, along it: above the roof, where no kernel is."""
    (left, low), (right, high) = ((x.place(a), y.place(b)) for a, b in (start, stop))
    slope = math.degrees(math.atan2(high - low, right - left))
    turned = f"translate({number((left + right) / 2)} {number((low + high) / 2)}) rotate({number(slope)})"
    label: dict[str, str | float | None] = {
        "x": 0.0, "y": -ABOVE, "class": "side", "text-anchor": "middle", "transform": turned
    }  # fmt: skip
    return element("text", label, escape(words))


def _grid(x: Axis, y: Axis) -> list[str]:
    """Lines at powers of four across, and at 1, 2 and 5 of each power of ten upwards."""
    marks = []
    for power in range(math.ceil(x.low / math.log10(4)), math.floor(x.high / math.log10(4)) + 1):
        at = x.place(4.0**power)
        marks.append(element("path", {"class": "grid-line", "d": f"M{number(at)} {TOP}V{FLOOR}"}))
        marks.append(text(at, FLOOR + 15, f"{4**power:,}" if power >= 0 else f"{4.0**power:g}", "offset", "middle"))
    for tick in ticks(y.low, y.high):
        at = y.place(tick)
        marks.append(element("path", {"class": "grid-line", "d": f"M{LEFT} {number(at)}H{RIGHT}"}))
        marks.append(text(LEFT - 6, at + 4, f"{round(tick):,}" if tick >= 1 else f"{tick:g}", "offset", "end"))
    return marks


#: Rows are split into series where the lines that remain are this share of the rows at most.
LEAST_SHARE: Final = 0.6

#: Series that colors tell apart.
SERIES: Final = 8


#: Names of rows that say what multiplications leave that masks share ports with.
MASKED: Final = "probe with masks"

#: Weights in a byte of payload: the multiplications that a token needs for each byte.
WEIGHTS: Final = 4

#: Share of the roof from which on the limit with masks is not drawn: there masks cost nothing, or memory is the limit.
NO_COST: Final = 0.98


def parts() -> list[str]:
    """Return the parts of the benchmarks that results are committed of."""
    return sorted({part for path in _results().glob("*.json") for part in _committed(path.stem)})


def processors(part: str) -> list[str]:
    """Return the kinds of processor that results of a part are committed of."""
    return sorted(path.stem for path in _results().glob("*.json") if part in _committed(path.stem))


def table(part: str, name: str = "") -> str:
    """Return a benchmark of a part, or all of them, as HTML, for each kind of processor that it was measured on.

    :raises ValueError: for a part or a benchmark that there is not
    """
    if part not in parts():
        raise ValueError(f"no results are committed of {part!r}; there are {', '.join(parts())}")
    return "".join(_of_processor(_result(part, kind), name) for kind in processors(part))


def rooflines() -> str:
    """For each kind of processor its roofline and the products of one and of more tokens under it, as HTML."""
    return "".join(_roofline(_result("matmul", kind)) for kind in processors("matmul"))


def _results() -> Path:
    return root() / "tests" / "bench" / "results"


def _committed(kind: str) -> dict[str, Any]:
    """Return the results of a kind of processor, by part."""
    found: dict[str, Any] = json.loads((_results() / f"{kind}.json").read_text(encoding="utf-8"))
    return found


def _result(part: str, kind: str) -> dict[str, Any]:
    found: dict[str, Any] = _committed(kind)[part]
    return found


def _of_processor(result: dict[str, Any], name: str) -> str:
    if name and name not in result["benchmarks"]:
        raise ValueError(f"{result['part']} has no benchmark {name!r}; there are {', '.join(result['benchmarks'])}")
    chosen = [result["benchmarks"][name]] if name else list(result["benchmarks"].values())
    together: dict[str, list[dict[str, Any]]] = {}
    for each in chosen:  # those that were measured another day say so
        together.setdefault(_machine(each.get("machine", result["machine"])), []).append(each)
    return "".join(about + "".join(map(_benchmarks, _alike(these))) for about, these in together.items())


def _machine(machine: dict[str, Any]) -> str:
    versions = ", ".join(f"{each} {version}" for each, version in machine["versions"].items() if version)
    what = f"{machine['processor']} ({machine['cpu']}), {machine['cores']} cores, {machine['memory']}"
    about = f"{machine['date']}, {what}; load {machine['load']} at the start; {versions}"
    return f'<p class="i2s-machine">{escape(about)}</p>'


def _roofline(result: dict[str, Any]) -> str:
    """Products of one thread: the reading probe and the multiplication probe are the roof, each kernel set is a series.

    The limit of multiplications with masks is a series too, in results that have it and where it is below the roof.
    """
    memory, cached, several = (
        result["benchmarks"][name]["rows"] for name in ("vector-memory-1", "vector-cache-1", "matrix-1")
    )
    places: dict[str, list[tuple[float, float, str]]] = {}
    bandwidth = max(row["median"] for row in memory if "probe" in row["name"])
    widest = max((row for row in several if "probe" in row["name"]), key=lambda row: row["median"])
    peak = widest["median"]
    for row in memory:
        kernels, _, where = row["name"].partition(", ")
        if "probe" not in kernels and "matmul" not in kernels:
            says = f"{kernels}, one token from memory, {where}"
            places.setdefault(kernels, []).append((WEIGHTS, WEIGHTS * row["median"], says))
    for row in several:
        kernels, _, shape = row["name"].partition(", ")
        if "probe" not in kernels:
            tokens = int(shape.rpartition(" by ")[2])
            says = f"{kernels}, {shape} tokens"
            places.setdefault(kernels, []).append((float(WEIGHTS * tokens), row["median"], says))
    best = widest["name"].partition(", ")[0].rpartition(" of ")[2]
    for row in (*cached, *several):
        masked, _, shape = row["name"].partition(", ")
        if masked == f"{MASKED} of {best}":
            tokens = int(shape.rpartition(" by ")[2]) if " by " in shape else 1
            speed, intensity = row["median"] * (WEIGHTS if row["unit"] == "GB/s" else 1), float(WEIGHTS * tokens)
            if speed < NO_COST * min(peak, bandwidth * intensity):
                says = f"{masked}, {counted(tokens, 'token')}"
                places.setdefault(f"limit with masks ({best})", []).append((intensity, speed, says))
    styles = {name: f"g{place}" for place, name in enumerate(places)}
    dots = [
        RooflinePoint(intensity, speed, styles[name], f"{says}: {_number(speed)} GMAC/s")
        for name, found in places.items() for intensity, speed, says in found
    ]  # fmt: skip
    roof = Roof(bandwidth, peak, f"reading: {_number(bandwidth)} GB/s", f"multiplying: {_number(peak)} GMAC/s")
    kind = result["machine"]["processor"]
    units = ("multiplications for each byte of payload: 4 for each token", "GMAC/s")
    plot = roofline(roof, dots, f"Products on {kind}, one thread", "; ".join(dot.says for dot in dots) + ".", units)
    legend = "".join(f'<li><i class="{style}"></i>{escape(name)}</li>' for name, style in styles.items())
    return f'{_machine(result["machine"])}<ul class="i2s-legend">{legend}</ul><figure class="i2s-wide">{plot}</figure>'


def _alike(benchmarks: Sequence[dict[str, Any]]) -> list[list[dict[str, Any]]]:
    """Benchmarks of the same things in the same units, which one plot shows; the others alone."""
    found: dict[object, list[dict[str, Any]]] = {}
    for benchmark in benchmarks:
        rows = tuple((row["name"], row["unit"]) for row in benchmark["rows"])
        plain = all(not series for series, _ in _series(benchmark["rows"])) and len({unit for _, unit in rows}) == 1
        found.setdefault(rows if plain else benchmark["title"], []).append(benchmark)
    return [group[at : at + SERIES] for group in found.values() for at in range(0, len(group), SERIES)]


def _benchmarks(group: Sequence[dict[str, Any]]) -> str:
    """Return a plot of benchmarks that are alike, with their notes and all their numbers."""
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
    """Return a plot for each unit; its series, where there are such, are told apart by colors."""
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
