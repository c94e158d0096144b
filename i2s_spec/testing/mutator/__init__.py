"""A mutator that knows the schema: damages one field of a file at a time."""
