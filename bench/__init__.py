"""The benchmarks: each part of the project is compared with a named peer or limit in the same run."""
