"""Where findings point: every span is the field that its path names, and meets what was broken."""

from __future__ import annotations

import re

import pytest

from i2s_spec.gguf.reader import File
from i2s_spec.gguf.source import BufferSource
from i2s_spec.inspect.walk import file_nodes
from i2s_spec.linter.engine import lint
from i2s_spec.linter.rule import Finding
from i2s_spec.testing.malformed import Case, malformed
from i2s_spec.testing.sample import Draft

CASES = [case for case in malformed() if len(case.data) < 1 << 20]

#: What sound files look like that most cases were made from.
SOUND = (Draft().data, Draft("big").data, Draft("little", "f32").data)

#: These point at what a tensor has, where that is another number of bytes than its type says.
ROOMS = {"I106", "I107", "I108", "I112"}

#: Fields that are one number: a finding about one covers all of it and nothing else.
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


@pytest.mark.parametrize("case", CASES, ids=lambda case: f"{case.code}-{case.name}")
def test_spans_are_the_fields_that_they_name(case: Case) -> None:
    nodes, understood = nodes_of(case.data)
    for finding in lint(case.data).findings:
        found = enclosing(finding.span.path, nodes)
        if found is None or finding.code in ROOMS or not understood or finding.span.path.startswith("padding["):
            continue  # what the reader stopped at is in no field yet; padding and gaps have names of the linter's own
        path, (start, stop) = found
        assert start <= finding.span.start <= finding.span.stop <= stop, finding
        if path == finding.span.path and NUMBERS.fullmatch(path):
            assert (start, stop) == finding.span[:2], finding


def _is_model(case: Case) -> bool:
    """Whether a case was made from a model, not from the sample: there is no sound file to hold it against."""
    return case.code[0] in "MTP" or changed(SOUND[0], case.data)[1] > 1 << 14


@pytest.mark.parametrize(
    "case", [case for case in CASES if not _is_model(case)], ids=lambda case: f"{case.code}-{case.name}"
)
def test_spans_meet_what_was_broken(case: Case) -> None:
    """Of what was cut off nothing is left: there the span ends with the file."""
    if case.data in SOUND:
        return  # big-endian: the fault is in every number
    first, last = min((changed(sound, case.data) for sound in SOUND), key=lambda window: window[1] - window[0])
    cut = first == last == len(case.data)

    def meets(finding: Finding) -> bool:
        return finding.span.stop == len(case.data) if cut else finding.span.start <= last and first <= finding.span.stop

    told = [f for f in lint(case.data).findings if f.code == case.code and f.span.path == case.path]
    cut_counts = [f for f in told if f.span.stop == len(case.data)]  # more records declared than there are
    assert any(map(meets, told)) or cut_counts
