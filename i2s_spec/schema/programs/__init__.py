"""The programs that write and read such files: converters, quantizers, releases, runtimes."""
