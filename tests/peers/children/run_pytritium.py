"""Run pytritium on a file: ANSWER FILE TOKENS VOCABULARY LETTER. It returns tokens alone: the likeliest ones that follow."""

import json
import sys
from pathlib import Path

import tritium

#: As many as `records.GENERATED`, and a number that ends no text.
COUNT, NEVER = 16, 4_000_000_000

tokens = json.loads(sys.argv[3])
model = tritium.Model.load(sys.argv[2])
found = [int(token) for token in model.generate(tokens, COUNT, eos=NEVER)] if tokens else []
Path(sys.argv[1]).write_text(json.dumps({"loads": True, "tokens": found}), encoding="utf-8")
