"""The facts about GGUF and I2_S, without input or output: the only place where fields, types and bounds are declared.

Everything else in the package is derived from this package. From the ground up:

    limits      the bounds that keep time and memory proportional to the file
    types       value types, ggml tensor types and their sizes, and the meanings of type numbers in different programs
    faults      the faults that stop a reader, each with its code and its message
    magic       recognizes files that are not GGUF
    checks      the container's rules about numbers, which the schema and the scanner share
    field       the classes of the schema: Field, RecordStruct, and counts that are checked first
    gguf        the container itself: `parse` and `build`
    i2s         the extent of an I2_S tensor: payload and tail
    walk        one record of a file at a time, as nodes
    dialect     layouts, code maps and tails of ternary tensors
    block_layout
                blocks of types that have a scale for each group
    numbers     the meanings of file types and type numbers; registry/ has every meaning with its origin architectures/
                metadata keys and tensors of each architecture, and the sizes that follow from them
    programs/   runtimes, producers and releases, with sources for each fact

`limits`, `types`, `faults`, `magic` and `checks` need only the standard library, so that the fast paths can start
without construct.
"""
