"""Every prefix of every small file, and every byte of the small valid files at extreme values, is checked without a gap.

Scanner and schema must agree, and the linter must name the same fault, point inside the file and report no bug of its
own. The linter checks every prefix of the valid files, and a share of the other inputs. Of the prefixes of stored fuzzer
inputs, which are many variants of few files, all readers check a share. No reader of headers reads past the end of a
header or its first fault, so only a share of the longer prefixes is checked. Files have common beginnings: a prefix of
two files is checked once. The workers count their inputs, and the counts are compared with the number that
arithmetic gives.
"""

from __future__ import annotations

import multiprocessing
import tempfile
from collections.abc import Callable, Iterable
from concurrent.futures import ProcessPoolExecutor
from itertools import pairwise
from pathlib import Path
from zlib import crc32

import pytest
from harness import inputs, sentence

from i2s_spec.errors import FormatError, SettingError
from i2s_spec.golden.dumps import read_dump
from i2s_spec.linter.engine import lint
from i2s_spec.schema import container
from i2s_spec.testing.differential import scanner_against_schema
from i2s_spec.testing.malformed import malformed
from i2s_spec.testing.sample import Draft

pytestmark = pytest.mark.thorough

#: Files below this size are cut at every byte.
SMALL = 4096

#: Inputs in one task of a worker.
PIECE = 256

#: The linter checks one in this many inputs, chosen by checksum, so that no position is skipped in all files.
LINTED = 12

#: One in this many prefixes of stored fuzzer inputs is checked; LINTED is a multiple of it.
STORED = 3

#: All prefixes are checked up to this many bytes after a header or its first fault.
BEHIND = 8

Verdict = Callable[[bytes], None]


def files(*harnesses: str) -> list[bytes]:
    """The small inputs of some harnesses, each once, in the order of their bytes."""
    found = {path.read_bytes() for name in harnesses for path in inputs(name)}
    return sorted(data for data in found if len(data) < SMALL)


def small_malformed() -> list[bytes]:
    return sorted({case.data for case in malformed() if not case.large and len(case.data) < SMALL})


def sound() -> list[bytes]:
    """The small valid files: both byte orders, and either kind of tensor at the end."""
    return sorted(Draft(order, last).data for order in ("little", "big") for last in ("i2s", "f32"))  # type: ignore[arg-type]


# --- checks ---


def of_some_files(data: bytes) -> None:
    """Scanner and schema agree; for a share of the files the linter agrees too."""
    if crc32(data) % LINTED:
        of_header(data)
    else:
        of_file(data)


def of_stored(data: bytes) -> None:
    """For a share of the files, scanner and schema agree; for a part of that share, the linter agrees too."""
    if crc32(data) % STORED == 0:
        of_some_files(data)


def of_file(data: bytes) -> None:
    """Scanner, schema and linter agree on exactly one result."""
    code = scanner_against_schema(data)
    report = lint(data)
    assert not report.bugs, report.bugs
    assert code is None or code in {finding.code for finding in report.findings}
    for finding in report.findings:
        assert 0 <= finding.span.start <= finding.span.stop <= len(data), finding
        assert finding.message.isprintable(), finding
    assert report.ok in (True, False)


def of_header(data: bytes) -> None:
    """Scanner and schema agree."""
    scanner_against_schema(data)


def of_a_share(data: bytes) -> None:
    """All three check a share of the files, and skip the others."""
    if crc32(data) % LINTED == 0:
        of_file(data)


def of_dump(data: bytes) -> None:
    """A dump is read, or refused with a message."""
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / ("theirs.npz", "theirs.safetensors", "theirs.npy", "theirs.txt", "tap.bin")[data[0] % 5]
        path.write_bytes(data[1:])
        try:
            dump = read_dump(path.parent if path.suffix == ".bin" else path)
            for name in dump:
                dump[name].value.tolist()
        except (FormatError, SettingError) as error:
            sentence(error)


# --- inputs ---


def prefixes(data: bytes, start: int, stop: int) -> Iterable[bytes]:
    """The prefixes of these lengths; the last of a file is the whole file."""
    return (data[:length] for length in range(start, stop))


def changes(data: bytes, start: int, stop: int) -> Iterable[bytes]:
    """Every byte in a range as 0, as 255, and with each of its bits flipped."""
    for at in range(start, stop):
        for value in sorted(edges(data[at])):
            yield data[:at] + bytes((value,)) + data[at + 1 :]


def edges(byte: int) -> set[int]:
    """The values that a byte is changed to."""
    return ({0, 255} | {byte ^ 1 << bit for bit in range(8)}) - {byte}


Piece = tuple[Verdict, Callable[[bytes, int, int], Iterable[bytes]], bytes, int, int]


def cut_once(samples: list[bytes]) -> list[tuple[bytes, int]]:
    """For files in the order of their bytes: each, and the length of its first prefix that no earlier file has."""
    firsts = [0]
    for before, data in pairwise(samples):
        same = next((at for at, (a, b) in enumerate(zip(before, data, strict=False)) if a != b), len(before))
        firsts.append(same + 1)
    return list(zip(samples, firsts, strict=True))


def pieces_of(verdict: Verdict, samples: list[bytes]) -> list[Piece]:
    """Every prefix once; of prefixes longer than any header reader reads, only a share."""
    pieces: list[Piece] = []
    for data, first in cut_once(samples):
        whole = len(data) + 1
        end = min(whole, header_end(data) + BEHIND) if verdict in (of_header, of_stored) else whole
        for judge, start, stop in ((verdict, first, end), (of_a_share, max(first, end), whole)):
            pieces += [(judge, prefixes, data, at, min(at + PIECE, stop)) for at in range(start, stop, PIECE)]
    return pieces


def header_end(data: bytes) -> int:
    """The end of a header, or of its first fault."""
    try:
        return len(data) - len(container.parse(data).data)
    except FormatError as error:
        return error.span.stop


def check_piece(piece: Piece) -> int:
    """The number of checked inputs of a piece."""
    verdict, make, data, start, stop = piece
    count = 0
    for each in make(data, start, stop):
        try:
            verdict(each)
        except Exception as error:
            raise AssertionError(f"{type(error).__name__}: {error}; the input: {each.hex()}") from None
        count += 1
    return count


def check_all(pieces: list[Piece]) -> int:
    """The number of checked inputs of all pieces, by two processes."""
    with ProcessPoolExecutor(2, multiprocessing.get_context("spawn")) as pool:
        return sum(pool.map(check_piece, pieces))


# --- tests ---


def distinct(samples: list[bytes]) -> int:
    """The number of different prefixes of some files, by a walk over all of them together."""
    held, level, count = samples, 0, 0
    while held:
        count += len({data[:level] for data in held})
        level += 1
        held = [data for data in held if len(data) >= level]
    return count


@pytest.mark.parametrize(
    ("verdict", "samples"),
    [
        (of_file, sound),
        (of_stored, lambda: files("container", "lint", "round_trips", "differential")),
        (of_header, small_malformed),
        (of_dump, lambda: [data for data in files("golden_compare") if data[:1] < b"\x80" and data]),
    ],
    ids=["sound", "corpus", "malformed", "dumps"],
)
def test_every_prefix(verdict: Verdict, samples: Callable[[], list[bytes]]) -> None:
    every = samples()
    pieces = pieces_of(verdict, every)
    if verdict is of_dump:  # its first byte selects the file name
        pieces = [(*piece[:3], max(piece[3], 1), piece[4]) for piece in pieces]
    count = check_all(pieces)
    assert count == distinct(every) - (verdict is of_dump)


def test_every_byte_of_the_sound_files() -> None:
    pieces: list[Piece] = [
        (of_some_files, changes, data, at, min(at + PIECE // 8, len(data)))
        for data in sound()
        for at in range(0, len(data), PIECE // 8)
    ]
    count = check_all(pieces)
    assert count == sum(
        8 + sum(value not in {byte, *(byte ^ 1 << bit for bit in range(8))} for value in (0, 255))
        for data in sound()
        for byte in data
    )


def test_files_that_begin_alike_are_cut_once() -> None:
    samples = sorted([b"abc", b"abd", b"ab", b"x", b""])
    made = [each for data, first in cut_once(samples) for each in prefixes(data, first, len(data) + 1)]
    assert sorted(made) == [b"", b"a", b"ab", b"abc", b"abd", b"x"]
    assert distinct(samples) == len(made)
    assert header_end(Draft().data[:5]) == 5
    assert 0 < header_end(Draft().data) < len(Draft().data)
    assert edges(0) == {1, 2, 4, 8, 16, 32, 64, 128, 255}
    assert len(edges(0x5A)) == 10
