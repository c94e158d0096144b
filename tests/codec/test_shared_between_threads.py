"""Compiled objects shared by threads: any number may read, and operations that would move the bytes are refused."""

from __future__ import annotations

import os
import subprocess
import threading
import time
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import numpy as np
import pytest
from c_compiler import REPORTING, host_compiler, program_of, require_sanitizers, skip_without_shadow_memory

from i2s_spec.codec._survey import BLOCK, Parts, kernel_sets
from i2s_spec.gguf._strings import Walk

HERE = Path(__file__).resolve().parent
BEST = [name for name, runs in kernel_sets() if runs][-1]


def parts_of(data: bytes, size: int = 4 * BLOCK) -> Parts:
    parts = Parts(BEST)
    for at in range(0, len(data), size):
        parts.add(at, at, min(size, len(data) - at))
    return parts


def test_many_threads_give_the_result_of_one() -> None:
    data = np.random.default_rng(1).bytes(1 << 20)
    found = []
    for threads in (1, 6):
        parts = parts_of(data)
        parts.of_memory(data)
        with ThreadPoolExecutor(threads) as pool:
            list(pool.map(lambda _, p=parts: p.work(BLOCK, 1 << 40), range(threads)))
        parts.join(0, len(parts))
        found.append((parts.done, parts.found(0)))
    assert found[0] == found[1]
    assert found[0][0] == len(data)


def changes(parts: Parts) -> list[Callable[[], object]]:
    """Operations that are refused while another thread reads."""
    return [
        lambda: parts.add(0, 0, BLOCK),
        lambda: parts.of_groups(0, 64),
        lambda: parts.of_file(-1),
        lambda: parts.of_memory(bytes(BLOCK)),
        parts.release,
        parts.again,
        lambda: parts.feed(0, bytes(BLOCK), b""),
        lambda: parts.join(0, 1),
    ]


def test_nothing_changes_under_a_thread_that_reads(tmp_path: Path) -> None:
    path = tmp_path / "holes"
    with path.open("wb") as file:
        file.truncate(1 << 40)
    parts = Parts(BEST)
    parts.add(0, 0, 1 << 40)
    fd = os.open(path, os.O_RDONLY)
    parts.of_file(fd)
    thread = threading.Thread(target=parts.work, args=(BLOCK, 1 << 60))
    thread.start()
    try:
        while not parts.done:
            time.sleep(0.001)
        for change in changes(parts):
            with pytest.raises(RuntimeError, match="by another thread"):
                change()
        assert len(parts) == 1
    finally:
        parts.stop()
        thread.join()
        os.close(fd)
    parts.release()
    parts.add(0, 0, BLOCK)
    assert len(parts) == 2


def test_a_part_outside_of_the_buffer_is_refused_also_later() -> None:
    parts = Parts(BEST)
    parts.of_memory(bytes(BLOCK))
    parts.add(0, 0, BLOCK)
    for at, size, tail in ((0, BLOCK, 1), (1, BLOCK, 0), (BLOCK, 1, 0), (0, 2 * BLOCK, 0)):
        with pytest.raises(ValueError, match="outside the buffer"):
            parts.add(at, 0, size, tail)
    with pytest.raises(ValueError, match="too many bytes of a tail"):
        parts.feed(0, b"", b"tail")
    assert parts.work(BLOCK, 1 << 40) is False
    with pytest.raises(ValueError, match="outside the buffer"):
        parts.of_memory(b"")
    parts.release()
    parts.again()
    with pytest.raises(ValueError, match="nothing to read from"):
        parts.work(BLOCK, 1)


def test_a_walk_that_threads_share() -> None:
    """Each string is processed once, by any thread; a thread that comes while another one feeds gets an error."""
    record = b"".join(len(text).to_bytes(8, "little") + text for text in (b"%d" % i for i in range(2_000)))
    count = 40_000
    texts = [b"7", b"1999"]
    walk = Walk(0, count, False, (3, 5), count, texts, 4)
    texts.clear()  # the walk has its own copy

    def feed(_: int) -> int:
        refused = 0
        while walk.index < count:
            try:
                walk.feed(record, 1 << 20)
            except RuntimeError:
                refused += 1
        return refused

    with ThreadPoolExecutor(6) as pool:
        list(pool.map(feed, range(6)))
    assert walk.index == count
    assert walk.needles == [7, 1999]
    assert walk.is_utf8


@pytest.fixture(scope="module")
def driver(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The survey by threads in C, under the thread sanitizer."""
    folder = tmp_path_factory.mktemp("threads")
    compiler, flags = host_compiler(), ["-fsanitize=thread", *REPORTING]
    require_sanitizers(folder, compiler, *flags)
    return program_of(
        HERE / "driver" / "survey_threads.c", folder, compiler, "-Wno-unused-function", "-pthread", *flags
    )


@pytest.mark.thorough
@pytest.mark.parametrize("how", ["through", "stop"])
@pytest.mark.parametrize("where", ["memory", "file"])
def test_the_survey_under_the_thread_sanitizer(driver: Path, tmp_path: Path, where: str, how: str) -> None:
    data = np.random.default_rng(2).bytes((1 << 20) + 77)
    (tmp_path / "data").write_bytes(data)
    for _ in range(5):
        done = subprocess.run(
            [driver, tmp_path / "data", where, how], capture_output=True, encoding="utf-8", check=False, timeout=300
        )
        skip_without_shadow_memory(done.stderr)
        assert done.returncode == 0, done.stderr
        seen, lows, highs = map(int, done.stdout.split())
        if how == "stop":
            assert len(data) // 3 < seen <= len(data)
            continue
        codes = np.frombuffer(data, np.uint8)
        assert seen == len(data)
        assert lows == sum(int(np.count_nonzero(codes >> shift & 1)) for shift in (0, 2, 4, 6))
        assert highs == sum(int(np.count_nonzero(codes >> shift & 1)) for shift in (1, 3, 5, 7))
