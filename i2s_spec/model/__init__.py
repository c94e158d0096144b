"""The forward pass: what a correct runtime computes from a file of ternary weights, value by value (chapter 9).

A *graph* is data: named operations with named inputs. *Operations* compute them as a *numeric profile* says, and every value
is shown to a tap. So a graph runs whole, from a layer's input, or one operation at a time, and with one thing changed.

    load             load_model: a file to a Model; refuses what the linter calls broken
    forward          Model: forward, forward_batch, layer, evaluate; taps, caches
    graph_runner     runs a graph for sequences: whole, in part, or one operation
    inputs, outputs  tokens checked; the Result
    numeric_profile  every choice on which runtimes differ, as data: the normative profile, and emulations of runtimes
    weights, cache   tensors as they are needed; keys and values of earlier tokens
    graph/           what a graph is; the graph of each architecture; which activation, and why; names of taps
    reference/       the operations: the definition of BitLinear, its compiled twin (matmul), rules of other runtimes
                     (activation_quant), their bugs (kernel_bugs), reductions with their slow twins, exp and cosine
    fast/            the numeric profile `fast`: graphs compiled to programs of compiled kernels
    tokenizer/       text to token ids and back
    text/            chat templates, generation, sampling, perplexity
    likelihood/      what is wrong with a file, by the loss of its model on a text

graph/ is below reference/, and that below fast/. `_reduce`, `_matmul` and `_fast` are compiled from `pyx/`.
"""
