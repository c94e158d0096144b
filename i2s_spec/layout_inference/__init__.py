"""What trained weights themselves show of their layout (clause 7.7).

    hypotheses          the ways in which a payload may be laid out, and the decision between them by scores
    roles               the ternary matrices of each layer, its gains, and its heads
    counts              one reading of a payload: how many weights that are not 0 each row and column has
    profiles            numbers for each channel, compared by ranks
    grams               Gram matrices, compared: which channels are read or written together
    comparisons         every comparison that a file has the tensors for, under each hypothesis
    evidence            `layout_evidence`: reads, compares, and decides of the file and of each tensor
    channel_alignment   the comparison that tells layouts apart best, as points to draw

    evidence -> comparisons -> profiles, grams, counts -> hypotheses

With random weights, nothing is decided. `_bit_sums` is compiled from `pyx/`, or is the module in Python of that name.
"""
