"""The trained models that come with this package: small ternary models of short stories, under CC0 1.0.

model       the files as bytes and as open `File`s, and copies of them in another type, dialect, byte order or architecture
card        what is known of a model: data, sizes, losses, digests

`stories.gguf` is a `bitnet-b1.58` (sub-norms, squared ReLU) and the model that verbs take without a file; `llama.gguf` is
a smaller `llama` (no sub-norms, SiLU, neighboring pairs rotated). `training/` of the repository made both. They are kept
compressed (`NAME.gguf.xz`), because codes of two bits for three values leave a fifth of every byte unused.
"""
