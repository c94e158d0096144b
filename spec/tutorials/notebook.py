# %% [markdown]
# # Look at a file in a notebook
#
# This page is an executed notebook. Download it [with its outputs](notebook.ipynb) for Jupyter, or as
# [Python](notebook.py), which VS Code, Spyder and Jupytext also open as a notebook. It needs only the package.
#
# ## Open a file
#
# `i2s.new` makes a small model for this page; you can use your own file instead. `i2s.open` accepts a path, bytes, a
# memory map, an array of bytes, a file object, or a `gguf.GGUFReader`.

# %%
import i2s_spec as i2s

i2s.new("model.gguf", layers=1, force=True)
file = i2s.open("model.gguf")
file

# %% [markdown]
# So far only the header was read. Keys and tensors are mappings; their values are read on access.

# %%
file.metadata["general.architecture"], len(file.tensors)

# %% [markdown]
# ## Weights
#
# NumPy and every library that supports DLPack accept a plain tensor as an array. The codes of a ternary tensor must be
# decoded first, in a layout that the file does not name.

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
# ## Check the file
#
# `i2s.lint` reads header and weights, and returns a report. This one is about a damaged copy, in which one byte of a scale
# is changed.

# %%
with open("model.gguf", "rb") as stream:
    data = bytearray(stream.read())
data[tensor.tail_span.start + 3] ^= 0x80
report = i2s.lint(data, select=["I"])
report

# %% [markdown]
# Each finding names its bytes and its rule. `report.to_pandas()` and `report.to_arrow()` make tables of the findings if
# these libraries are installed; `report.as_dict()` is the JSON of `i2s lint --json`.

# %%
report.findings[0]

# %%
print(report)

# %% [markdown]
# ## Identify producer and layout

# %%
i2s.identify("model.gguf")

# %% [markdown]
# ## Run it, and compare another runtime
#
# A record contains every value of a forward pass. Here the other runtime is this package with SiLU instead of squared ReLU;
# the dump of any runtime is compared in the same way ([Compare your runtime](compare.md)).

# %%
tokens = i2s.load_tokenizer("model.gguf").encode("The weights are ternary.")
with i2s.load_model("model.gguf") as model:
    i2s.golden.record(model, tokens, "golden", force=True)
with i2s.load_model("model.gguf", activation="silu") as model:
    i2s.golden.record(model, tokens, "theirs", force=True)
i2s.golden.compare("golden", "theirs", model="model.gguf")

# %% [markdown]
# [The package](../api.md) lists all public names, each with an example.
