"""Repairs: a file with findings in, a file without them out.

A *repair* is declared once for each rule that promises one: the rule's code, whether it is safe, and a function that
proposes *actions* (edits of bytes, with a sentence) or says why it declines. The *plan* applies them to a file that is
not written yet, judges that again, and goes on until nothing is left to do: so a repaired file has no finding that was
repaired, and repairing it again changes nothing.

A safe repair changes no weight: none of its edits touches a tensor, and the identity of the weights before and after is
printed as the proof. What needs judgement is done on demand only, and says so.

    declaration  Repair, Action, Declined, the registry and the decorator that fills it
    bench        a file under repair: records, values, and edits of them
    contents     padding, booleans, tails, ends: bytes that nobody reads, or reads alike
    derived      values that follow from the rest of a file, so that only one can be right
    keys         key-values: names, duplicates, types, missing ones
    table        tensor infos: names, shapes, numbers, duplicates
    layout       where tensors lie: gaps, order
    alignment    what tensors are aligned to
    metadata     keys of sizes and of the graph, names of architectures
    tensors      tensors that do not fit their architecture
    vocabulary   tokens and what belongs to them
    tokenizer    its kind, special tokens, how text is split
    recode       the dialect of I2_S tensors
    plan         which repairs are made, in which order, until when
    difference   the changes byte by byte, for people and as data
    fix          all of it: `i2s_spec.fix`
"""
