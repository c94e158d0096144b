"""What the README shows first: one picture, drawn from a real file and a real lint of it."""
