"""What is in a file, told to a person or to a program: nothing here checks, and nothing here changes a file.

    show           what a file is, as data (`describe`; show.schema.json)
    show_text      the same as one page of text; show_plot as plots
    value_preview  the beginnings of metadata values, without reading the rest
    placement      what tensors take in the data section, by what their infos say
    leftovers      what releases of quantizers leave in tails
    dump/          every field of a file with its bytes, as hex, ASCII and tree, or as JSON
    survey/        one pass over all ternary payloads: counts of codes, scales, anomalies
    evidence/      what the weights themselves tell of how they are laid out
    identify/      where a file comes from and how its tensors are packed, with the evidence
    compare/       identities of files and weights, differences between files, lineage

All of it works on a `File` that carries a fault, as far as it could be read.
"""
