"""Golden outputs: what every step of the forward pass gives, recorded; and the comparison that finds the first wrong one."""
