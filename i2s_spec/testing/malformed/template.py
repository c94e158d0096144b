"""This module makes text in metadata that somebody may run or print."""
