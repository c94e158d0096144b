"""A roofline places kernels by their work and their speed, and lists each of them in words."""

from __future__ import annotations

import math
import re

import pytest

from i2s_site import benchmarks, checkout
from i2s_site.benchmarks import ABOVE, FLOOR, LEFT, RIGHT, TOP, Roof, RooflinePoint, roofline

ROOF = Roof(10.0, 1000.0, "reading: 10", "multiplying: 1,000")
UNITS = ("work for each byte", "G/s")


def circles(drawn: str) -> list[tuple[float, float]]:
    found = re.findall(r'<circle class="measured \w+" cx="([\d.]+)" cy="([\d.]+)"', drawn)
    return [(float(x), float(y)) for x, y in found]


def line(drawn: str) -> list[tuple[float, float]]:
    path = re.search(r'class="axis-line roof" d="M([^"]+)"', drawn)
    assert path is not None
    return [(float(x), float(y)) for x, y in (point.split() for point in path[1].split("L"))]


def test_a_kernel_at_the_limit_touches_the_roof() -> None:
    """On the slope: as many bytes as arrive; at the knee and beyond: the peak."""
    places = [
        RooflinePoint(10, 100, "g0", "slope"),
        RooflinePoint(100, 1000, "g1", "knee"),
        RooflinePoint(1000, 1000, "g2", "flat"),
    ]
    drawn = roofline(ROOF, places, "title", "more", UNITS)
    slope, knee, flat = circles(drawn)
    left, corner, right = line(drawn)
    assert knee == pytest.approx(corner, abs=0.02)
    assert flat[1] == pytest.approx(right[1], abs=0.02)
    share = (slope[0] - left[0]) / (corner[0] - left[0])
    assert slope[1] == pytest.approx(left[1] + share * (corner[1] - left[1]), abs=0.05)
    for x, y in [slope, knee, flat, left, corner, right]:
        assert LEFT - 0.01 <= x <= RIGHT + 0.01
        assert TOP - 0.01 <= y <= FLOOR + 0.01
    for said in ("slope", "knee", "flat", "reading: 10", "multiplying: 1,000", "title", "more"):
        assert said in drawn


def test_an_axis_upwards_has_several_numbers() -> None:
    """Also where the speeds are within one power of ten."""
    drawn = roofline(Roof(14, 369, "m", "a"), [RooflinePoint(4, 46, "g0", "a")], "title", "more", UNITS)
    labels = re.findall(r'class="offset" text-anchor="end">([\d,]+)<', drawn)
    assert labels == ["20", "50", "100", "200", "500"]


def test_smaller_values_are_drawn_lower() -> None:
    (x, y), (same, lower) = circles(
        roofline(ROOF, [RooflinePoint(4, 40, "g0", "a"), RooflinePoint(4, 20, "g0", "b")], "title", "more", UNITS)
    )
    assert x == same
    assert y < lower


def test_no_kernel_touches_the_names_of_the_limits() -> None:
    """The names stand above the roof, in both font sizes, whatever is measured below or on it."""
    places = [RooflinePoint(work, min(10 * work, 1000), "g0", "a") for work in (10, 20, 32, 50, 80, 100, 400, 1000)]
    drawn = roofline(ROOF, places, "title", "more", UNITS)
    left, corner, right = line(drawn)
    found = re.search(r'transform="translate\(([\d.]+) ([\d.]+)\) rotate\((-[\d.]+)\)"[^>]*>reading: 10<', drawn)
    assert found is not None
    at = [float(each) for each in found.groups()]
    assert at[:2] == pytest.approx([(left[0] + corner[0]) / 2, (left[1] + corner[1]) / 2], abs=0.02)
    assert math.tan(math.radians(at[2])) == pytest.approx((corner[1] - left[1]) / (corner[0] - left[0]), abs=0.002)
    style = (checkout.chapters() / "assets" / "spec.css").read_text(encoding="utf-8")
    phone = re.search(r"i2s-roof text \{ font-size: (\d+)px; \} svg\.i2s-roof circle \{ r: ([\d.]+)px; \}", style)
    assert phone is not None
    letters, dot = (float(each) for each in phone.groups())
    assert letters / 4 + dot < ABOVE, "letters descend by a quarter of their size"
    flat = re.search(r'y="([\d.]+)" class="side" text-anchor="end">multiplying', drawn)
    assert flat is not None
    assert right[1] - float(flat[1]) == pytest.approx(ABOVE, abs=0.02)


@pytest.mark.parametrize("speed", [0.0, -1.0, math.inf, math.nan])
def test_numbers_without_a_position_are_refused(speed: float) -> None:
    with pytest.raises(ValueError, match="positive and finite"):
        roofline(ROOF, [RooflinePoint(4, speed, "g0", "a")], "title", "more", UNITS)
    with pytest.raises(ValueError, match="has kernels"):
        roofline(ROOF, [], "title", "more", UNITS)


def test_every_measured_processor_has_a_roofline() -> None:
    drawn = benchmarks.rooflines()
    for kind in benchmarks.processors("matmul"):
        assert f"Products on {kind}, one thread" in drawn
    assert drawn.count("<svg") == len(benchmarks.processors("matmul")) >= 1
    assert "one token from memory" in drawn
    assert re.search(r"avx2, 2,560 x 2,560 by 128 tokens: \d+ GMAC/s", drawn)


def test_the_limit_with_masks_is_drawn_at_measured_points() -> None:
    """One token is measured in GB/s, a byte being four products. Only the widest set is drawn, and only below the roof."""
    row = {"low": 1.0, "high": 9e9, "unit": "GMAC/s"}
    memory = [{**row, "name": "read probe, here", "median": 90.0}, {**row, "name": "avx512, here", "median": 80.0}]
    cached = [
        {**row, "name": "probe with masks of avx512, 640 x 2,560", "median": 50.0, "unit": "GB/s"},
        {**row, "name": "probe with masks of avx2, 640 x 2,560", "median": 11.0, "unit": "GB/s"},
    ]
    several = [
        {**row, "name": "multiplication probe of avx512, 640 x 2,560 by 8", "median": 400.0},
        {**row, "name": "probe with masks of avx512, 640 x 2,560 by 8", "median": 350.0},
        {**row, "name": "avx512, 640 x 2,560 by 8", "median": 300.0},
    ]
    names = ("vector-memory-1", "vector-cache-1", "matrix-1")
    machine = {**benchmarks._result("matmul", benchmarks.processors("matmul")[0])["machine"]}

    def result(*tables: list[dict[str, object]]) -> dict[str, object]:
        benches = {name: {"rows": rows} for name, rows in zip(names, tables, strict=True)}
        return {"machine": machine, "benchmarks": benches}

    drawn = benchmarks._roofline(result(memory, cached, several))
    assert "probe with masks of avx512, 1 token: 200 GMAC/s" in drawn
    assert "probe with masks of avx512, 8 tokens: 350 GMAC/s" in drawn
    assert "multiplying: 400 GMAC/s" in drawn
    assert "of avx2" not in drawn
    assert "masks" not in benchmarks._roofline(result(memory, [], [several[0], several[2]]))
    slow = [{**memory[0], "median": 10.0}, memory[1]]  # memory bandwidth limits one token
    without_cost = [several[0], {**several[1], "median": 399.0}, several[2]]
    assert "masks" not in benchmarks._roofline(result(slow, cached, without_cost))
