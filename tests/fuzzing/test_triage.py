"""Triage: failures of one kind are grouped, minimized, written once with a page, and replayed by the printed command."""

from __future__ import annotations

import re
import shlex
import subprocess
import sys
from hashlib import sha256
from pathlib import Path
from random import Random
from typing import Any

import pytest

ROOT = Path(__file__).resolve().parents[2]
FUZZ = ROOT / "fuzz"

#: A harness with planted bugs, each triggered by a word, except words listed in the file `MENDED`.
TOY = """
import ctypes, os, sys, time
from pathlib import Path
import pytest

HERE = Path(__file__).resolve().parent
CACHED = sorted((HERE / "regressions" / "toy").glob("*"))

def key(data):
    return {}[data[:3].hex()]

def number(data):
    return int(f"`|{len(data)}\\x1b[2J\\n")

def deeper(depth):
    return deeper(depth + 1)

def spin():
    while True:
        time.sleep(0.001)

def guarded(data):
    try:
        return [][len(data)]
    except IndexError:
        if os.environ.get("I2S_DEBUG"):
            raise
        return "bug"

calls = [0]

def one_input(data):
    calls[0] += 1
    mended = (HERE / "MENDED").read_bytes().split() if (HERE / "MENDED").exists() else []
    has = lambda word: word in data and word not in mended
    if has(b"KEY"): key(data)
    if has(b"KAY"): key(data)
    if has(b"NUMBER") and len(data) > 8: number(data)
    if has(b"DEEP"): deeper(0)
    if has(b"SPIN"): spin()
    if has(b"SIGNAL"): ctypes.string_at(0)
    if has(b"EXIT"): os._exit(7)
    if has(b"LEAVE"): sys.exit("away")
    if has(b"MUCH"): bytes(16 << 30)
    if has(b"GUARD"):
        assert guarded(data) != "bug", len(data)
    if has(b"WITHIN"):
        try:
            key(data)
        except KeyError as error:
            assert not data, error
    for rule in ("G101", "G102"):
        assert not has(rule.encode()), f"Finding(code={rule!r}, got={len(data)})"
    if has(b"ODD"):
        assert calls[0] % 2

@pytest.mark.parametrize("path", CACHED, ids=[path.name for path in CACHED])
def test_corpus(path):
    one_input(path.read_bytes())
"""


@pytest.fixture
def triage(monkeypatch: pytest.MonkeyPatch) -> Any:
    monkeypatch.syspath_prepend(str(FUZZ))
    import triage

    return triage


@pytest.fixture
def toy(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    folder = tmp_path / "toys"
    folder.mkdir()
    (folder / "fuzz_toy.py").write_text(TOY, "utf-8")
    monkeypatch.chdir(folder)
    return folder


def planted(folder: Path, *words: str, each: int = 2) -> Path:
    """Finds: each word a few times, in the midst of bytes that do not matter."""
    chance = Random(7)
    finds = folder / "found"
    finds.mkdir(exist_ok=True)
    for word in words:
        for number in range(each):
            around = [bytes(chance.choices(range(97, 123), k=20 + 30 * number)) for _ in range(2)]
            (finds / f"crash-{word}-{number}").write_bytes(around[0] + word.encode() + around[1])
    return finds


def run(triage: Any, finds: Path, *words: str) -> int:
    given = ["fuzz_toy.py", str(finds), "--regressions", "regressions", "--timeout", "300", *words]
    status: int = triage.main(given)
    return status


def written(folder: Path) -> dict[str, str]:
    root = folder / "regressions"
    files = (path for path in root.rglob("*") if path.is_file())
    return {path.relative_to(root).as_posix(): sha256(path.read_bytes()).hexdigest() for path in files}


def test_failures_are_grouped_minimized_and_written_once(
    triage: Any, toy: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    finds = planted(toy, "KEY", "NUMBER", "GUARD", each=3)
    (finds / "crash-nothing").write_bytes(b"harmless")
    assert run(triage, finds) == 1
    said = capsys.readouterr().out
    assert "10 files, 3 signatures, 3 new" in said
    assert "passes: found/crash-nothing" in said
    assert said.count("3 finds: ") == 3

    kept = {path.name: path.read_bytes() for path in (toy / "regressions" / "toy").iterdir()}
    assert kept["keyerror-in-key"] == b"KEY"
    assert kept["valueerror-in-number"] == b"\0\0\0NUMBER" or len(kept["valueerror-in-number"]) == 9
    assert kept["indexerror-in-guarded"] == b"GUARD"  # the bug itself, not the harness's assertion about it
    assert len(kept) == 3

    before = written(toy)
    assert run(triage, finds) == 0
    assert "3 signatures, 0 new" in (said := capsys.readouterr().out)
    assert said.count("known: regressions/toy/") == 3
    assert written(toy) == before


@pytest.mark.thorough
def test_the_printed_command_replays_and_passes_after_a_fix(
    triage: Any, toy: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    run(triage, planted(toy, "KEY", each=1))
    line = re.search(r"replay: (pytest .*)", capsys.readouterr().out)
    assert line
    words = [
        sys.executable,
        "-m",
        "pytest",
        "-q",
        "-c",
        "/dev/null",
        "-p",
        "no:cacheprovider",
        *shlex.split(line[1])[1:],
    ]
    failing = subprocess.run(words, capture_output=True, text=True, check=False)
    assert failing.returncode == 1, failing.stdout
    assert "KeyError" in failing.stdout
    (toy / "MENDED").write_text("KEY")
    passing = subprocess.run(words, capture_output=True, text=True, check=False)
    assert (passing.returncode, "1 passed" in passing.stdout) == (0, True), passing.stdout


def test_a_new_bug_in_the_place_of_a_fixed_one_is_new(
    triage: Any, toy: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    run(triage, planted(toy, "KEY", each=1), "--name", "first")
    same = (toy / "fuzz_toy.py").read_text().replace('    if has(b"KEY"): key(data)\n    if has(b"KAY"): key(data)\n',
                                                      '    if has(b"KEY") or has(b"KAY"): key(data)\n')  # fmt: skip
    (toy / "fuzz_toy.py").write_text(same)
    run(triage, planted(toy, "KEY", each=1), "--name", "first")
    capsys.readouterr()
    (toy / "MENDED").write_text("KEY")
    assert run(triage, planted(toy, "KAY", each=1), "--name", "first") == 1
    kept = {path.name: path.read_bytes() for path in (toy / "regressions" / "toy").iterdir()}
    assert b"KAY" in kept.values()
    assert {"first", "first-2"} <= kept.keys()
    assert {path.stem for path in (toy / "regressions" / "pages" / "toy").iterdir()} == kept.keys()


@pytest.mark.thorough
@pytest.mark.parametrize(
    ("word", "kind", "name", "more"),
    [
        ("DEEP", "RecursionError", "recursionerror-in-deeper", ()),
        ("SPIN", "hang", "hang-in-spin", ("--timeout", "0.4", "--runs", "6", "--seconds", "60")),
        ("SIGNAL", "SIGSEGV", "sigsegv-in-one-input", ()),
        ("EXIT", "exit 7", "exit-7", ()),
        ("LEAVE", "SystemExit", "systemexit-in-one-input", ()),
        ("MUCH", "MemoryError", "memoryerror-in-one-input", ("--memory", "512")),
    ],
)
def test_every_abnormal_end_is_a_finding(
    triage: Any, toy: Path, word: str, kind: str, name: str, more: tuple[str, ...], capsys: pytest.CaptureFixture[str]
) -> None:
    finds = planted(toy, word)
    assert run(triage, finds, "--seconds", "4", *more) == 1
    assert f"2 finds: {kind}" in capsys.readouterr().out
    small = (toy / "regressions" / "toy" / name).read_bytes()
    assert word.encode() in small
    assert len(small) < 45
    assert run(triage, finds, *more) == 0


def test_assertions_about_an_error_or_a_rule_are_grouped_by_it(
    triage: Any, toy: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert run(triage, planted(toy, "WITHIN", "G101", "G102")) == 1
    said = capsys.readouterr().out
    assert "2 finds: KeyError < toys/fuzz_toy.py:key" in said
    assert "2 finds: AssertionError G101 < toys/fuzz_toy.py:one_input" in said
    assert "2 finds: AssertionError G102 < toys/fuzz_toy.py:one_input" in said
    assert "3 signatures, 3 new" in said


def test_pages_are_complete_and_escaped(triage: Any, toy: Path, capsys: pytest.CaptureFixture[str]) -> None:
    run(triage, planted(toy, "NUMBER"))
    said = capsys.readouterr().out
    assert all(char.isprintable() or char == "\n" for char in said)
    page = (toy / "regressions" / "pages" / "toy" / "valueerror-in-number.md").read_text("utf-8")
    assert all(char.isprintable() or char == "\n" for char in page)
    rows = dict(re.findall(r"^\| ([a-z ]+) \| (.*) \|$", page, re.M))
    assert rows.keys() == {"harness", "input", "found as", "what failed", "signature"}
    assert rows["found as"].startswith("`crash-NUMBER-0`, 46 bytes and 1 more")
    assert r"\x1b[2J" in rows["what failed"]
    assert "'\\|9" in rows["what failed"]  # quotes and bars in the text are escaped for the table
    assert rows["what failed"].count("`") == 4
    assert re.fullmatch(r"`ValueError < toys/fuzz_toy\.py:number: .* < toys/fuzz_toy\.py:one_input: .*` \([0-9a-f]{12}\)",
                        rows["signature"])  # fmt: skip
    assert "pytest fuzz_toy.py -k valueerror-in-number" in page
    assert "4e 55 4d 42 45 52" in page
    assert triage.Shelf.__module__ == "triage_page"
    from triage_page import UNWRITTEN

    assert UNWRITTEN in page


def test_unsteady_failures_are_not_written(triage: Any, toy: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert run(triage, planted(toy, "ODD", each=1)) == 0
    assert "unsteady: found/crash-ODD-0" in capsys.readouterr().out
    assert written(toy) == {}


def test_dry_run_writes_nothing(triage: Any, toy: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert run(triage, planted(toy, "KEY"), "--dry-run") == 1
    assert "made small: 3 bytes" in capsys.readouterr().out
    assert written(toy) == {}


@pytest.mark.parametrize(
    ("words", "says"),
    [
        (["no_such", "x"], "there is no harness 'no_such': one of command_line, container,"),
        (["fuzz_toy.py", "x", "--name", "../away"], r"'../away' is no name"),
        (["fuzz_toy.py", "not-there"], "No such file"),
        (["broken.py", "fuzz_toy.py"], "broken.py cannot be loaded: ZeroDivisionError: division by zero"),
    ],
)
def test_a_harness_that_cannot_run_is_refused_with_a_sentence(
    triage: Any, toy: Path, words: list[str], says: str, capsys: pytest.CaptureFixture[str]
) -> None:
    (toy / "broken.py").write_text("1 / 0")
    assert triage.main(words) == 2
    captured = capsys.readouterr()
    assert says in captured.err
    assert (captured.out, captured.err.count("\n")) == ("", 1)


def test_nothing_is_left_behind(triage: Any, toy: Path, monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    from triage_run import Runner

    place = tmp_path / "tmp"
    place.mkdir()
    monkeypatch.setattr("tempfile.tempdir", str(place))
    with Runner(toy / "fuzz_toy.py", seconds=300) as runner:
        assert runner.failure(b"fine") is None
        process = runner._process
        assert process is not None
        monkeypatch.setattr(runner, "_seconds", 0.5)
        hang = runner.failure(b"SPIN")
        monkeypatch.setattr(runner, "_seconds", 300)
        assert hang is not None
        assert process.returncode is not None
        assert runner.failure(b"fine") is None  # a new process has taken its place
        process = runner._process
    assert process is not None
    assert process.returncode is not None
    assert list(place.iterdir()) == []


def kept_regressions() -> list[Path]:
    folders = (folder for folder in (FUZZ / "regressions").iterdir() if folder.is_dir() and folder.name != "pages")
    return sorted(path for folder in folders for path in folder.iterdir() if path.name != "README")


def test_every_regression_has_a_page_and_every_page_a_regression(triage: Any) -> None:
    from triage_page import UNWRITTEN

    pages = {path: path.read_text("utf-8") for path in (FUZZ / "regressions" / "pages").glob("*/*.md")}
    wanted = {FUZZ / "regressions" / "pages" / path.parent.name / f"{path.stem}.md" for path in kept_regressions()}
    assert pages.keys() == wanted
    for path, text in pages.items():
        assert UNWRITTEN not in text, path
        named = re.search(r"^\| input \| `([^`]+)`, ([\d,]+) bytes, SHA-256 `([0-9a-f]{16})` \|$", text, re.M)
        assert named, path
        data = (FUZZ / "regressions" / path.parent.name / named[1]).read_bytes()
        assert (f"{len(data):,}", sha256(data).hexdigest()[:16]) == (named[2], named[3]), path
        assert f"pytest fuzz/fuzz_{path.parent.name}.py -k {path.stem}" in text


def test_every_harness_has_its_folders() -> None:
    """The commands of `fuzz/README.md` name them, and libFuzzer refuses a folder that is not there."""
    for name in (path.stem.removeprefix("fuzz_") for path in FUZZ.glob("fuzz_*.py")):
        assert list((FUZZ / "corpus" / name).iterdir())
        assert (FUZZ / "regressions" / name / "README").is_file()  # keeps an empty folder in the repository


def test_pages_are_not_used_as_inputs(triage: Any) -> None:
    import harness

    for name in (path.stem.removeprefix("fuzz_") for path in FUZZ.glob("fuzz_*.py")):
        assert not [path for path in harness.inputs(name) if path.suffix == ".md" or path.name.startswith(".")]
