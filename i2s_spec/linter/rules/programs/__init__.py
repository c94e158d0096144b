"""Rules about what runtimes, conversions and other programs do with a file."""
