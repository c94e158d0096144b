"""The page on exports and the help promise nothing that no row of the table shows."""

from __future__ import annotations

import json
import re
from pathlib import Path

from peers.exports import ALL, EXPORTS_FILE

from i2s_site import exports as page
from i2s_site.checkout import root
from i2s_spec.cli.rules import schema_command

ROWS = json.loads(EXPORTS_FILE.read_text(encoding="utf-8"))["rows"]


def test_every_reader_has_a_row_and_read_every_file() -> None:
    assert [row["name"] for row in ROWS] == [each.name for each in ALL]
    for row in ROWS:
        assert row["version"]
        assert row["sound"][0] == row["sound"][1] > 0
        assert row["malformed"][0] == row["malformed"][1]


def test_languages_of_kaitai_that_are_named_are_those_that_were_read() -> None:
    read = {row["title"] for row in ROWS if row["export"] == "Kaitai"}
    for text in (schema_command.help or "", Path(root(), "spec", "exports.md").read_text(encoding="utf-8")):
        (named,) = re.findall(r"Kaitai Struct: parsers in ([\w+, ]+)", text)
        assert set(re.split(r", | and ", named.strip())) == read
        assert "dozen" not in text


def test_the_table_has_a_line_for_each_row() -> None:
    lines = page.read_by().splitlines()
    assert len(lines) == len(ROWS) + 4  # and shaders and kernels, which the records of vectors have
    assert sum("in CI" in line for line in lines) == sum(each.in_ci for each in ALL) + 2
