"""Models with text: chat templates, generation, sampling, perplexity."""
