"""What was checked of an imported file, and how it is checked again."""
