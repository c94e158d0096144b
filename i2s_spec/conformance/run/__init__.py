"""Running other people's decoders on the vectors: the protocol `i2s-cp/1`, bounded processes, results and reports."""
