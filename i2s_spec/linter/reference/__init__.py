"""A file against another one of the same model whose weights are known: what a file alone does not tell.

    declaration  which file, and how both are meant to be packed
    known        the weights of one tensor, whatever holds them, a window at a time
    weights      the file of known weights: GGUF of any ternary or float type, safetensors with floats or packed trits
    comparison   one tensor against what is known of it
    compared     all I2_S tensors of a file, once for all rules

The dialects are tried by `inspect.identify.reference`, which `i2s identify --reference` asks too.
"""
