"""The operations of the forward pass by their definitions, and by compiled twins that give the same bits.

    operations          Operations: a method for each operation of a graph; execute and evaluate walk the graph
      run               the context of operations: weights, sequences with their caches, the tap
      linear            projections and heads as a numeric profile declares, groups of weights among them
        bitlinear       BitLinear: the definition; activations and sums as other runtimes round them
        matmul          the compiled twin of `bitlinear`
      attention         scores, soft-max, weighted values, and the rotation of heads
      delta_net         convolutions and states of gated delta nets
      embedding_table   rows of embedding tables, and tables as heads
      reductions        sums and products in float64 in index order, compiled, with their twins in NumPy
      transcendental    exp, cosine and sine, equal on every machine
      ggml_math         ggml's float32 arithmetic, and the mistakes of released kernels
    table_lookup        products with lookup tables; equal to those of `bitlinear`

A line calls those that are indented below it.
"""
