"""What several rules need to know of a file, computed once."""
