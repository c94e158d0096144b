"""Which runtimes load a file and compute correctly with it, and why not.

    verdicts              one verdict for each runtime, by the worst of its reasons:
      header_checks       what its GGUF reader objects to; the header as that reader sees it, where our own reader stopped
      loader_checks       what its loader objects to: architecture, keys, tensors, tokenizer
      compute_checks      what it computes wrongly
      devices             where llama.cpp computes it: on a processor, on a GPU
      records             the form of a file, the runs of others, and what they show about it; Reason, and its citation

    conversions           which conversion of a file makes one that a program computes, and what is lost by one

What is true of each runtime is declared in `schema.runtimes`; `records.json` has the runs.
"""
