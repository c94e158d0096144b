"""What the weights themselves tell of how they are laid out."""
