"""The three modes of comparison: op-replay, layer-forced, free-running."""
