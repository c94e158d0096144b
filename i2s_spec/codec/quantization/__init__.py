"""From floats to codes and a scale: the rules of the released quantizers, to the bit."""
