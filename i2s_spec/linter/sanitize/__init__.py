"""A copy of a file that holds only what was understood."""
