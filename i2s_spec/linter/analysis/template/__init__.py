"""Chat templates: a lexer, and what is hazardous in them."""
