"""How `i2s lint` is called and run: command lines without click, and the run itself."""
