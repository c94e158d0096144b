"""Models made from a seed: recipes, vocabulary, random weights."""
