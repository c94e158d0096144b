from __future__ import annotations

import gzip
import io
import random
from pathlib import Path

import pytest
from examples import share
from malformed_cases import SMALL, broken
from transcripts_runner import real_files

from i2s_spec.errors import FormatError
from i2s_spec.gguf.reader import File
from i2s_spec.gguf.source import BufferSource, StreamSource
from i2s_spec.inspect.dump_walk import WINDOW, file_nodes, key_value, reader, tensor_info
from i2s_spec.schema.container import Elided, Opened, Scope, is_leaf
from i2s_spec.schema.field import FieldNode
from i2s_spec.testing.sample import Draft
from i2s_spec.testing.sample import tensor_info as info_record

SCOPES = [Scope(limit=2, records=2), Scope(limit=8), Scope(limit=3, deep=True), Scope(), Scope(deep=True)]


def covered(data: bytes, scope: Scope) -> list[FieldNode]:
    """The leaves of a file, after holding them to the law: every byte lies in exactly one, in order."""
    leaves = [node for node in file_nodes(File(BufferSource(data)), scope) if is_leaf(node)]
    at = 0
    for node in leaves:
        assert node.start == at, node
        at = node.stop
    assert at == len(data)
    return leaves


@pytest.mark.requirement("R2.1-1")
@pytest.mark.parametrize("scope", SCOPES, ids=str)
@pytest.mark.parametrize("order", ["little", "big"])
def test_every_byte_of_a_sound_file_is_in_one_leaf(order: str, scope: Scope) -> None:
    covered(Draft("big" if order == "big" else "little").data, scope)


@pytest.mark.parametrize("name", share(SMALL, every=8))
def test_every_byte_of_a_malformed_file_is_in_one_leaf(name: str) -> None:
    for scope in SCOPES:
        covered(broken(name), scope)


@pytest.mark.requirement("R12.3-2")
def test_every_byte_of_a_damaged_file_is_in_one_leaf() -> None:
    chance = random.Random(36)
    for _ in range(300):
        data = bytearray(Draft(chance.choice(["little", "big"])).data)  # type: ignore[arg-type]
        for _ in range(chance.randint(1, 4)):
            at = chance.randrange(len(data)) if chance.random() < 0.3 else chance.randrange(512)
            data[at] = chance.choice([0, 1, 8, 9, 127, 255, chance.randrange(256)])
        covered(bytes(data[: chance.randrange(len(data))] if chance.random() < 0.2 else data), chance.choice(SCOPES))


@pytest.mark.parametrize("order", share(["little", "big"]))
def test_every_byte_of_every_prefix_is_in_one_leaf(order: str) -> None:
    data = Draft("big" if order == "big" else "little").data
    for length in range(len(data)):
        covered(data[:length], Scope())


@pytest.mark.usefixtures("shared")
@pytest.mark.parametrize("path", share(real_files()), ids=lambda path: path.name)
def test_every_byte_of_a_real_file_is_in_one_leaf(path: Path) -> None:
    data = gzip.decompress(path.read_bytes()) if path.suffix == ".gz" else path.read_bytes()
    for scope in (Scope(limit=2, records=2), Scope(limit=3, deep=True), Scope()):
        covered(data, scope)


def test_ranges_give_what_lies_in_them() -> None:
    data = Draft().data
    leaves = covered(data, Scope(deep=True))
    chance = random.Random(1)
    for _ in range(200):
        start = chance.randrange(len(data))
        stop = chance.randrange(start + 1, len(data) + 1)
        nodes = file_nodes(File(BufferSource(data)), Scope(None, None, start, stop, deep=True))
        within = [node for node in nodes if is_leaf(node) and node.start < stop and node.stop > start]
        assert [node for node in within if node.stop > node.start] == [
            node for node in leaves if max(node.start, start) < min(node.stop, stop)
        ]


def test_overlapping_tensors_share_no_byte() -> None:
    draft = Draft()
    file = draft.records()
    file.tensor_infos[2].offset = file.tensor_infos[1].offset + 32
    leaves = covered(draft.built(file), Scope(deep=True))
    paths = {node.path.split(".")[0] for node in leaves}
    assert {"data[1]", "data[2]"} <= paths
    nodes = list(file_nodes(File(BufferSource(draft.built(file))), Scope()))
    assert any(isinstance(node.value, Opened) and "overlapped" in node.value.note for node in nodes)


def test_gaps_and_trailing_bytes_have_names() -> None:
    draft = Draft()
    file = draft.records()
    file.tensor_infos[2].offset += 64
    file.data += bytes(96)
    paths = [node.path for node in covered(draft.built(file), Scope())]
    assert "data.gaps[0]" in paths
    assert "data.trailing" in paths


def test_padding_between_tensors_has_a_name() -> None:
    draft = Draft()
    file = draft.records()
    file.tensor_infos = [info_record(b"a", (3,), 0, 0), info_record(b"b", (3,), 0, 32)]
    file.data = bytes(12) + b"\1" + bytes(31)
    leaves = {node.path: node for node in covered(draft.built(file), Scope())}
    assert leaves["data[0].padding"].value == "not all zero"
    assert leaves["data[0].padding"].stop - leaves["data[0].padding"].start == 20


def test_long_tables_are_elided() -> None:
    draft = Draft()
    file = draft.records()
    file.key_values *= 3
    leaves = {node.path: node.value for node in covered(draft.built(file), Scope(records=2))}
    assert leaves["key_values[2..24]"] == Elided(22, "records")
    assert leaves["tensor_infos[2..3]"] == Elided(1, "records")
    assert leaves["data[2..3]"] == Elided(1, "tensors")


def test_the_fault_is_a_leaf_where_it_lies() -> None:
    data = Draft().number("key_values[1].value.length", 1 << 50)
    leaves = covered(data, Scope())
    (fault,) = [node for node in leaves if isinstance(node.value, FormatError)]
    assert (fault.path, fault.stop - fault.start) == ("key_values[1].value.length", 8)
    assert leaves[-1].path == "not_examined"
    assert leaves[-2] is fault
    assert leaves[-3].path == "key_values[1].type"


def test_single_records() -> None:
    file = File(BufferSource(Draft().data))
    assert next(key_value(file, 1)).value == Opened(b"general.name")
    assert [node.path for node in tensor_info(file, 0) if is_leaf(node)][-1] == "tensor_infos[0].offset"


def test_a_walk_reads_through_a_window() -> None:
    class Counting(StreamSource):
        calls = 0

        def read(self, start: int, length: int) -> bytes:
            Counting.calls += 1
            return super().read(start, length)

    file = File(Counting(io.BytesIO(Draft().data)))
    before = Counting.calls
    assert len(list(file_nodes(file))) > 60
    assert Counting.calls - before <= 2
    read = reader(File(BufferSource(Draft().data + bytes(2 * WINDOW))))
    assert read(8, WINDOW + 5) == Draft().data[8:].ljust(WINDOW + 5, b"\0")
    with pytest.raises(FormatError, match="S903"):
        read(2 * WINDOW, WINDOW)
