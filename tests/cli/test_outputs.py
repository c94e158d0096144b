"""No output is an input, in any verb, under any name of it; reports and tables replace only their own kind."""

from __future__ import annotations

import shutil
import sys
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager
from functools import partial
from pathlib import Path

import click
import pytest
from one_process import i2s

from i2s_spec.cli.options import INPUT, OUTPUT, is_report
from i2s_spec.cli.process import Progress, counting_bar, progress_bar
from i2s_spec.cli.verbs import VERBS, cli
from i2s_spec.linter.report import FORMATS

#: Parameters that are paths and not of the types `INPUT` and `OUTPUT`: folders of the verb's own state, the options of
#: lint, which a configuration may set too, and files that only verbs without an output read.
_OTHERS = {"fuzz", "lint", "spec", "conform report", "conform run", "demo", "schema", "rules"}


@pytest.fixture(scope="module")
def made(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("outputs")
    for line in ("new m.gguf --layers 1 -q", "export m.gguf -o ck -q", "import ck -o o.gguf --receipt r.json -q"):
        assert i2s(folder, *line.split()).returncode == 0
    (folder / "l.txt").write_text("m.gguf\n", encoding="utf-8")
    (folder / "i.toml").write_text('profile = "strict"\n', encoding="utf-8")
    (folder / "m.jsonl").write_text('{"url": "m.gguf"}\n', encoding="utf-8")
    (folder / "mine.parquet").write_bytes(b"of somebody")
    (folder / "notes.txt").write_text("The words of a user.\n", encoding="utf-8")
    return folder


@pytest.fixture
def place(made: Path, tmp_path: Path) -> Path:
    shutil.copytree(made, tmp_path / "x")
    (tmp_path / "x" / "hard").hardlink_to(tmp_path / "x" / "ck" / "model.safetensors")
    (tmp_path / "x" / "link").symlink_to("ck/config.json")
    return tmp_path / "x"


def content(folder: Path) -> dict[str, bytes]:
    return {str(path): path.read_bytes() for path in sorted(folder.rglob("*")) if path.is_file()}


def commands(group: click.Group = cli, before: str = "") -> Iterator[tuple[str, click.Command]]:
    for name in group.list_commands(click.Context(group)):
        command = group.get_command(click.Context(group), name)
        assert command is not None
        if isinstance(command, click.Group):
            yield from commands(command, f"{before}{name} ")
        else:
            yield before + name, command


def test_every_path_of_every_verb_says_whether_it_is_read_or_written() -> None:
    found = dict(commands())
    assert {name.split()[0] for name in found} == VERBS.keys() - {"validate"}
    for name, command in found.items():
        for parameter in command.params:
            if isinstance(parameter.type, click.Path) and not {name, name.split()[0]} & _OTHERS:
                assert parameter.type in (INPUT, OUTPUT), (name, parameter.name)


@pytest.mark.parametrize(
    "line",
    [
        "lint ck -o ck/model.safetensors", "lint ck -o ./ck/config.json", "lint ck --report html=ck/model.safetensors",
        "lint ck -o hard", "lint ck -o link", "lint m.gguf -o m.gguf", "lint m.gguf --report json=./m.gguf",
        "lint m.gguf --reference ck/model.safetensors -o ck/model.safetensors", "lint m.gguf --reference ck -o hard",
        "lint ck/model.safetensors -o ck/model.safetensors", "lint @l.txt -o l.txt", "lint m.gguf --config i.toml -o i.toml",
        "lint m.gguf --config i.toml --report json=./i.toml", "lint ck/*.safetensors -o hard",
        "lint --engine dask m.jsonl --report json=m.jsonl", "census m.jsonl -o ./m.jsonl",
        "import ck -o ck/model.safetensors", "import ck -o hard", "import ck -o x.gguf --receipt ck/config.json",
        "import ck -o x.gguf --receipt link", "import ck -o x.gguf --base m.gguf --receipt m.gguf",
        "import ck -o m.gguf --base m.gguf --receipt-in-file", "quantize m.gguf -o m.gguf", "fix m.gguf -o ./m.gguf",
        "sanitize m.gguf -o m.gguf", "quantize m.gguf -o notes.txt --text notes.txt",
        "convert ck x.gguf --into m.gguf -o m.gguf", "convert ck m.gguf --into m.gguf",
    ],
)  # fmt: skip
@pytest.mark.parametrize("force", [True, False])
def test_no_output_is_an_input(place: Path, line: str, force: bool) -> None:
    before = content(place)
    done = i2s(place, *line.split(), *(["--force"] if force else []))
    assert done.returncode == 2
    assert "is an input file; the output needs another name" in done.stderr or "is given twice" in done.stderr
    assert content(place) == before


@pytest.mark.parametrize(
    "line",
    [
        "import ck -o x.gguf --receipt ./x.gguf --force", "lint m.gguf -o x --report json=x",
        "lint m.gguf --report json=x --report html=x", "lint m.gguf --report json=x --report html=./x",
        "lint m.gguf -o x --baseline x --write-baseline", "lint --engine dask m.gguf --results q.jsonl -o q.jsonl",
        "lint --engine dask m.gguf --results q.jsonl -o q.parquet",
        "conform run --report junit=x --report html=x -- false",
    ],
)  # fmt: skip
def test_two_outputs_have_two_names(place: Path, line: str) -> None:
    before = content(place)
    done = i2s(place, *line.split())
    assert (done.returncode, "is the name of two outputs; each needs its own" in done.stderr) == (2, True), done.stderr
    assert content(place) == before


@pytest.mark.parametrize("other", ["r.json", "notes.txt", "mine.parquet", "ck/tokenizer.json", "i.toml"])
def test_a_report_replaces_no_other_file(place: Path, other: str) -> None:
    before = content(place)
    done = i2s(place, "lint", "m.gguf", "--no-config", "-o", other)
    assert (done.returncode, "is no report; use --force to replace it" in done.stderr) == (2, True)
    assert content(place) == before
    assert i2s(place, "lint", "m.gguf", "--no-config", "-o", other, "--force").returncode == 0
    assert is_report(str(place / other))


def test_no_report_replaces_a_model(place: Path) -> None:
    done = i2s(place, "lint", "m.gguf", "-o", "o.gguf", "--force")
    assert (done.returncode, "is a GGUF file; no report replaces it" in done.stderr) == (2, True)


@pytest.mark.parametrize("words", [["m.gguf"], ["m.gguf", "-q"], ["notes.txt"], ["gone.gguf"], ["m.gguf", "notes.txt"]])
def test_a_report_replaces_a_report_of_any_form(place: Path, words: list[str]) -> None:
    for form in (*FORMATS, *FORMATS):
        done = i2s(place, "lint", *words, "--format", form, "-o", "report")
        assert done.returncode in (0, 3), (form, done.stderr)
        assert is_report(str(place / "report")), form


def test_what_an_earlier_call_wrote_into_a_folder_is_replaced(place: Path) -> None:
    for line in ("import . -o o.gguf --force -q", "import . -o o.gguf --force -q", "lint . -o report.json --format json",
                 "lint . -o report.json --format json"):  # fmt: skip
        assert i2s(place / "ck", *line.split()).returncode in (0, 1), line


@pytest.mark.parametrize("bar", [partial(progress_bar, "hashing"), partial(counting_bar, "asking", 3, forks=True)])
def test_what_is_printed_beside_a_bar_stays_on_stdout(
    bar: Callable[[], AbstractContextManager[Progress | None]],
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    monkeypatch.setattr(sys.stderr, "isatty", lambda: True)
    with bar() as advance:
        assert advance is not None
        advance(1, 3)
        print("a result")
    assert capsys.readouterr().out == "a result\n"


def test_what_a_schema_is_written_to_is_replaced_only_with_force(tmp_path: Path) -> None:
    assert i2s(tmp_path, "schema", "-o", "s.json").returncode == 0
    again = i2s(tmp_path, "schema", "-o", "s.json")
    assert (again.returncode, "s.json already exists; use --force to overwrite it" in again.stderr) == (2, True)
    assert i2s(tmp_path, "schema", "-o", "s.json", "--force").returncode == 0
