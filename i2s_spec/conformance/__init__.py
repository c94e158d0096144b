"""Files for other people's test suites, with what is expected of each.

phases      which part of a file has to be read until its fault is known
catalogue   the rows of the catalogues of faults, and why some have no file
export      a folder of malformed files with a manifest, the same in every byte each time
"""
