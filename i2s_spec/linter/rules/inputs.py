"""Rules about files of other formats, which conversions read; a GGUF file never breaks them."""

from i2s_spec.linter.rule import raised
from i2s_spec.schema import faults

raised(
    faults.CHECKPOINT_MALFORMED,
    """A safetensors file cannot be read.

    Why: its header is a length and JSON that says where every tensor lies. Where the length is beyond the file, the JSON
    is none, or two tensors share bytes, the weights cannot be found.

    Example: a download that ended early, or a Git LFS pointer under the name model.safetensors.

    Fix: fetch the checkpoint again.
    """,
    clause="12.1",
    when="the input of a conversion from a checkpoint",
    cwe=125,
)

raised(
    faults.CHECKPOINT_TENSOR_MALFORMED,
    """A tensor of a safetensors file is not what it has to be.

    Why: a tensor whose bytes are not as many as its shape and type take, or that lies outside the file, would be read as
    other weights; packed ternary weights need a scale beside them, of one element.

    Example: a packed weight of shape 640 x 2560 in uint8 without its weight_scale.

    Fix: write the checkpoint again with the library that made it.
    """,
    clause="12.1",
    when="the input of a conversion from a checkpoint",
    cwe=125,
)

raised(
    faults.NPY_MALFORMED,
    """A .npy file cannot be read.

    Why: arrays of Python objects would have to be unpickled, which executes what the file says, so they are refused; and
    an array that ends early would be filled with whatever is in memory.

    Example: `numpy.save` of a list of arrays, which stores objects.

    Fix: save a plain array of float32 or int8.
    """,
    clause="12.1",
    when="the input of i2s encode",
    cwe=502,
)
