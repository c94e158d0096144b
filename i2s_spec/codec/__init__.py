"""Ternary weights to bytes and back, for every dialect that the schema declares: the definition and its compiled twin.

    shape, payload, tail
                what the bytes of a tensor are: payloads, the places of codes, the scale
    reference   the definition of `pack`, `unpack`, `dequantize`, in NumPy, derived from the formulas of the layouts
    recode      the definition of `transcode`, `histogram`, `scan`
    form, trits
                the trits and scales of a tensor of any type that can hold them, a window at a time
    quantization/
                the rules by which released programs make weights ternary, bit for bit
    remainder/  elements outside whole blocks, and what programs read there
    blocks/     types that have a scale for each group or row
    payload_native
                the same as `payload`, codes without a tail, with compiled kernels
    native      the same as `reference` and `recode`, with compiled kernels for the loops: what users get
    kernels, isa
                how the kernels are called on whole payloads, and which set of them is used

`_codec` and `_cpu` are compiled from `pyx/`. Fast paths are held to the definition by laws, bit for bit.
"""
