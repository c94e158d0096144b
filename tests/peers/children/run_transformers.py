"""Run transformers on a file: ANSWER FILE TOKENS VOCABULARY LETTER.

FILE is a GGUF file for its own reader (`gguf_file=`), or the weights of a checkpoint in a folder of its own.
"""

import json
import os
import sys
from pathlib import Path

os.environ |= {"HF_HUB_OFFLINE": "1", "TORCHDYNAMO_DISABLE": "1", "TRANSFORMERS_VERBOSITY": "error"}

import torch
from transformers import AutoModelForCausalLM

path = Path(sys.argv[2])
tokens = json.loads(sys.argv[3])
torch.set_num_threads(1)
more = {"gguf_file": path.name} if path.suffix == ".gguf" else {}
model = AutoModelForCausalLM.from_pretrained(path.parent, dtype=torch.float32, attn_implementation="eager", **more)
rows = []
if tokens:
    with torch.no_grad():
        logits = model(torch.tensor([tokens])).logits[0].double()
    rows = torch.log_softmax(logits, -1).tolist()
Path(sys.argv[1]).write_text(json.dumps({"loads": True, "log_probabilities": rows}), encoding="utf-8")
