"""One pass over all ternary payloads: code counts, scales, anomalies."""
