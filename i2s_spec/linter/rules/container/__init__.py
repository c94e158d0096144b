"""Rules about the form of the container: header, key-values, tensor table, where tensors lie, unusual sizes, servers."""

from i2s_spec.linter.rules.container import (
    header,
    key_names,
    key_values,
    not_gguf,
    remote_files,
    split_files,
    tensor_infos,
    tensor_placement,
    type_numbers,
    unowned_bytes,
    unusual_sizes,
)

__all__ = [
    "header",
    "key_names",
    "key_values",
    "not_gguf",
    "remote_files",
    "split_files",
    "tensor_infos",
    "tensor_placement",
    "type_numbers",
    "unowned_bytes",
    "unusual_sizes",
]
