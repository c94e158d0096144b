"""What is read of llama.cpp's sources as text, before its loader functions are run: names of architectures, keys and
tensors, classes, fields with their types and defaults, constants, and where the functions are.
"""

from __future__ import annotations

import re
from functools import cached_property
from pathlib import Path
from typing import Any, Final

from peers.arch_tables.syntax import Block, Function, Parser, functions, stripped, tokens

#: Files with functions that loaders call, besides `models/*.cpp`.
_SHARED: Final = ("llama-hparams.cpp", "llama-model.cpp", "llama-arch.cpp")

#: Classes of models, by the class that they are derived from.
_MODEL: Final = r"llama_model_\w+"


class Sources:
    """A tree of llama.cpp.

    :param root: the folder with `src` and `include`
    :raises FileNotFoundError: if a file that is read is not there
    :raises ValueError: if the sources are not in the form of one class for each architecture, which they have since May 2026
    """

    def __init__(self, root: Path) -> None:
        self._root = root
        names = stripped(self._text("llama-arch.cpp"))
        self.architectures = _pairs(names, "LLM_ARCH_")
        self.keys = {name: key.replace("%s.", "~") for name, key in _pairs(names, "LLM_KV_").items()}
        self.tensors = _pairs(names, "LLM_TENSOR_")
        self.operations = {
            self.tensors[tensor]: operation
            for tensor, operation in re.findall(
                r"\{\s*(LLM_TENSOR_\w+)\s*,\s*\{\s*\w+\s*,\s*GGML_OP_(\w+)\s*\}\s*\}", names
            )
            if tensor in self.tensors
        }
        self._model = stripped(self._text("llama-model.cpp"))
        self.functions: dict[str, Function] = {}
        files = [self._root / "src" / name for name in _SHARED]
        for path in [*files, *sorted((self._root / "src" / "models").glob("*.cpp"))]:
            text = re.sub(r"(::\w+)<\w+>(?=::)", r"\1", path.read_text(encoding="utf-8", errors="replace"))
            self.functions |= functions(text, path.name)
        if not any(name.endswith("::load_arch_tensors") for name in self.functions):
            raise ValueError("no class of these sources has a function load_arch_tensors: they have another form")

    def _text(self, name: str) -> str:
        return (self._root / "src" / name).read_text(encoding="utf-8", errors="replace")

    # Classes.

    @cached_property
    def classes(self) -> dict[str, str]:
        """The class of each architecture."""
        found = {}
        cases = r"((?:case\s+LLM_ARCH_\w+\s*:\s*)+)(?:\{\s*)?return\s+(?:new\s+|std::make_unique<)?"
        for labels, name in re.findall(rf"{cases}({_MODEL})", self._model):
            for architecture in re.findall(r"LLM_ARCH_\w+", labels):
                found[architecture] = name
        return found

    @cached_property
    def _bases(self) -> dict[str, str]:
        header = stripped(self._text("models/models.h"))
        return dict(re.findall(rf"struct\s+({_MODEL})\s*:\s*public\s+({_MODEL})", header))

    def method(self, owner: str, name: str) -> str | None:
        """The function that a class has for a method, its own or that of a class that it is derived from."""
        each: str | None = owner
        while each is not None and f"{each}::{name}" not in self.functions:
            each = self._bases.get(each)
        return each and f"{each}::{name}"

    # Hyperparameters and constants.

    @cached_property
    def _fields(self) -> list[tuple[str, str, str]]:
        """The fields of the hyperparameters: type, name, default."""
        header = stripped(self._text("llama-hparams.h"))
        header = header[header.index("struct llama_hparams {") :]
        pattern = r"^\s*(?:enum\s+)?([\w:]+(?:<[^>]*>)?)\s+(\w+)\s*(?:=\s*([^;]+))?;"
        return re.findall(pattern, header, re.MULTILINE)

    @cached_property
    def field_types(self) -> dict[str, str]:
        """The type of each hyperparameter."""
        return {name: kind for kind, name, _ in self._fields}

    @cached_property
    def field_defaults(self) -> dict[str, str]:
        """The default of each hyperparameter that has one, as text."""
        return {name: default.strip() for _, name, default in self._fields if default}

    @cached_property
    def constants(self) -> dict[str, int]:
        """Constants of enumerations, limits, and flags of tensors."""
        found: dict[str, int] = {}
        for path in ("src/llama-hparams.h", "include/llama.h", "src/llama-graph.h"):
            text = (self._root / path).read_text(encoding="utf-8", errors="replace")
            for body in re.findall(r"enum\s+\w+\s*(?::[^{;]*)?\{([^}]*)\}", stripped(text)):
                found |= _enumerated(body)
        limits = re.findall(r"^\s*#define\s+(LLAMA_MAX_\w+)\s+(\d+)", self._text("llama-hparams.h"), re.MULTILINE)
        found |= {name: int(value) for name, value in limits}
        flags = r"static\s+const\s+int\s+(TENSOR_\w+)\s*=\s*1\s*<<\s*(\d+)"
        return found | {name: 1 << int(bit) for name, bit in re.findall(flags, self._text("llama-model-loader.h"))}

    @cached_property
    def rope_scalings(self) -> list[tuple[str, str]]:
        """The constants of kinds of scaling, and the texts that stand for them in a file."""
        return re.findall(r'\{\s*(LLAMA_ROPE_SCALING_TYPE_\w+)\s*,\s*"(\w+)"', self._model)

    @cached_property
    def local_variables(self) -> Block:
        """What the macro LLAMA_LOAD_LOCALS declares."""
        text = self._text("llama-model.h")
        macro = re.search(r"#define\s+LLAMA_LOAD_LOCALS(.*?)(?<!\\)\n", text, re.DOTALL)
        if macro is None:
            return Block(())
        return Parser(tokens("{" + macro[1].replace("\\\n", "\n") + "}")).block()

    # What is beside the functions of architectures.

    def scales(self) -> list[list[str]]:
        """Scales that may be beside a weight: tensor, suffix, and the length of their shape."""
        body = self._model[self._model.find("bool llama_model_base::load_tensors") :]
        pattern = r'create_tensor\(tn\((LLM_TENSOR_\w+)\s*,\s*"((?:input_)?scale)"\s*(?:,\s*i)?\)\s*,\s*\{([^}]*)\}'
        found = {
            (self.tensors[tensor], suffix, "n_expert" if "n_expert" in shape else "1")
            for tensor, suffix, shape in re.findall(pattern, body)
            if tensor in self.tensors
        }
        return [[tensor.replace("%d", "{i}"), suffix, shape] for tensor, suffix, shape in sorted(found)]

    def vocabulary(self) -> dict[str, Any]:
        """Names of tokenizers: `models`; of these those with no vocabulary (`none`) and those with merges; `pre`, and
        of these those that need no merges.
        """
        text = stripped(self._text("llama-vocab.cpp"))
        branches = re.split(r"(?=(?:else )?if \(tokenizer_model ==)", text)

        def named(branch: str) -> list[str]:
            return re.findall(r'tokenizer_model == "(\w+)"', branch[: branch.find("{")])

        return {
            "models": sorted(set(re.findall(r'tokenizer_model == "(\w+)"', text))),
            "none": [name for each in branches if "LLAMA_VOCAB_TYPE_NONE" in each[:400] for name in named(each)],
            "merges": sorted(
                {name for each in branches if "cannot find tokenizer merges" in each for name in named(each)}
            ),
            "no_merges": re.findall(r'= \(tokenizer_pre == "([^"]*)"\)', text),
            "pre": sorted(set(re.findall(r'tokenizer_pre == "([^"]*)"', text))),
        }


def _pairs(text: str, prefix: str) -> dict[str, str]:
    """The pairs of a constant and a string in initializers of maps."""
    return dict(re.findall(rf'\{{\s*({prefix}\w+)\s*,\s*"([^"]*)"\s*\}}', text))


def _enumerated(body: str) -> dict[str, int]:
    """The constants of an enumeration with their values."""
    found, value = {}, -1
    for item in body.split(","):
        match = re.match(r"\s*(\w+)\s*(?:=\s*(-?\d+))?\s*$", item)
        if match:
            value = int(match[2]) if match[2] else value + 1
            found[match[1]] = value
    return found
