"""Other people's programs, run on our small files and test vectors: `python tests/peers`.

    __main__         the command line, which writes the table `i2s_spec/linter/runtimes/records.json`
      programs         packages of PyPI and npm, each installed in a separate environment
      records          a program on a small file: does it load, what does it print, are its values ours
        small_files      the files, made by commands of `i2s`
        child            one process with limits, which runs a script of `children/`
      implementations  what answers the test vectors, through an adapter of `adapters/`
      decoders         a run on the vectors as one row of counts

      arch_tables      what llama.cpp asks of each architecture, read from its sources
      matrix           damage by architecture: lint against llama.cpp
        damage           the kinds of damage
        judge            llama.cpp's verdict on files
      sound            files of llama.cpp's converter and quantiser, and what lint finds in them

Tests use `llama_cpp` (its probabilities, from two packages) and `llama_tools` (its values node by node, and
llama-perplexity) as well.
"""
