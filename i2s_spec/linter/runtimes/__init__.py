"""Which runtimes load and compute a file."""
