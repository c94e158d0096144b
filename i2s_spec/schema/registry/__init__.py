"""Who gave which number to which type, and when: every meaning of the tensor types and file types from 30 on.

    meaning         the record of one meaning
    tensor_types    the numbers in tensor infos
    file_types      the numbers in `general.file_type`
    meanings        which meanings a tensor of a file can have

Sizes are not here: `types` declares them, under the same names.
"""
