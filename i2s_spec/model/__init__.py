"""The forward pass: what a correct runtime computes from a file of ternary weights, value by value (chapter 9).

A *graph* is data: named operations with named inputs. *Operations* compute them as a *numeric profile* says, and every
value is passed to a tap. So a graph can run whole, from the input of a layer, or one operation at a time, also with one
change.

    load             load_model: makes a Model from a file; refuses files with errors by the linter
    forward          Model: forward, forward_batch, layer, evaluate; taps, caches
    graph_runner     runs a graph on sequences: whole, in part, or one operation inputs, outputs  checks of tokens; the
                     Result
    numeric_profile  every choice in which runtimes differ, as data: the normative profile, and emulations of runtimes
                     weights, cache   tensors, loaded on demand; keys and values of earlier tokens
    graph/           the definition of graphs; the graph of each architecture; the choice of activation; names of taps
    reference/       the operations: the definition of BitLinear, its compiled twin (matmul), rules of other runtimes
                     (activation_quant), their bugs (kernel_bugs), reductions with their slow twins, exp and cosine
    fast/            the numeric profile `fast`: graphs compiled to programs of compiled kernels
    tokenizer/       text to token ids and back
    text/            chat templates, generation, sampling, perplexity
    likelihood/      finds what is wrong with a file, by the loss of its model on a text

graph/ is below reference/, and that below fast/. `_reduce`, `_matmul` and `_fast` are compiled from `pyx/`.
"""
