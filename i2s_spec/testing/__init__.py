"""Test data, for this and other projects: sound files, and files with one fault each.

sample      a small sound GGUF file that can be changed field by field
malformed   one broken copy for each rule, each with the code it must get
strategies  Hypothesis strategies for files, tensors, dialects, models (the extra `testing`)
mutator     damages files field by field, by the schema; `anatomy` finds the fields
mishaps     mistakes that happen to models in practice
twins       fast paths compared with their definitions
"""
