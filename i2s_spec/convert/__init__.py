"""Files made from files or from nothing: copies with changes, other byte orders, new models."""
