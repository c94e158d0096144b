"""The trained models in this package: small ternary models of short stories, under CC0 1.0.

model       the files as bytes and as open `File`s, and copies of them in another type, dialect, byte order or architecture
card        the card of a model: data, sizes, losses, digests

`stories.gguf` is a `bitnet-b1.58` (sub-norms, squared ReLU) and the model that verbs use without a file; `llama.gguf`
is a smaller `llama` (no sub-norms, SiLU, neighboring pairs rotated). `tests/training/` of the repository made both. They are
stored compressed (`NAME.gguf.xz`), because two-bit codes for three values leave a fifth of every byte unused.
"""
