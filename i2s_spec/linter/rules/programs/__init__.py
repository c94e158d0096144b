"""Rules about what runtimes, conversions and programs that use a model make of a file."""
