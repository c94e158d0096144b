"""The forward pass: what a correct runtime computes from a file of ternary weights, value by value (chapter 9).

A *graph* is data: named operations with named inputs. *Operations* compute them as a *numeric profile* says, and every
value is passed to a tap. So a graph can run whole, from the input of a layer, or one operation at a time, also with one
change.

    load                the door: load_model refuses files with errors and makes a Model
      read_ahead        the tensors of the file, read while the rest of loading goes on
      architectures     the graph of each architecture; the choice of its activation
        graph           what a graph is: nodes, Builder, names of taps
    forward             Model: forward, forward_batch, layer, evaluate; GraphRunner, Result
      cache             keys and values of earlier tokens
      weights           the tensors of a file, loaded on demand, in the form that operations need
      numerics          every choice in which runtimes differ, as data: the normative profile, emulations of runtimes
      reference/        the operations by their definitions, with compiled twins; the rules and bugs of other runtimes
      fast_operations   profile `fast`: compiled operations, and whole passes by programs
        fast_compile    from a graph to a program of compiled kernels
        screened_head   a head of which only the rows are read that can decide about a token
    projection          one BitLinear outside of a model

    tokenizer/          text to token ids and back
    text/               chat, generation, perplexity, and what a text tells of mistakes in a file

A line calls those that are indented below it. A numeric profile names the class of its operations, so `reference/` does
not import `fast_operations`. `_reduce`, `_matmul` and `_fast` are compiled from `pyx/`.
"""
