"""Rules about text in metadata that somebody may run or print."""
