"""Reading and writing GGUF files: sources of bytes, the reader over the fast scanner, and the streaming writer.

    source         files by bounded reads, buffers, streams, and maps of trusted files
    ranges         ranges of a source, read in parts or together
    regular_file   files that are read whole, and what is refused there
    reader         open: metadata and tensors, fetched when they are asked for
    header_index   what is known of an open file: its header's index, and the source
    metadata       the key-values of a file; string_arrays the strings of its arrays
    tensors_read   the tensors of a file; tensor_values their data decoded
    byte_order     the one place that swaps
    encoding       a value as the bytes of a key-value, a tensor as its info and the chunks of its data
    atomic_file    a file that appears whole or not at all; unfinished what an interrupted run left
    writer         a file from keys and tensors, streamed

The scanner, `_scanner`, is the Cython twin of `i2s_spec.schema.container.parse`.
"""
