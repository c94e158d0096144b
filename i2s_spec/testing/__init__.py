"""What tests need, here and in other projects: sound files, and files with one fault each.

sample      a small sound GGUF file and ways to change it field by field
malformed   one broken copy for each rule, each with the code it must get
strategies  Hypothesis strategies for files, tensors, dialects, models (the extra `testing`)
mutator     changes files as the schema says they can be wrong; `anatomy` finds the places
mishaps     what happens to models in real life, as stories
twins       fast paths compared with their definitions
"""
