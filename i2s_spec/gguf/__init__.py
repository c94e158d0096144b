"""Reading and writing GGUF files: sources of bytes, the reader over the fast scanner, and the streaming writer.

    source   files by bounded reads, buffers, streams, and maps of trusted files
    reader   open: metadata and tensors, fetched when they are asked for
    values   a value as the bytes of a key-value
    tensors  a tensor as its info and the chunks of its data
    output   a file that appears whole or not at all
    writer   a file from keys and tensors, streamed

The scanner, `_scanner`, is the Cython twin of `i2s_spec.schema.gguf.parse`.
"""
