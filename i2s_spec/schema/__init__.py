"""The facts about GGUF and I2_S, without input or output: the only place where fields, types and bounds are declared.

Everything else in the package is derived from these declarations. From the ground up:

    limits         the bounds that keep time and memory proportional to the file
    types          value types, ggml tensor types and their sizes
    faults         the faults that stop a reader, and the container's rules about numbers
    magic          recognizes files that are not GGUF

    field          the classes of the schema: Field, RecordStruct, and counts that are checked first
    container      the GGUF container: `parse` and `build`, and walks of one record at a time
    i2s            the extent of an I2_S tensor: payload and tail

    dialect        layouts, code maps and tails of I2_S tensors
    blocks         the types that have a scale for each group: codes, digits, scales
    program_types  types that single programs gave the numbers of others
    type_registry  every meaning that a program gave to a type number, and the published advisories

    keys           metadata keys
    inventory      tensors
    architectures  the keys and tensors of each architecture, and the sizes that follow from them
    rotation       the rotation that models may fold into their weights

    llama_cpp      what llama.cpp's loader asks of each architecture, as a table of expressions
    expressions    such expressions, read and evaluated without `eval`
    kinds          the kinds of files that are no models: how they are recognised, what uses them, what loaders ask

    runtimes       the programs that read I2_S files
    releases       the published files, and the programs that wrote them
    mistakes       the known mistakes of programs

`limits`, `types`, `faults` and `magic` need only the standard library, so that the fast paths can start without
construct; only `field`, `container` and `i2s` need it.
"""
