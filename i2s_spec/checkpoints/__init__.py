"""Conversion of checkpoints to correct GGUF files, and back.

source       a folder of safetensors: its files, its family, its sizes, its matrices
vocabulary   the files of a tokenizer, converted to keys of a GGUF file
writing      the GGUF file: keys, tensors, types
receipt      checks of the file, derived from the checkpoint by independent code
findings     findings on the folder, by the linter's rules on checkpoints
export       back to a folder that transformers loads
"""
