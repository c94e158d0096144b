"""Many files: expansion of names, one pure function for each file, processes that may die, and the counts of a run."""

from __future__ import annotations

import gc
import os
import pickle
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path

import pytest
from examples import some
from finding_codes import codes
from malformed_cases import SMALL, broken
from pool_items import deadly, dies_at_dup, doubled, interrupted, large, slow_first, stuck, talkative

from i2s_spec.linter import paths as module
from i2s_spec.linter import process_pool
from i2s_spec.linter.engine import lint
from i2s_spec.linter.options import Options
from i2s_spec.linter.paths import Input, inputs, lint_path, lint_paths, skipped
from i2s_spec.linter.process_pool import WAITING, Died, in_order
from i2s_spec.linter.report_data import Totals, exit_code
from i2s_spec.linter.rule import Severity
from i2s_spec.linter.selection import Suppression
from i2s_spec.testing.sample import Draft


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Three sound files, one broken, one that is not a GGUF file, and what is no file at all."""
    monkeypatch.chdir(tmp_path)
    (tmp_path / "sub" / "deep").mkdir(parents=True)
    (tmp_path / "empty").mkdir()
    for name in ("a.gguf", "sub/b.gguf", "sub/deep/C.GGUF"):
        (tmp_path / name).write_bytes(Draft().data)
    (tmp_path / "sub" / "dup.gguf").write_bytes(broken("dup_key"))
    (tmp_path / "sub" / "page.gguf").write_bytes(broken("html"))
    (tmp_path / "notes.txt").write_text("no model", encoding="utf-8")
    return tmp_path


def paths(*names: str) -> list[str]:
    return [given.path for given in inputs(names)]


# --- which files an argument names --------------------------------------------------------------------------------


def test_folders_stand_for_the_models_below_them(folder: Path) -> None:
    below = ["sub/b.gguf", "sub/dup.gguf", "sub/page.gguf", "sub/deep/C.GGUF"]
    assert paths("sub") == below
    assert paths(".") == ["./a.gguf", *(f"./{path}" for path in below)]


def test_files_are_taken_as_they_are_named(folder: Path) -> None:
    assert paths("notes.txt", "missing.gguf", "a.gguf", "a.gguf") == ["notes.txt", "missing.gguf", "a.gguf", "a.gguf"]


def test_a_file_named_twice_is_listed_once(folder: Path) -> None:
    assert paths("a.gguf", "./sub/b.gguf", ".", "sub/*.gguf") == [
        "a.gguf", "./sub/b.gguf", "./sub/dup.gguf", "./sub/page.gguf", "./sub/deep/C.GGUF",
    ]  # fmt: skip


def test_globs(folder: Path) -> None:
    assert paths("*/?.gguf") == ["sub/b.gguf"]
    assert paths("s*/**/*.gguf") == ["sub/b.gguf", "sub/dup.gguf", "sub/page.gguf"]
    assert paths("sub/**") == ["sub/b.gguf", "sub/deep/C.GGUF", "sub/dup.gguf", "sub/page.gguf"]
    assert paths("s?b") == ["sub/b.gguf", "sub/dup.gguf", "sub/page.gguf", "sub/deep/C.GGUF"]
    (folder / "x[1].gguf").write_bytes(b"")
    assert paths("x[1].gguf") == ["x[1].gguf"]


def test_arguments_without_files_are_listed_with_the_reason(folder: Path) -> None:
    assert list(inputs(["nothing-*.gguf", "empty"])) == [
        Input("nothing-*.gguf", "no file matches this pattern"),
        Input("empty", "it is a folder without any *.gguf file"),
    ]
    (given,) = inputs(["@missing"])
    assert given == Input("@missing", "the list cannot be read: No such file or directory")


def test_lists(folder: Path) -> None:
    (folder / "list").write_bytes(b"a.gguf\r\n\n  \nsub/b.gguf\nsub/deep\n@list\nlast.gguf")
    assert paths("@list") == ["a.gguf", "sub/b.gguf", "sub/deep/C.GGUF", "@list", "last.gguf"]
    (folder / "nul").write_bytes(b"a.gguf\0new\nline.gguf\0bytes\xff.gguf\0")
    assert paths("@nul") == ["a.gguf", "new\nline.gguf", "bytes\udcff.gguf"]
    (folder / "@at.gguf").write_bytes(b"")
    assert paths("@at.gguf") == ["@at.gguf"]


def test_a_long_list_is_read_piece_by_piece(folder: Path) -> None:
    names = [f"{'x' * (i % 50)}{i}.gguf" for i in range(20_000)]
    (folder / "list").write_text("\n".join(names), encoding="utf-8")
    assert paths("@list") == names
    (folder / "list").write_bytes(b"a.gguf\n" + b"x" * 200_000)
    assert list(inputs(["@list"]))[-1].problem == "the list cannot be read: a name in it is too long"


def test_links_in_circles(folder: Path) -> None:
    (folder / "sub" / "circle").symlink_to(folder / "sub")
    assert len(paths("sub")) == 4


@pytest.mark.skipif(os.geteuid() == 0, reason="root may read everything")
def test_a_forbidden_folder(folder: Path) -> None:
    (folder / "sub" / "deep").chmod(0)
    assert Input("sub/deep", "Permission denied") in inputs(["sub"])
    (folder / "sub" / "deep").chmod(0o755)


# --- one file -----------------------------------------------------------------------------------------------------


def test_check_is_plain_and_the_same_each_time(folder: Path) -> None:
    report = lint_path("sub/dup.gguf")
    assert report == lint_path(Path("sub/dup.gguf")) == pickle.loads(pickle.dumps(report))
    assert codes(report) == {"G203"}
    assert pickle.loads(pickle.dumps(Options(profile="spec"))) == Options(profile="spec")


def test_check_follows_its_options(folder: Path) -> None:
    (folder / "gap.gguf").write_bytes(broken("gap"))
    assert lint_path("gap.gguf", Options(profile="llama.cpp"))["summary"]["errors"] == 1
    assert lint_path("gap.gguf", Options(ignore=("P1",)))["findings"] == []
    assert lint_path("gap.gguf", Options(severity={"P101": "note"}))["summary"]["notes"] == 1
    suppression = Suppression("*.gguf", ("P1",), "an old tool wrote it")
    report = lint_path("gap.gguf", Options(suppressions=(suppression,)))
    assert report["excused"] == [{"code": "P101", "findings": 1, "reason": "an old tool wrote it"}]
    assert lint_path("notes.txt", Options(suppressions=(suppression,)))["excused"] == []


def test_a_bug_of_ours_is_reported_and_not_raised(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def broken(*args: object, **options: object) -> None:
        raise MemoryError

    monkeypatch.setattr(module, "lint", broken)
    report = lint_path("a.gguf")
    assert report["bugs"] == [{"where": "lint", "message": "MemoryError: "}]
    assert not report["ok"]
    assert exit_code(report) == 4


def test_wrong_options_raise_an_error(folder: Path) -> None:
    for wrong in (
        {"profile": "x"},
        {"select": ("X",)},
        {"payload": "x"},
        {"limits": {"x": 1}},
        {"suppressed": {"X": "r"}},
    ):
        with pytest.raises(ValueError, match=r"there are|no rule"):
            Options(**wrong)  # type: ignore[arg-type]
    with pytest.raises(TypeError, match="exclude each other"):
        lint("a.gguf", Options(), profile="strict")


def test_options_pickle_with_the_rules_that_they_select(monkeypatch: pytest.MonkeyPatch) -> None:
    options = Options(profile="security", ignore=("S1",), suppressed={"G203": "known"})
    data = pickle.dumps(options)
    monkeypatch.setattr("i2s_spec.linter.options.selected", None)  # unpickling must not select again
    again = pickle.loads(data)
    assert (again, again.levels, again.reading) == (options, options.levels, "none")


def test_lfs_pointers_can_be_skipped(folder: Path) -> None:
    (folder / "pointer.gguf").write_bytes(broken("lfs_pointer"))
    assert codes(lint_path("pointer.gguf")) == {"G003"}
    report = lint_path("pointer.gguf", Options(skip_lfs=True))
    assert report == skipped(lint_path("pointer.gguf"), "a Git LFS pointer: the model itself was not downloaded")
    assert (exit_code(report), report["ok"], report["findings"]) == (0, True, [])
    assert codes(lint_path("sub/page.gguf", Options(skip_lfs=True))) == {"G004"}


def test_paths_that_are_not_regular_files(folder: Path) -> None:
    os.mkfifo("fifo.gguf")
    with socket.socket(socket.AF_UNIX) as listening:
        listening.bind("socket.gguf")
        os.symlink("nowhere", "dangling.gguf")
        os.symlink("loop.gguf", "loop.gguf")
        names = ["fifo.gguf", "socket.gguf", "dangling.gguf", "loop.gguf", "/dev/zero", "x" * 5000, "nul\0byte", ""]
        for name in names:
            report = lint_path(name)
            assert codes(report) <= {"S901", "S902"}, name
            assert codes(report), name
            assert exit_code(report) == 3
            assert not report["bugs"]


# --- many files ---------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("jobs", [1, 2])
def test_every_file_gets_its_report_in_order(folder: Path, jobs: int) -> None:
    os.mkfifo("fifo.gguf")
    names = ["a.gguf", "missing.gguf", "sub", "fifo.gguf", "empty", "@list", "a.gguf"]
    found = list(lint_paths(names, jobs=jobs))
    assert [path for path, _ in found] == [
        "a.gguf", "missing.gguf", "sub/b.gguf", "sub/dup.gguf", "sub/page.gguf", "sub/deep/C.GGUF", "fifo.gguf",
        "empty", "@list", "a.gguf",
    ]  # fmt: skip
    assert [codes(report) for _, report in found] == [
        set(), {"S901"}, set(), {"G203"}, {"G004"}, set(), {"S902"}, {"S901"}, {"S901"}, set(),
    ]  # fmt: skip
    totals = Totals()
    for _, report in found:
        totals.add(report)
    counts = totals.as_dict()
    assert (counts["files"], counts["ok"], counts["unreadable"], totals.exit_code) == (10, 4, 5, 3)


def test_one_process_and_many_say_the_same(tmp_path: Path) -> None:
    for name, case in some(SMALL.items()):
        (tmp_path / f"{name}.gguf").write_bytes(case.data)
    options = Options(profile="strict", runtimes=False)
    assert list(lint_paths([str(tmp_path)], options, 1)) == list(lint_paths([str(tmp_path)], options, 2))


def test_the_worst_exit_code_counts() -> None:
    totals = Totals()
    assert totals.exit_code == 0
    for code, worst in ((1, 1), (0, 1), (3, 3), (1, 3), (4, 4), (3, 4)):
        totals.fail(code)
        assert totals.exit_code == worst
    warning = check_dict(warnings=1)
    assert [exit_code(warning, level) for level in (*Severity, None)] == [0, 1, 1, 0]


def check_dict(**counts: int) -> dict[str, object]:
    summary = {"readable": True, "errors": 0, "warnings": 0, "notes": 0, "elided": {}, **counts}
    return {"ok": True, "bugs": [], "findings": [], "excused": [], "summary": summary}


# --- processes ----------------------------------------------------------------------------------------------------


def test_results_come_in_order() -> None:
    assert list(in_order(doubled, range(500), 2)) == [(i, 2 * i) for i in range(500)]
    assert list(in_order(slow_first, range(100), 2)) == [(i, i) for i in range(100)]
    assert list(in_order(doubled, [], 2)) == []


def test_large_answers() -> None:
    sizes = [0, 10_000_000, 70_000, 1]
    assert [len(result) for _, result in in_order(large, sizes, 2)] == sizes


def test_output_of_a_worker_is_ignored(capfd: pytest.CaptureFixture[str]) -> None:
    assert list(in_order(talkative, range(5), 2)) == [(i, i) for i in range(5)]
    assert capfd.readouterr().out == ""


def test_workers_that_die_cost_their_item_only() -> None:
    found = list(in_order(deadly, range(40), 2))
    assert [item for item, _ in found] == list(range(40))
    for item, result in found:
        if item % 7 == 3:
            assert str(result) == "the process that checked this file was killed by SIGKILL"
        elif item % 7 == 5:
            assert result == Died(9)
        else:
            assert result == item


def test_items_are_asked_for_as_they_are_needed() -> None:
    asked = 0

    def items() -> Iterator[int]:
        nonlocal asked
        while True:
            asked += 1
            yield asked - 1

    run = in_order(slow_first, items(), 2)
    assert next(run) == (0, 0)
    assert asked <= 2 * WAITING + 10
    run.close()  # type: ignore[attr-defined]


def test_workers_leave_interrupts_to_their_parent() -> None:
    assert list(in_order(interrupted, range(10), 2)) == [(i, i) for i in range(10)]


def test_workers_start_no_threads_of_numpy(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("OPENBLAS_NUM_THREADS", raising=False)
    assert list(in_order(os.getenv, ["OPENBLAS_NUM_THREADS"], 1)) == [("OPENBLAS_NUM_THREADS", "1")]


def children() -> set[str]:
    """The processes that this one started and has not waited for; other tests may have left some."""
    return {child for path in Path("/proc/self/task").glob("*/children") for child in path.read_text().split()}


def test_workers_that_are_busy_are_killed() -> None:
    before = children()
    run = in_order(stuck, range(10), 2)
    assert next(run) == (0, 0)
    assert children() - before
    run.close()  # type: ignore[attr-defined]  # reaching the next line is the test
    assert children() <= before


def test_workers_end_when_the_results_are_closed(monkeypatch: pytest.MonkeyPatch) -> None:
    gc.collect()  # garbage of other tests must not be collected during the measurement
    before, open_before = children(), set(os.listdir("/proc/self/fd"))
    run = in_order(slow_first, range(10_000), 2)
    next(run)
    run.close()  # type: ignore[attr-defined]
    assert children() <= before
    assert set(os.listdir("/proc/self/fd")) <= open_before


INTERRUPTED = """
import os, signal, sys, time
from i2s_spec.cli import main
if __name__ == "__main__":
    main(["lint", "--jobs", "2", "--format", "concise", *sys.argv[1:]])
"""


def group(number: int) -> list[str]:
    """The running processes of a group; zombies do not count."""
    found = []
    for path in Path("/proc").glob("[0-9]*/stat"):
        with suppress(OSError):
            state, _, its = path.read_text(errors="replace").rpartition(")")[2].split()[:3]
            if int(its) == number and state not in "ZX":
                found.append(path.parent.name)
    return found


def test_interrupt_ends_at_once_with_its_workers(folder: Path) -> None:
    for i in range(200):
        os.symlink("a.gguf", f"link{i}.gguf")
    program = folder / "program.py"
    program.write_text(INTERRUPTED, encoding="utf-8")
    names = [f"link{i % 200}.gguf" for i in range(30_000)]
    (folder / "list").write_text("\n".join(names), encoding="utf-8")
    child = subprocess.Popen(
        [sys.executable, str(program), "@list"],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        encoding="utf-8",
        start_new_session=True,
    )
    assert child.stdout is not None
    child.stdout.readline()
    os.killpg(child.pid, signal.SIGINT)  # as Ctrl-C in a terminal does
    listed, errors = child.communicate(timeout=600)
    assert child.returncode == 130
    assert listed.count("\n") < 15_000  # it stopped early
    assert "Traceback" not in errors
    assert not group(child.pid)  # no process remains


@pytest.mark.skipif(not hasattr(signal, "pthread_sigmask"), reason="signals are not blocked here")
def test_an_interrupt_of_a_worker_that_begins_is_for_its_parent(monkeypatch: pytest.MonkeyPatch) -> None:
    """A worker ignores interrupts only after Python has started: before that, one would end it with a traceback."""
    early = f"import os\nos.kill(os.getpid(), {int(signal.SIGINT)})\n"
    monkeypatch.setattr(process_pool, "_PROGRAM", early + process_pool._PROGRAM)
    before = signal.pthread_sigmask(signal.SIG_BLOCK, [])
    assert list(in_order(abs, [-1, -2], 1)) == [(-1, 1), (-2, 2)]
    assert signal.pthread_sigmask(signal.SIG_BLOCK, []) == before


def test_workers_end_when_their_parent_is_killed(folder: Path) -> None:
    program = folder / "program.py"
    program.write_text(INTERRUPTED, encoding="utf-8")
    (folder / "list").write_text("a.gguf\n" * 30_000, encoding="utf-8")
    child = subprocess.Popen([sys.executable, str(program), "@list"], stdout=subprocess.PIPE, start_new_session=True)
    assert child.stdout is not None
    child.stdout.readline()
    os.kill(child.pid, signal.SIGKILL)
    child.communicate()
    deadline = time.monotonic() + 300  # a worker that is still starting ends when it first asks for work
    while time.monotonic() < deadline:
        if not group(child.pid):
            return
        time.sleep(0.05)
    pytest.fail("workers are left")


def test_a_worker_that_dies_at_a_file_is_our_bug(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("i2s_spec.linter.paths.report_on", dies_at_dup)
    found = dict(lint_paths(["sub", "a.gguf"], jobs=2))
    assert found["sub/dup.gguf"]["bugs"][0]["message"] == "the process that checked this file was killed by SIGKILL"
    assert exit_code(found["sub/dup.gguf"]) == 4
    assert found["a.gguf"]["ok"]
    assert codes(found["sub/page.gguf"]) == {"G004"}
