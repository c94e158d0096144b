"""Run the package gguf-parser on a file like its command line does: parse, then print. Arguments: ANSWER FILE."""

import contextlib
import io
import json
import sys
from pathlib import Path

from gguf_parser import GGUFParser

parser = GGUFParser(sys.argv[2])
parser.parse()
printed = io.StringIO()
with contextlib.redirect_stdout(printed):
    parser.print()
types = sorted(
    {line.partition("Type: ")[2].partition(",")[0] for line in printed.getvalue().splitlines() if "\tType: " in line}
)
shown = f"types {', '.join(types)}"
Path(sys.argv[1]).write_text(json.dumps({"loads": True, "shown": shown}), encoding="utf-8")
