"""An adapter for transformers on the folders that `i2s export` makes of models. Argument: a Python that has i2s."""

import os
import subprocess
import sys
import tempfile
from pathlib import Path

os.environ |= {"HF_HUB_OFFLINE": "1", "TORCHDYNAMO_DISABLE": "1", "TRANSFORMERS_VERBOSITY": "error"}

import torch
import transformers
from speak import speak

torch.set_num_threads(1)
torch.set_grad_enabled(False)
FOLDER = Path(tempfile.mkdtemp(prefix="i2s-transformers-"))


def model(path):
    """The model of a file; each file is exported once."""
    folder = FOLDER / Path(path).stem
    if not folder.exists():
        words = [sys.argv[1], "-m", "i2s_spec", "export", path, "-o", str(folder), "--quiet"]
        for form in ((), ("--form", "F32")):  # the second for tensors with several scales
            done = subprocess.run([*words, *form], capture_output=True, encoding="utf-8", check=False)
            if not done.returncode:
                break
        else:
            raise ValueError(done.stderr.strip()[-250:])
    kind = transformers.AutoModelForCausalLM
    return kind.from_pretrained(folder, dtype=torch.float32, attn_implementation="eager")


def answer(op, path, args, _tokens=None):
    tokens, found = list(args["tokens"]), model(path)
    if op == "forward":
        if args["value"] != "logits":
            return {"skipped": True, "message": "it gives logits"}
        return found(torch.tensor([tokens])).logits[0].numpy().astype("<f4").tobytes()
    for _ in range(args["count"]):
        tokens.append(int(found(torch.tensor([tokens])).logits[0, -1].argmax()))
    return {"json": {"ids": tokens[len(args["tokens"]) :]}}


V = transformers.__version__
ABOUT = {
    "name": "transformers",
    "version": V,
    "language": "python",
    "source": f"PyPI transformers {V}, on `i2s export`",
}
FEATURES = ["type.i2_s", "layout.x86-128", "type.q2_0", "type.tq1_0", "type.tq2_0", "type.f16", "type.ptq1_0"]
speak(ABOUT, ["forward", "generate"], answer, [*FEATURES, "arch.llama", "arch.bitnet-b1.58"])
