"""Rules about what runtimes make of the file."""
