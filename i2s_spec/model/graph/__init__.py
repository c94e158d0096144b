"""The computation graphs of the architectures, as data."""
