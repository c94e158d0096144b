"""Rules about numbers that mean different things in different forks."""
