# %% [markdown]
# # Look at a file in a notebook
#
# This page is a notebook that was run. Get it [with its outputs](notebook.ipynb) for Jupyter, or as
# [Python](notebook.py), which VS Code, Spyder and Jupytext open as a notebook too. It needs the package and nothing else.
#
# ## Open a file
#
# `i2s.new` makes a small model, so that there is something to look at; take a file of yours instead. A path is
# taken, and so are bytes, a memory map, an array of bytes, a file object, and a `gguf.GGUFReader`.

# %%
import i2s_spec as i2s

i2s.new("model.gguf", layers=1)
file = i2s.open("model.gguf")
file

# %% [markdown]
# Nothing but the header was read. Keys and tensors are mappings; what is asked for is read then.

# %%
file.metadata["general.architecture"], len(file.tensors)

# %% [markdown]
# ## Weights
#
# A plain tensor is an array for NumPy, and for everything that takes DLPack. A ternary tensor is not: its codes have to be
# decoded, in a layout that the file does not name.

# %%
import numpy as np

np.asarray(file.tensors["output_norm.weight"])[:8]

# %%
tensor = file.tensors["blk.0.attn_q.weight"]
tensor

# %%
trits = tensor.trits()
print("scale", tensor.scale())
print("-1, 0, +1:", [int((trits == trit).sum()) for trit in (-1, 0, 1)])
trits[:2, :12]

# %% [markdown]
# ## Is the file sound?
#
# `i2s.lint` reads header and weights, and gives a report. Here is a damaged copy: one byte of a scale is changed.

# %%
with open("model.gguf", "rb") as stream:
    data = bytearray(stream.read())
data[tensor.tail_span.start + 3] ^= 0x80
report = i2s.lint(data, select=["I"])
report

# %% [markdown]
# Each finding names the bytes, and what its rule says. `report.to_pandas()` and `report.to_arrow()` make tables of them,
# where these libraries are installed; `report.as_dict()` is the JSON of `i2s lint --json`.

# %%
report.findings[0]

# %%
print(report)

# %% [markdown]
# ## Where does it come from, and how is it packed?

# %%
i2s.identify("model.gguf")

# %% [markdown]
# ## Run it, and compare another runtime
#
# A record holds every value of a forward pass. Here the other runtime is this package with SiLU in the place of the squared
# ReLU; any dump of a runtime is compared the same way ([Compare your runtime](compare.md)).

# %%
tokens = i2s.load_tokenizer("model.gguf").encode("The weights are ternary.")
with i2s.load_model("model.gguf") as model:
    i2s.golden.record(model, tokens, "golden")
with i2s.load_model("model.gguf", activation="silu") as model:
    i2s.golden.record(model, tokens, "theirs")
i2s.golden.compare("golden", "theirs", model="model.gguf")

# %% [markdown]
# What is public is in [The package](../api.md), each with an example.
