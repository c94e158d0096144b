"""What is true about GGUF and I2_S, with no input or output: the one place where fields, types and bounds are declared.

Everything else in the package is a view of this room. From the ground up:

    limits      the bounds that keep time and memory proportional to the file
    types       value types, ggml tensor types and their sizes, and who uses which number for what
    faults      the faults that stop a reader, each with its code and its sentence
    magic       what a file is that is not GGUF
    checks      the container's rules about numbers, asked by the schema and by the scanner alike
    field       the words the schema is written in: Field, RecordStruct, and counts that are checked first
    gguf        the container itself: `parse` and `build`
    i2s         the extent of an I2_S tensor: payload and tail
    walk        one record of a file at a time, as nodes
    dialect     layouts, code maps and tails of ternary tensors
    block_layout
                blocks of types that have a scale for each group
    numbers     what numbers of files and tensors mean; registry/ who has used which number for what
    architectures/
                metadata keys and tensors of each architecture, and the sizes that follow from them
    programs/   runtimes, producers and releases, with sources for each fact

`limits`, `types`, `faults`, `magic` and `checks` need nothing but the standard library, so that the fast paths can be
started without construct.
"""
