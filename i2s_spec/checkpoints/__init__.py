"""Conversion of checkpoints to correct GGUF files, and back.

    receipt                  import_with_receipt: a file with the record of its checks; verify_receipt repeats them
      receipt_checks         checks a to k of a file against another import of its checkpoint
      import_checkpoint      import_checkpoint: the file, and its keys `general.*` and `<architecture>.*`
        plan                 name, shape and type of each tensor; its bytes
          source_weights     matrices of the checkpoint as trits and scales
    export_checkpoint        export_checkpoint: a folder that transformers loads, with config.json
      export_tokenizer       the files of a tokenizer from the keys of a GGUF file
    lint_checkpoint          lint_checkpoint: findings on a folder, by the linter's rules on checkpoints

    families                 which family a checkpoint belongs to, and its sizes; the tables of names
    token_files              the keys `tokenizer.*` from the files of a tokenizer
      tokenizers_worker      the separate process that runs the library `tokenizers`
    folder                   the files of a checkpoint, here or on a hub

A line calls those that are indented below it; the last four serve all others. An export reads weights with functions of
`receipt_checks`.
"""
