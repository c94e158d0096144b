"""Ternary weights to bytes and back, for every dialect that the schema declares: the definition and its compiled twin.

    shape          what the bytes of a tensor are: matrix, payload, windows, float weights, lost elements
    observation    what is seen in a part of a payload; the tail, which holds the scale

    reference      the definition of `pack`, `unpack`, `dequantize`, `transcode`, `histogram`, `scan`, `observe`,
                   in NumPy, from the formulas of the layouts
    native         the same with compiled kernels for the loops: what users get
    kernels        how the kernels are called on whole payloads
    isa            which set of kernels is used
    portable       the only set of kernels where nothing is compiled
    buffers        numbers for compiled code without NumPy

    blocks         the definition for types that have a scale for each group or row
    blocks_native  the same with compiled kernels, and the quantizers of these types
    lookup_tables  TL1 and TL2
    quantized      a tensor of any quantized type as floats
    gpu_checkpoint   trits in the layout of the checkpoints of BitNet's `gpu/` folder
    change_groups  exact conversion between I2_S and the types with a scale for each group
    encoding       the trits and scales of a tensor of any type that can hold them, a window at a time

    quantize       the rules by which released programs make weights ternary, bit for bit
    float_passes   passes over the words of float weights, and the Walsh-Hadamard transform of rotated ones

`_blocks`, `_codec`, `_cpu`, `_floats` and `_survey` are compiled from `pyx/`; modules in Python of the same names are used
where nothing is compiled. Fast paths are held to the definition by laws, bit for bit.
"""
