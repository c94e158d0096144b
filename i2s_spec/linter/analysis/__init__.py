"""Analyses of a file that several rules share; each is computed once, by `context.analysis`.

context             LintContext: a file as the rules see it; data sections that are shifted, tensor infos not counted
conditions          which files a rule applies to
architecture_view   the file beside the declarations of its architecture
loader_view         the file beside what llama.cpp's loader asks of its architecture; loader_differences compares them
root_cause          the one cause of many findings on tensors
coverage            what no rule examined
companion_view      keys and tensors of a file that is no model, by their full names; a projector beside the loader's demands
extents             the bytes from each tensor to the next
payload_stats       oddities of codes, groups and whole payloads
scales              oddities of scales
layout              the evidence for the layout, which i2s_spec.layout_inference judges
against_reference   comparison with another file
template_hazards    what a chat template could do, from the tokens of template_lexer
template_lexer      a Jinja template as text, code and tokens
checkpoint_facts    a folder of safetensors; i2s_spec.checkpoints gathers it
"""
