"""Which rules run, and which findings count: profiles, baselines, suppressions."""
