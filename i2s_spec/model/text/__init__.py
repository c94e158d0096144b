"""Models with text: conversations, generation, perplexity, and a test of a file by a text (clause 7.8).

    chat                    prompts of declared formats, the file's own template, Conversation
      chat_template_worker  the separate process that renders a template
      generate              one token after another: Generation
        sampling            the choice of a token: Sampler
    perplexity              perplexity by the convention of llama.cpp
    likelihood              which hypothesis about a file is right: the loss of its model under each, on a text
      hypotheses            the possible mistakes of a file, each as a change of a model
    template_engines        the file's chat template in Jinja and in llama.cpp: the same texts and tokens?
    deep_checks             whether outputs are finite, the test by a text, and the engines, for `i2s doctor --deep`

A line calls those that are indented below it; besides, `likelihood` takes the losses of tokens from `perplexity`, which
checks tokens with `generate`.
"""
