"""How bytes look to a person: escaping, sizes in words, tables, hex dumps, and lines with a style on a terminal.

    text        text of unknown origin made harmless, numbers and sizes in words, JSON without raw control characters
    table       aligned columns
    hexdump     rows of hex and ASCII in which only the bytes that are meant are shown
    terminal    lines of styled pieces: plain text through a pipe, color on a terminal

Nothing here opens a file, and nothing from a file passes through here unescaped.
"""
