"""Run mistralrs on a file: ANSWER FILE."""

import json
import os
import sys
from pathlib import Path

os.environ["RUST_BACKTRACE"] = "0"

from mistralrs import Runner, Which  # it reads the variable when it is loaded

path = Path(sys.argv[2])
Runner(which=Which.GGUF(tok_model_id=None, quantized_model_id=str(path.parent), quantized_filename=path.name))
Path(sys.argv[1]).write_text(json.dumps({"loads": True}), encoding="utf-8")
