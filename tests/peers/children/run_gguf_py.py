"""Run the package gguf on a file: ANSWER FILE. It reports the number of tensors and their types."""

import json
import sys
from collections import Counter
from pathlib import Path

import gguf

tensors = gguf.GGUFReader(sys.argv[2]).tensors
types = Counter(tensor.tensor_type.name for tensor in tensors)
shown = ", ".join(f"{count} {name}" for name, count in sorted(types.items()))
Path(sys.argv[1]).write_text(json.dumps({"loads": True, "shown": shown}), encoding="utf-8")
