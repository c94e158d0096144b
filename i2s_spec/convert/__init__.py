"""Conversion and creation of files: copies with changes, other types and byte orders, packed checkpoints, new models.

    rewrite               copies of a file with changes; every new layout of a file is made here
    convert_file          whole files: ternary tensors to another type or dialect, with proofs
    recodings             how a tensor is converted, and many small ones at once
    encode                one scale: trits encoded in any type and proved; single tensors to and from arrays
    groups                a scale for each group: to another such type or to floats
    packed_files          to packed Hugging Face checkpoints, and back
    quantize_model        float projections to trits, with the loss

    new                   new models with random weights
    smallest              those of architectures that are not declared: what llama.cpp's loader requires
    recipes               how the real files are made: keys in order, usual sizes
    random_weights        their weights and types
    made_up_vocabulary    their vocabularies
    trained               the trained models that come with the package

    trained, quantize_model, packed_files -> convert_file -> rewrite
    convert_file -> recodings -> encode, groups
    new -> recipes, smallest, random_weights, made_up_vocabulary

Files that are written appear complete or not at all.
"""
