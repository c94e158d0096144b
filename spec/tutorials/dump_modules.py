"""python dump_modules.py CHECKPOINT 1,2,3 mine.npz: what every module of a model in transformers gives."""

import sys

import numpy as np
import torch
from transformers import AutoModelForCausalLM

folder, tokens, answer = sys.argv[1:]
torch.compiler.set_stance("force_eager")  # transformers compiles its quantizer of activations
model = AutoModelForCausalLM.from_pretrained(folder, dtype=torch.float32, attn_implementation="eager")
values = {}


def store(name):
    """Return a hook that stores the output of a module."""

    def hook(module, inputs, output):
        value = output[0] if isinstance(output, tuple) else output
        if isinstance(value, torch.Tensor):
            values[name] = value[0].float().cpu().numpy()

    return hook


for name, module in model.named_modules():
    if name:
        module.register_forward_hook(store(name))
with torch.inference_mode():
    model(torch.tensor([[int(token) for token in tokens.split(",")]]))
np.savez(answer, **values)
