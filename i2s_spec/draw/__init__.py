"""Output for people: escaped text, numbers in words, tables, hex dumps, lines on a terminal, and plots.

    text       escaping of untrusted text, numbers and sizes in words, JSON without raw control characters; hex dumps,
               which are rows of hex and ASCII that show only the selected bytes
    terminal   lines of styled pieces: plain text in a pipe, color on a terminal; aligned columns; values as characters
    svg        SVG elements, and the colors of all drawings
    chart      plots as SVG

    terminal -> text        chart -> svg, text

Nothing here opens a file, and text from a file is always escaped.
"""
