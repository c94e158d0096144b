"""`python -m i2s_spec` is the `i2s` command."""

from i2s_spec.cli import main

if __name__ == "__main__":
    main()
