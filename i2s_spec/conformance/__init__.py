"""Files for other people's test suites, with what is expected of each.

phases      which part of a file has to be read until its fault is known
export      a folder of malformed files with a manifest, the same in every byte each time
"""
