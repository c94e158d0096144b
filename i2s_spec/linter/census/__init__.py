"""Statistics over the files of a run: counts of findings by code, producer, layout and runtime, and a page of them."""
