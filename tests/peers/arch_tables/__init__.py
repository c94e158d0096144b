"""What llama.cpp's loader asks of each architecture, read from its C++ sources: `python tests/peers table`.

    command   its arguments
    table     the table, its yield, and what differs between two
      loader    a run of one architecture's loader without a file
        calls     the functions that it calls
        values    expressions over the keys and tensors of a file
      sources   names, classes, fields and constants
        syntax    the part of C++ that is read
    sdist     the sources, from the source distribution of llama-cpp-python

Only facts are taken: names, types, shapes and conditions. No code of llama.cpp is in this repository.
"""
