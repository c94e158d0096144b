"""Files for other people's test suites, with what is expected of each.

phases              which part of a file has to be read until its fault is known
export              a folder of malformed files with a manifest, the same in every byte each time
vectors             questions to decoders in any language, with their answers, and the suite as a folder
mutants             programs that are wrong in one way each, which prove that the vectors find bugs
registry_packages   the suite as packages for PyPI, npm, Go and crates
"""
