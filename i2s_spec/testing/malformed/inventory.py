"""This module breaks inventories: tensors that are missing, too many, or of the wrong shape or type."""
