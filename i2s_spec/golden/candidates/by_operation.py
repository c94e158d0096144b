"""This module finds the values of a record in a dump that says how each was made: by operation and tensor, not by count.

A value is a node with the right operation whose source is the tensor that the record names; or, where no tensor goes in, a
node with the right operation and a name that the value has in some runtime. Which of several such nodes it is, their order
says, and only then.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import NamedTuple

from i2s_spec.golden.candidates.node_names import OF_TENSORS, OPERATIONS, runtime_names
from i2s_spec.golden.candidates.tap_names import other_names, parts


class DumpedNode(NamedTuple):
    """A node of a dump: its key, and what made it.

    :param name: with `#1` for the second node of a name
    :param op: as ggml names it
    :param sources: names of what went in
    """

    name: str
    op: str
    sources: tuple[str, ...]


class Wanted(NamedTuple):
    """A value of a record: its name, its operation, the tensors that go in."""

    name: str
    op: str
    tensors: tuple[str, ...]


def matched_by_operation(
    wanted: Sequence[Wanted], nodes: Iterable[DumpedNode], fits: Callable[[str, str], bool]
) -> dict[str, str]:
    """For each value that a dump has, the dump's name of it.

    :param fits: takes a name of ours and one of the dump: whether the one can be the other by its shape
    """
    nodes = list(nodes)
    by_tensor: dict[tuple[str, str], list[DumpedNode]] = defaultdict(list)
    by_word: dict[tuple[str, str, str], list[DumpedNode]] = defaultdict(list)
    for dumped in nodes:
        word, layer, _ = parts(dumped.name)
        by_word[word, layer, dumped.op].append(dumped)
        for source in dumped.sources:
            by_tensor[source, dumped.op].append(dumped)
    scaled = {node.sources[0]: node for node in nodes if node.op == "SCALE" and node.sources}
    times = {(parts(each.name)[1], "multiply_by") for each in wanted if each.op == "multiply_by"}
    found: dict[str, str] = {}
    taken: set[str] = set()
    for each in wanted:
        word, layer, _ = parts(each.name)
        choices = (*_of_tensor(each, by_tensor), *_of_name(each, by_word))
        node = next((one for one in choices if one.name not in taken and fits(each.name, one.name)), None)
        if node is None:
            continue
        behind = scaled.get(node.name.partition("#")[0])
        if (
            each.op == "linear"
            and behind is not None
            and (layer, "multiply_by") not in times
            and node.name != behind.name
        ):
            taken.add(node.name)  # a scale that the runtime keeps beside the matrix belongs to the projection
            node = behind
        found[each.name] = node.name
        taken.add(node.name)
    return found


def _of_tensor(each: Wanted, by_tensor: dict[tuple[str, str], list[DumpedNode]]) -> Iterator[DumpedNode]:
    if each.op in OF_TENSORS:
        for tensor in each.tensors:
            for op in OPERATIONS[each.op]:
                yield from by_tensor.get((tensor, op), ())


def _of_name(each: Wanted, by_word: dict[tuple[str, str, str], list[DumpedNode]]) -> Iterator[DumpedNode]:
    word, layer, _ = parts(each.name)
    others = (name.partition("#")[0] for name in other_names(each.name))
    words = dict.fromkeys((word, *runtime_names(word, each.op), *(parts(name)[0] for name in others)))
    for theirs in words:
        for op in OPERATIONS.get(each.op, ()):
            yield from by_word.get((theirs, layer, op), ())
