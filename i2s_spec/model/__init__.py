"""The forward pass: what a correct runtime computes from a file of ternary weights, value by value (chapter 9).

A *graph* is data: named operations with named inputs. *Operations* compute them as a numeric *profile* says, and every value
goes past one place where it can be looked at. So a graph runs whole, from a layer's input, or one operation at a time, and
with one thing changed.

    load        load_model: a file to a Model; refuses what the linter calls broken
    forward     Model: forward, forward_batch, layer, evaluate; taps, caches
    running     what Model runs graphs with
    graph, graphs, activation
                what a graph is; the graph of each architecture; which activation, and who says so
    profile     every choice on which runtimes differ, as data: the normative one, and emulations
    execution, operations, projections
                how a graph is walked; what each operation computes
    bitlinear, integers, matmul, quantiser, emulation
                BitLinear: the definition, exact sums by whatever is fastest, the rules of other runtimes, their mistakes
    numerics, definition, elementary, ggml
                sums by index and their slow twins; exp, cosine, sine; arithmetic of ggml's kernels
    attention, rope, cache, embedding, weights, taps
                what their names say; tensors are read as they are needed

`_reduce` and `_matmul` are compiled from `pyx/`. Sampling, text and templates stand on `Model` and know nothing of the rest.
"""
