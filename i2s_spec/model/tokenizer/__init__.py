"""The tokenizer: text to token ids and back, from the vocabulary that the file itself carries.

    tokenizer       load_tokenizer; Tokenizer: special tokens in text, ids to text, also one at a time
      byte_level    `tokenizer.ggml.model` = gpt2: how text is split, and merges by rank
      pieces        `tokenizer.ggml.model` = llama: pieces by score, with bytes for the rest
        vocabulary  the vocabulary of the file, each part checked when it is used; what makes it unusable

A line calls those that are indented below it. Token ids are the normative input of all numeric tests; text is a
convenience.
"""
