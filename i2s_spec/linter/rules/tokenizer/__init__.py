"""Rules about the tokenizer: its keys, the lists of tokens and merges, the chat template."""

from i2s_spec.linter.rules.tokenizer import (
    template_text,
    token_lists,
    tokenizer_keys,
    vocabulary_use,
)

__all__ = [
    "template_text",
    "token_lists",
    "tokenizer_keys",
    "vocabulary_use",
]
