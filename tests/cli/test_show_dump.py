from __future__ import annotations

import io
import json
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner
from transcripts_runner import real_files, run

from i2s_spec.cli import cli
from i2s_spec.draw import terminal
from i2s_spec.errors import EXIT_BROKEN_PIPE
from i2s_spec.gguf.reader import open as open_file
from i2s_spec.inspect import show, show_text
from i2s_spec.testing.sample import Draft


@pytest.mark.usefixtures("shared")
@pytest.mark.parametrize("path", real_files(), ids=lambda path: path.name)
@pytest.mark.parametrize("verb", ["show", "dump"])
def test_every_real_file_gets_an_answer(verb: str, path: Path) -> None:
    text, as_json = (run(f"i2s {verb} {option} '{path}'", Path()) for option in ("", "--json"))
    expected = 3 if path.suffix == ".gz" else 1 if "mini" in path.name else 0
    for output in (text, as_json):
        assert output.endswith(f"[exit {expected}]\n" if expected else "\n")
        assert "Traceback" not in output
        assert "internal error" not in output
    document = json.loads(as_json.partition("stderr:")[0].removesuffix(f"[exit {expected}]\n"))
    assert document["schema_version"] == 1
    assert (document["fault"] is None) == (expected == 0)


@pytest.mark.parametrize("verb", ["show", "dump"])
def test_help_has_an_example(verb: str) -> None:
    result = CliRunner().invoke(cli, [verb, "--help"])
    assert result.exit_code == 0
    assert f"&& i2s {verb} tiny.gguf" in result.output


def test_show_of_a_header_is_light(tmp_path: Path) -> None:
    path = tmp_path / "sample.gguf"
    path.write_bytes(Draft().data)
    code = "import sys; from i2s_spec.cli import main\ntry: main(['show', sys.argv[1]])\nexcept SystemExit: pass\n"
    code += "print(sorted({'numpy', 'construct', 'rich'} & set(sys.modules)), file=sys.stderr)"
    result = subprocess.run([sys.executable, "-c", code, str(path)], capture_output=True, encoding="utf-8", check=True)
    assert result.stderr.strip() == "[]"


@pytest.mark.parametrize("arguments", [["show", "--json"], ["dump", "--all"]])
def test_broken_pipe_is_quiet(tmp_path: Path, arguments: list[str]) -> None:
    path = tmp_path / "long.gguf"
    draft = Draft()
    file = draft.records()
    file.data += bytes(4 << 20)
    file.tensor_infos *= 3000
    path.write_bytes(draft.built(file))
    command = [sys.executable, "-m", "i2s_spec", *arguments, str(path)]
    with subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE) as process:
        assert process.stdout is not None
        assert process.stderr is not None
        process.stdout.readline()
        process.stdout.close()
        assert process.stderr.read() == b""
        assert process.wait() == EXIT_BROKEN_PIPE


class Terminal(io.StringIO):
    encoding = "utf-8"

    def isatty(self) -> bool:
        return True


def on_terminal(monkeypatch: pytest.MonkeyPatch, columns: int, lines: Callable[[], Any]) -> str:
    monkeypatch.setenv("COLUMNS", str(columns))
    monkeypatch.setenv("TERM", "xterm-256color")
    monkeypatch.delenv("NO_COLOR", raising=False)
    stream = Terminal()
    terminal.write(lines(), stream)
    return stream.getvalue()


@pytest.mark.parametrize("columns", [40, 80, 132, 200])
def test_a_terminal_gets_colour_and_lines_that_fit(monkeypatch: pytest.MonkeyPatch, columns: int) -> None:
    import re

    with open_file(Draft().data) as file:
        text = on_terminal(monkeypatch, columns, lambda: show_text.page(show.describe(file), columns))
    assert "\x1b[1m" in text
    plain = re.sub(r"\x1b\[[0-9;]*m", "", text)
    assert "\x1b" not in plain
    assert max(map(len, plain.splitlines())) <= columns


def test_no_color(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("NO_COLOR", "1")
    monkeypatch.setenv("TERM", "xterm-256color")
    stream = Terminal()
    with open_file(Draft().data) as file:
        terminal.write(show_text.page(show.describe(file), 80), stream)
    assert "\x1b[3" not in stream.getvalue()  # bold is not a color


def test_a_stream_that_is_not_unicode_gets_escapes() -> None:
    raw = io.BytesIO()
    stream = io.TextIOWrapper(raw, encoding="ascii")
    terminal.write([[terminal.Piece("a… b")]], stream)
    stream.flush()
    assert raw.getvalue() == b"a\\u2026 b\n"


def test_rows_of_a_long_table_are_elided(tmp_path: Path) -> None:
    draft = Draft()
    file = draft.records()
    file.key_values *= 200
    (tmp_path / "keys.gguf").write_bytes(draft.built(file))
    short, long = run("i2s show keys.gguf", tmp_path), run("i2s show --all keys.gguf", tmp_path)
    assert "… 600 keys are not shown; --all shows them" in short
    assert "not shown" not in long
    assert (short.count("general.name"), long.count("general.name")) == (125, 200)
    assert len(json.loads(run("i2s show --json keys.gguf", tmp_path))["keys"]) == 1600
