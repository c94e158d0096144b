"""Where a file comes from and how it is packed, by evidence: `identification.identify` asks, the other modules look.

    evidence        evidence, hypotheses, questions, and the scale of confidence
    observed        what is to be seen in a file: order of keys, inventory, extents, codes, tails
    legacy          tensors with a number from before the release
    origin          is it a release, and what wrote its keys
    packer          what packed its tensors
    packing         code map, layout, tail
    weights         what the weights themselves tell of the layout
    reference       the dialect by weights that are known
    identification  all of it together (identify.schema.json)
    page            the answers as text

What the programs are that write such files, and which files were published, is declared in `schema.producers` and
`schema.releases`.
"""
