"""Each operation computed again from recorded inputs, and how far a value may be off."""
