"""Output for people: escaping, sizes in words, tables, hex dumps, drawings, and styled lines on a terminal.

text        escaping of untrusted text, numbers and sizes in words, JSON without raw control characters
    table       aligned columns
    hexdump     rows of hex and ASCII that show only the selected bytes
    terminal    lines of styled pieces: plain text in a pipe, color on a terminal

Nothing here opens a file, and text from a file is always escaped.
"""
