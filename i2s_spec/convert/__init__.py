"""Conversion and creation of files: copies with changes, other types and byte orders, packed checkpoints, new models.

rewrite               copies of a file with changes; every new layout of a file is made here
convert_file          whole files: ternary tensors to another type or dialect, with proofs
recodings             how a tensor is converted, and many small ones at once
encode                one scale: trits encoded in any type and proved; single tensors to and from arrays
groups                a scale for each group: to another such type or to floats
packed_files          to packed Hugging Face checkpoints, and back
quantize_model        float projections to trits, with the loss

new                   new models with random weights
random_weights        their weights, types and recipes
made_up_vocabulary    their vocabularies
trained               the trained models that come with the package

convert_file, packed_files, quantize_model, trained -> rewrite
convert_file -> recodings -> encode, groups
new -> random_weights, made_up_vocabulary
"""
