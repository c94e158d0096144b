"""What is in a file, for a person or for a program: nothing here checks, and nothing here changes a file.

    kind            whether a file is a model, or one of the files that are used beside one

    memory          how much memory its weights and the cache of a context take

    show            what a file is, as data (`describe`; show.schema.json); beginnings of values, places of tensors
    show_text       the same as one page of text, and as plots

    dump            every field of a file with its bytes, as hex, ASCII and tree, or as JSON
    dump_walk       the fields of a whole file, in the order of their bytes
    dump_codes      the codes of single bytes of ternary tensors

    survey          what one pass over all ternary payloads says: counts of codes, scales, tails, anomalies
    survey_reader   the pass itself

    identify        where a file comes from and how its tensors are packed, with the evidence
    questions       evidence, hypotheses, questions; what is observed in a file about its origin
    origin          is it a known release, and what wrote its metadata
    packing         code map, tail, layout, and the program that packed the tensors
    match_dialect   the dialect in which a tensor agrees with known weights

    show_text -> show, survey_reader -> survey
    dump      -> dump_walk -> dump_codes
    identify  -> origin, packing, match_dialect -> questions -> survey
                 packing -> layout_inference

All of it works on a `File` that carries a fault, as far as it could be read.
"""
