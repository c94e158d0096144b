"""Chat templates: a lexer, and the search for hazards."""
