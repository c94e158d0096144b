"""Another runtime's values: dumps, names of taps, shapes."""
