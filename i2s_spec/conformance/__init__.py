"""Files for other people's test suites, each with its expected result.

phases              which part of a file a reader has to read before it can know a fault
export              a folder of malformed files with a manifest, the same in every byte each time
vectors             questions to decoders in any language, with their answers, and the suite as a folder
registry_packages   the suite as packages for PyPI, npm, Go and crates
"""
