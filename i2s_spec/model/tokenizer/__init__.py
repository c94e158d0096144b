"""The tokenizer: text to token ids and back, from the vocabulary that the file itself carries.

faults          what makes a vocabulary unusable
vocabulary      the vocabulary of the file, each part checked when it is used
pretokenizers   how text is split before merges apply: one declaration for each name
special         tokens that are not text, found in text
byte_level      `tokenizer.ggml.model` = gpt2: merges by rank
pieces          `tokenizer.ggml.model` = llama: pieces by score, with bytes for the rest
decoding        ids to text, also one at a time
tokenizer       `load_tokenizer`, which joins them

Token ids are the normative input of all numeric tests; text is a convenience.
"""
