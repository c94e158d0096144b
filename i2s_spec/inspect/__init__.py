"""What is in a file, told to a person or to a program: nothing here checks, and nothing here changes a file.

    show       what a file is, as data (`describe`; show.schema.json)
    page       the same as one page of text
    values     the beginnings of metadata values, without reading the rest
    walk       every field of a file with its bytes, in the order of the file
    extents    the same for the data section: tensors, padding, gaps
    codes      what the bytes of an I2_S payload say
    target     what `i2s dump FILE WHAT` means by WHAT
    labels     what a field is called, and its value in words
    dump       fields as hex, ASCII and tree, or as JSON

All of it works on a `File` that carries a fault, as far as it could be read.
"""
