"""A copy of a file that holds what was understood, and nothing else."""
