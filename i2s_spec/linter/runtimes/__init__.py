"""Which runtimes load a file and compute correctly with it."""
