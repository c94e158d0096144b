"""What is wrong with a checkpoint's folder, as findings of the linter."""
