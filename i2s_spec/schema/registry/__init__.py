"""The registry of numbers: every meaning of the tensor types and file types from 30 on, with program and time.

    meaning         the record of one meaning
    tensor_types    the numbers in tensor infos
    file_types      the numbers in `general.file_type`
    meanings        the possible meanings for a tensor of a file

Sizes are not here: `types` declares them, under the same names.
"""
