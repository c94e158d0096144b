"""One fault, one code: each broken copy gets exactly its code, at the broken field.

Every copy is linted once; the tests share its report.
"""

from __future__ import annotations

import re
import subprocess
import sys
from functools import cache

import pytest
from examples import some
from malformed_cases import CASES, SMALL, broken

from i2s_spec.gguf.reader import File
from i2s_spec.gguf.source import BufferSource
from i2s_spec.inspect.dump_walk import file_nodes
from i2s_spec.linter.engine import Report, lint
from i2s_spec.linter.rule import Finding
from i2s_spec.testing.malformed import Case
from i2s_spec.testing.malformed.case import LARGE
from i2s_spec.testing.sample import NOTED, Draft

#: The sound files from which most cases were made.
SOUND = (Draft().data, Draft("big").data, Draft("little", "f32").data)

#: These point at the tensor's actual bytes, whose number differs from that of its type.
ROOMS = {"I106", "I107", "I108", "I112"}

#: Fields with one number: a finding about such a field covers exactly the field.
NUMBERS = re.compile(r".*\.(?:type|offset|n_dims|ne|ne\[\d\]|length|count|version|magic|key_count|tensor_count|scale)")


def changed(sound: bytes, broken: bytes) -> tuple[int, int]:
    """The first and the last byte that differ, in the broken file."""
    most = min(len(sound), len(broken))
    first = next((at for at in range(most) if sound[at] != broken[at]), most)
    same = next((at for at in range(most - first) if sound[-1 - at] != broken[-1 - at]), most - first)
    return first, len(broken) - same


def nodes_of(data: bytes) -> tuple[dict[str, tuple[int, int]], bool]:
    """Start and stop of each node by its path, and whether all of the file was understood."""
    file = File(BufferSource(data))
    nodes: dict[str, tuple[int, int]] = {}
    for node in file_nodes(file):
        nodes.setdefault(node.path, (node.start, node.stop))
    return nodes, file.fault is None


def enclosing(path: str, nodes: dict[str, tuple[int, int]]) -> tuple[str, tuple[int, int]] | None:
    """The node of a path, or of the nearest record around it; a text is inside the node that has its length as well."""
    while path:
        if path in nodes:
            return path, nodes[path]
        path = re.sub(r"(?:\.\w+|\[\d+\])$", "", path) if re.search(r"\.\w+$|\[\d+\]$", path) else ""
    return None


@cache
def report_of(name: str) -> Report:
    return lint(broken(name))


def named(cases: list[Case]) -> pytest.MarkDecorator:
    return pytest.mark.parametrize("name", [pytest.param(case.name, id=f"{case.code}-{case.name}") for case in cases])


#: Codes with a small case. A quick run includes a large file only if its code has no small one.
OF_SMALL = {case.code for case in CASES.values() if not case.large}


def once(cases: list[Case]) -> pytest.MarkDecorator:
    marks = [pytest.mark.thorough if case.large and case.code in OF_SMALL else () for case in cases]
    given = zip(cases, marks, strict=True)
    return pytest.mark.parametrize(
        "name", [pytest.param(case.name, id=f"{case.code}-{case.name}", marks=mark) for case, mark in given]
    )


@once(list(CASES.values()))
def test_case_gets_its_code(name: str) -> None:
    case, report = CASES[name], report_of(name)
    assert {finding.code for finding in report.findings} - (NOTED - {case.code}) == {case.code} | case.also
    assert case.path in {finding.span.path for finding in report.findings if finding.code == case.code}


@once(list(CASES.values()))
def test_spans_lie_in_the_file(name: str) -> None:
    report = report_of(name)
    for finding in report.findings:
        assert 0 <= finding.span.start <= finding.span.stop <= report.size
        assert finding.message.isprintable()


def test_the_list_of_cases_costs_nothing() -> None:
    """No file and no model is made before its first use, since every process that collects tests imports the list."""
    code = (
        "from i2s_spec.testing import malformed, sample; from i2s_spec.testing.malformed import payload;"
        "print(sample._made.cache_info().currsize, payload.trits.cache_info().currsize, any('_made' in vars(case) or"
        " 'path' in vars(case) for case in malformed.malformed()))"
    )
    run = subprocess.run([sys.executable, "-c", code], capture_output=True, encoding="utf-8", check=True)
    assert run.stdout == "0 0 False\n"


def test_cases_are_reproducible_and_say_how_large_they_are() -> None:
    for case in some(CASES.values()):
        data = case.data
        assert data == case.make(), case.name
        assert case.large == (len(data) >= LARGE), case.name
        assert len(data) >= 100_000 or case.name in SMALL, case.name


@named([case for case in CASES.values() if not case.large])
def test_spans_are_the_fields_that_they_name(name: str) -> None:
    nodes, understood = nodes_of(broken(name))
    for finding in report_of(name).findings:
        found = enclosing(finding.span.path, nodes)
        if found is None or finding.code in ROOMS or not understood or finding.span.path.startswith("padding["):
            continue  # the reader stopped before this field, or the linter names padding and gaps itself
        path, (start, stop) = found
        assert start <= finding.span.start <= finding.span.stop <= stop, finding
        if path == finding.span.path and NUMBERS.fullmatch(path):
            assert (start, stop) == finding.span[:2], finding


#: Cases made from the sample. Cases made from a model have no sound file here for comparison.
FROM_THE_SAMPLE = [case for case in SMALL.values() if case.code[0] not in "MTP"]


@named(FROM_THE_SAMPLE)
def test_spans_meet_what_was_broken(name: str) -> None:
    """Of bytes that were cut off nothing is left: there the span ends with the file."""
    case = CASES[name]
    if case.data in SOUND or changed(SOUND[0], case.data)[1] > 1 << 14:
        return  # big-endian, where every number differs; or made from a model after all
    first, last = min((changed(sound, case.data) for sound in SOUND), key=lambda window: window[1] - window[0])
    cut = first == last == len(case.data)

    def meets(finding: Finding) -> bool:
        return finding.span.stop == len(case.data) if cut else finding.span.start <= last and first <= finding.span.stop

    told = [f for f in report_of(name).findings if f.code == case.code and f.span.path == case.path]
    cut_counts = [f for f in told if f.span.stop == len(case.data)]  # the file declares more records than it has
    assert any(map(meets, told)) or cut_counts
