"""Which rules run, and which findings count: profiles, configuration, baselines, suppressions."""
