"""Adapters for implementations of the specification, and the records of their runs: `python -m conformance`."""
