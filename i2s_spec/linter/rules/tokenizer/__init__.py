"""Rules about the tokenizer: its keys, the lists of tokens and merges, the chat template."""
