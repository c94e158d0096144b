"""What the files of a run have in common: counts of findings by code, producer, layout and runtime, and their page."""
