"""Text in and out of a model: chat templates, generation, sampling, perplexity."""
