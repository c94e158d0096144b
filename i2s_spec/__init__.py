"""i2s-spec: the executable specification, validator and reference implementation of I2_S.

I2_S is the ternary weight format of BitNet b1.58 models in GGUF files (tensor type 36). This module exports everything
public. A name is imported when it is first used, so `import i2s_spec` itself is fast.

    import i2s_spec as i2s
    file = i2s.open("model.gguf")
    report = i2s.lint("model.gguf")

The functions and classes by purpose; `help(i2s.lint)` explains one of them:

    one file     open, lint, doctor, identify, fix, sanitize, hash, diff; File, Tensor, Report, Span, FormatError
    many files   manifest, check, check_in_child, lint_manifest; Policy, the limits for files on servers
    weights      unpack, pack, dequantize, get_rows, quantize, weight_quant, transcode, read_as, histogram, scan
    new files    new, Writer, rewrite, convert, convert_endian, quantize_model
    checkpoints  import_checkpoint, export_checkpoint, lint_checkpoint, make_receipt, verify_receipt
    models       load_model, load_tokenizer, golden, bitlinear, integer_product, prepare, quantize_activations
"""

TYPE_CHECKING = False  # as type checkers take it; neither `typing` nor what stands for it is imported here
if TYPE_CHECKING:
    from typing import Any

    from i2s_spec import golden as golden
    from i2s_spec._version import __version__ as __version__
    from i2s_spec.checkpoints.export_checkpoint import export_checkpoint as export_checkpoint
    from i2s_spec.checkpoints.import_checkpoint import import_checkpoint as import_checkpoint
    from i2s_spec.checkpoints.lint_checkpoint import lint_checkpoint as lint_checkpoint
    from i2s_spec.checkpoints.receipt import make_receipt as make_receipt
    from i2s_spec.checkpoints.receipt import verify_receipt as verify_receipt
    from i2s_spec.checkup import doctor as doctor
    from i2s_spec.codec.native import dequantize as dequantize
    from i2s_spec.codec.native import get_rows as get_rows
    from i2s_spec.codec.native import histogram as histogram
    from i2s_spec.codec.native import pack as pack
    from i2s_spec.codec.native import read_as as read_as
    from i2s_spec.codec.native import scan as scan
    from i2s_spec.codec.native import transcode as transcode
    from i2s_spec.codec.native import unpack as unpack
    from i2s_spec.codec.quantize import quantize as quantize
    from i2s_spec.codec.quantize import weight_quant as weight_quant
    from i2s_spec.compare.diff import diff as diff
    from i2s_spec.compare.hash import hash as hash
    from i2s_spec.convert.convert_file import convert_file as convert  # noqa: F401 - the room is called so
    from i2s_spec.convert.new import new as new
    from i2s_spec.convert.quantize_model import quantize_model as quantize_model
    from i2s_spec.convert.rewrite import convert_endian as convert_endian
    from i2s_spec.convert.rewrite import rewrite as rewrite
    from i2s_spec.errors import FormatError as FormatError
    from i2s_spec.errors import Span as Span
    from i2s_spec.gguf.reader import File as File
    from i2s_spec.gguf.reader import Tensor as Tensor
    from i2s_spec.gguf.reader import open as open
    from i2s_spec.gguf.writer import Writer as Writer
    from i2s_spec.inspect.identify import identify as identify
    from i2s_spec.linter.cluster.check import check as check
    from i2s_spec.linter.cluster.check import check_in_child as check_in_child
    from i2s_spec.linter.cluster.lint_manifest import lint_manifest as lint_manifest
    from i2s_spec.linter.cluster.manifest import manifest as manifest
    from i2s_spec.linter.engine import lint as lint
    from i2s_spec.linter.fix import fix as fix
    from i2s_spec.linter.report_data import Report as Report
    from i2s_spec.linter.sanitize import sanitize as sanitize
    from i2s_spec.model.load import load_model as load_model
    from i2s_spec.model.projection import bitlinear as bitlinear
    from i2s_spec.model.projection import integer_product as integer_product
    from i2s_spec.model.projection import prepare as prepare
    from i2s_spec.model.projection import quantize_activations as quantize_activations
    from i2s_spec.model.tokenizer.tokenizer import load_tokenizer as load_tokenizer
    from i2s_spec.remote.policy import Policy as Policy

#: Where each public name lives.
_HOMES = {
    "FormatError": "i2s_spec.errors",
    "Span": "i2s_spec.errors",
    "File": "i2s_spec.gguf.reader",
    "Tensor": "i2s_spec.gguf.reader",
    "open": "i2s_spec.gguf.reader",
    "Writer": "i2s_spec.gguf.writer",
    "dequantize": "i2s_spec.codec.native",
    "histogram": "i2s_spec.codec.native",
    "pack": "i2s_spec.codec.native",
    "scan": "i2s_spec.codec.native",
    "transcode": "i2s_spec.codec.native",
    "unpack": "i2s_spec.codec.native",
    "quantize": "i2s_spec.codec.quantize",
    "weight_quant": "i2s_spec.codec.quantize",
    "read_as": "i2s_spec.codec.native",
    "get_rows": "i2s_spec.codec.native",
    "hash": "i2s_spec.compare.hash",
    "diff": "i2s_spec.compare.diff",
    "new": "i2s_spec.convert.new",
    "quantize_model": "i2s_spec.convert.quantize_model",
    "rewrite": "i2s_spec.convert.rewrite",
    "convert_endian": "i2s_spec.convert.rewrite",
    "import_checkpoint": "i2s_spec.checkpoints.import_checkpoint",
    "lint_checkpoint": "i2s_spec.checkpoints.lint_checkpoint",
    "make_receipt": "i2s_spec.checkpoints.receipt",
    "verify_receipt": "i2s_spec.checkpoints.receipt",
    "export_checkpoint": "i2s_spec.checkpoints.export_checkpoint",
    "identify": "i2s_spec.inspect.identify",
    "Report": "i2s_spec.linter.report_data",
    "fix": "i2s_spec.linter.fix",
    "sanitize": "i2s_spec.linter.sanitize",
    "lint": "i2s_spec.linter.engine",
    "doctor": "i2s_spec.checkup",
    "check": "i2s_spec.linter.cluster.check",
    "check_in_child": "i2s_spec.linter.cluster.check",
    "manifest": "i2s_spec.linter.cluster.manifest",
    "lint_manifest": "i2s_spec.linter.cluster.lint_manifest",
    "Policy": "i2s_spec.remote.policy",
    "load_model": "i2s_spec.model.load",
    "bitlinear": "i2s_spec.model.projection",
    "prepare": "i2s_spec.model.projection",
    "integer_product": "i2s_spec.model.projection",
    "quantize_activations": "i2s_spec.model.projection",
    "load_tokenizer": "i2s_spec.model.tokenizer.tokenizer",
}

#: Rooms that are public as a whole: `i2s.golden.record(...)`, and `i2s.convert(...)`, which can be called.
_ROOMS = ("golden", "convert")

_VERSION = "__version__"

__all__ = sorted((*_HOMES, *_ROOMS))  # noqa: PLE0605


def __getattr__(name: str) -> "Any":
    from importlib import import_module

    if name in _ROOMS:
        return import_module(f"i2s_spec.{name}")
    try:
        home = "i2s_spec._version" if name == _VERSION else _HOMES[name]
    except KeyError:
        raise AttributeError(f"module 'i2s_spec' has no attribute {name!r}") from None
    value = getattr(import_module(home), name)
    globals()[name] = value
    return value


def __dir__() -> list[str]:
    return sorted({*globals(), *_HOMES, *_ROOMS, _VERSION})
