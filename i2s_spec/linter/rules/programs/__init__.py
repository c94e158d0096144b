"""Rules about what runtimes, conversions and programs that use a model do with a file."""
