"""The benchmarks: each part of the project against a named peer or limit, in the same run."""
