"""From a checkpoint to a GGUF file that is right, and back.

source       a folder of safetensors: its files, its family, its sizes, its matrices
vocabulary   what a tokenizer's files say, as the keys of a GGUF file say it
writing      the GGUF file: keys, tensors, types
receipt      what was checked, re-derived from the checkpoint by other code than wrote the file
findings     what is wrong with the folder, by the linter's rules on checkpoints
export       back to a folder that transformers loads
"""
