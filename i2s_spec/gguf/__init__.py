"""Reading and writing GGUF files: sources of bytes, the reader over the fast scanner, and the streaming writer.

    source         files by bounded reads, buffers, streams, and maps of trusted files; ranges of them; regular files
    reader         `open`: a file with its metadata and tensors, fetched when they are asked for
    ollama_store   models in Ollama's store on this machine, by their names
    header         the index of an open file's header, and its key-values
    data_section   where the tensors lie, also where the header does not state that rightly
    data_shift     the evidence for that in the bytes near the bounds of tensors
    strings        arrays of strings, examined without decoding; files that went through a text decoder
    tensor         the tensors of an open file, and their decoded data
    placement      where the table puts them, and the room that each has there
    type_numbers   which meaning of a shared type number they have
    writer_forms   forms of whole files that single programs write, read as the model in the usual form
    split_set      a model in several files: its parts, by their names and keys, and the tensors of all

    encode         a value as the bytes of a key-value, a tensor as its info and the chunks of its data
    writer         a file from keys and tensors, streamed
    atomic_file    a file that appears whole or not at all, and the leftovers of killed runs
    byte_order     the one place that swaps

`reader` calls `header`, `tensor` and `source`; `tensor` calls `type_numbers`, and `codec.encoding` for trits; `split_set`
and `writer_forms` call `reader`; `writer` calls `encode` and `atomic_file`. The scanner, `_scanner`, is the Cython twin of
`i2s_spec.schema.container.parse`; it and `_strings` are modules in Python where nothing is compiled.
"""
