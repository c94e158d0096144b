"""The check of single strings in its two builds, with and without vectors, compared with Python; and the hash table."""

from __future__ import annotations

import ctypes
import shutil
import subprocess
from pathlib import Path

import pytest
from c_compiler import WARNINGS
from hypothesis import given
from hypothesis import strategies as st

from i2s_spec.gguf.strings import is_utf8

HEADERS = Path(__file__).resolve().parents[2] / "pyx"
COMPILER = shutil.which("gcc") or shutil.which("cc")

SOURCE = """
#include "text.h"
int look(const uint8_t *p, int64_t length, int64_t room, uint64_t seed, uint64_t key, i2s_seen *seen) {
    return i2s_look(p, length, room, seed, key, seen);
}
int enter(uint32_t *slots, uint64_t mask, uint64_t hash) { return i2s_enter(slots, mask, hash); }
uint64_t length(const uint8_t *p, int big) { return i2s_length(p, big); }
"""


class Seen(ctypes.Structure):
    _fields_ = [(name, ctypes.c_uint64) for name in ("hash", "spaces", "carry", "other")]


@pytest.fixture(scope="module")
def builds(tmp_path_factory: pytest.TempPathFactory) -> list[ctypes.CDLL]:
    """The build for this processor, and one that must do without vectors."""
    if COMPILER is None:
        pytest.skip("there is no C compiler")
    folder = tmp_path_factory.mktemp("text")
    (folder / "text.c").write_text(SOURCE)
    made = []
    for name, flags in (("vectors", []), ("words", ["-U__SSE2__"])):
        library = folder / f"{name}.so"
        warnings = ["-std=c11", *WARNINGS, "-Wno-unused-function"]
        command = [COMPILER, *warnings, "-O2", "-shared", "-fPIC", f"-I{HEADERS}", *flags, "text.c", "-o", str(library)]
        subprocess.run(command, cwd=folder, check=True)
        loaded = ctypes.CDLL(str(library))
        loaded.look.argtypes = [
            ctypes.c_char_p, ctypes.c_int64, ctypes.c_int64, ctypes.c_uint64, ctypes.c_uint64, ctypes.POINTER(Seen),
        ]  # fmt: skip
        loaded.enter.argtypes = [ctypes.c_void_p, ctypes.c_uint64, ctypes.c_uint64]
        loaded.length.argtypes, loaded.length.restype = [ctypes.c_char_p, ctypes.c_int], ctypes.c_uint64
        made.append(loaded)
    return made


TEXTS = st.one_of(
    st.binary(max_size=70),
    st.text(max_size=40).map(lambda text: text.encode("utf-8", "surrogatepass")),
    st.text("a \u0120\u07ff\u20ac", max_size=40).map(lambda text: text.encode()),
    st.lists(st.sampled_from([b" ", b"a", b"\xc2", b"\x80", b"\xdf\xbf", b"\xc1\x80", b"\xe0"])).map(b"".join),
)
NUMBERS = st.integers(0, 2**64 - 1)


@given(TEXTS, st.sampled_from([0, 1, 7, 8, 15, 16, 40]), NUMBERS, NUMBERS)
def test_both_builds_see_what_python_sees(
    builds: list[ctypes.CDLL], text: bytes, behind: int, seed: int, key: int
) -> None:
    hashes = set()
    for rest in (b"\xff" * behind, b" " * behind):  # bytes after a string are not part of it
        for build in builds:
            seen = Seen()
            got = build.look(text + rest, len(text), len(text) + behind, seed, key | 1, ctypes.byref(seen))
            assert bool(got) == is_utf8(text)
            assert min(seen.spaces, 2) == min(text.count(b" "), 2)
            hashes.add(seen.hash)
    assert len(hashes) == 1, "the hash depends on the build, or on what is after"


@given(st.sets(TEXTS, max_size=50))
def test_different_strings_have_different_hashes(builds: list[ctypes.CDLL], texts: set[bytes]) -> None:
    seed, key = 0x243F6A8885A308D3, 0x13198A2E03707345  # arbitrary constants
    seen = Seen()
    hashes = set()
    for text in texts:
        builds[0].look(text, len(text), len(text), seed, key, ctypes.byref(seen))
        hashes.add(seen.hash)
    assert len(hashes) == len(texts)


@given(st.lists(st.tuples(st.integers(0, 40), st.integers(0, 63)), max_size=40))
def test_the_table_knows_what_was_put_in(builds: list[ctypes.CDLL], entries: list[tuple[int, int]]) -> None:
    """Tags of all sorts, many of them in one bucket, so that they go on to the next and around the end."""
    for build in builds:
        slots = (ctypes.c_uint32 * 64)()
        put: set[int] = set()
        for tag, place in entries:
            value = tag << 33 | 60 | place & 3  # all in the last bucket
            assert build.enter(slots, 63, value) == (2 * tag + 1 in {2 * known + 1 for known in put})
            put.add(tag)
        assert sorted(filter(None, slots)) == sorted(2 * tag | 1 for tag in put)


def test_lengths_of_both_byte_orders(builds: list[ctypes.CDLL]) -> None:
    for build in builds:
        assert build.length(bytes(range(1, 9)), 0) == 0x0807060504030201
        assert build.length(bytes(range(1, 9)), 1) == 0x0102030405060708
