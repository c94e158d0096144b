"""Ternary weights to bytes and back, for every dialect that the schema declares: the definition and its compiled twin.

    shape, payload, tail, remainder
                what the bytes of a tensor are: payloads, the places of codes, the scale, elements outside whole blocks
    reference   the definition of `pack`, `unpack`, `dequantize`, in NumPy, derived from the formulas of the layouts
    recode      the definition of `transcode`, `histogram`, `scan`
    quantize, mean, weights
                the rules by which released programs make weights ternary, bit for bit
    payload_native
                the same as `payload`, codes without a tail, with compiled kernels
    native      the same as `reference` and `recode`, with compiled kernels for the loops: what users get
    kernels, isa
                how the kernels are called on whole payloads, and which set of them is used

`_codec` and `_cpu` are compiled from `pyx/`. Property tests compare fast paths with the definition, bit for bit.
"""
