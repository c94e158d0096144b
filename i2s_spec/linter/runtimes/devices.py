"""Where llama.cpp computes a file: on a processor, and with CUDA, by the types of its matrices.

All other runs of llama.cpp, and of programs that contain it, were made with builds for processors. Speeds are those of
models of BitNet-b1.58-2B-4T's shape, in tokens per second: on an H200 with a processor of 16 cores, and on processors of
x86.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from functools import cache
from typing import TYPE_CHECKING, Any, Final, NamedTuple

from i2s_spec.errors import counted
from i2s_spec.linter.runtimes.records import FileForm, Reason, form_of, table
from i2s_spec.schema.runtimes import RUNTIME, Runtime

if TYPE_CHECKING:
    from i2s_spec.gguf.reader import File, Tensor

_TERNARY_ON_CPU: Final = frozenset({"TQ1_0", "TQ2_0"})

#: Types for ternary matrices that are fast on a device, the fastest first; and those that are slow there although they are
#: computed correctly.
PREFERRED: Final = {"CPU": ("TQ2_0", "TQ1_0"), "CUDA": ("Q2_0", "F16")}
SLOW: Final = {"CPU": frozenset({"Q2_0"}), "CUDA": _TERNARY_ON_CPU}

#: What is known of Q2_0 on processors, in tokens per second of CPU time.
SLOW_Q2_0: Final = (
    "on x86 it has no vector code for Q2_0: 0.9 tokens per second of CPU time for a model of 2B-4T's shape, and 14 with "
    "TQ2_0"
)


@cache
def _rows() -> dict[str, dict[str, Any]]:
    """Return the recorded runs with CUDA, by type."""
    return {each["type"]: each for each in table()["devices"]}


def columns(form: FileForm, loads: str, computes: str) -> tuple[tuple[str, str], ...]:
    """Return pairs of a device, CPU or CUDA, and what the runtime does there; empty unless it loads or refuses the file.

    :param loads: the verdict on loading, :param computes: that on computing, both on a processor
    """
    if loads in ("no", "crash"):
        return ("CPU", "refuses"), ("CUDA", "refuses")
    if loads != "yes":
        return ()
    rows = [_rows().get(each) for each in sorted(form.matrices)]
    known = all(row is not None and form.architecture in row["architectures"] for row in rows)
    if not rows or not known or form.features & {"rotated weights", "experts"}:
        cuda = "not tried"
    elif any(row is not None and row["products"] == "CPU" for row in rows):
        cuda = "on the CPU, although offloaded"
    else:
        cuda = computes if computes in ("wrongly", "not tried") else "computes"
    return ("CPU", "computes" if computes in ("correctly", "expected") else computes), ("CUDA", cuda)


def advice(form: FileForm, runtime: Runtime) -> Iterator[Reason]:
    """Yield what a user of a device should know."""
    row = next((_rows()[each] for each in sorted(form.matrices) if each in _rows()), None)
    if row is None or form.architecture not in row["architectures"]:
        return
    source = f"{row['program']} {row['version']} bins"
    slow = sorted(form.matrices & _TERNARY_ON_CPU)
    if slow:
        text = (
            f"with CUDA, matrices of {' and '.join(slow)} are multiplied on the CPU although their layers are offloaded "
            "(10.7 tokens per second, 35.2 if none is); Q2_0 is computed on the GPU"
        )
        yield Reason(text, source, "note")
    if "Q2_0" in form.matrices:
        yield Reason(f"{SLOW_Q2_0}; with CUDA Q2_0 is faster", source, "note")
    if moved := option(form, runtime):
        text = (
            f"with CUDA, the head of architecture {form.architecture} stays on the CPU; {moved} moves it "
            "(Q2_0: 427 tokens per second, not 93)"
        )
        yield Reason(text, source, "note")


def option(form: FileForm, runtime: Runtime) -> str:
    """Return the option with which a program also computes the head on the GPU; empty if it does so anyway."""
    stays = form.architecture in runtime.heads_on_cpu and "a tied head" in form.features
    return "-ot token_embd=CUDA0" if stays else ""


class WeightPlaces(NamedTuple):
    """Bytes of weights in the memory of a GPU and of the host, all layers offloaded; why, and the runs that show it."""

    device: int
    host: int
    words: str
    source: str


def weight_places(file: File, tensors: Sequence[Tensor]) -> WeightPlaces | None:
    """Return where llama.cpp with CUDA puts the weights of a file; None if no recorded run shows it.

    :param tensors: all of the model, each of a known size
    """
    form, rows = form_of(file), _rows()
    is_table = [tensor.raw_name == b"token_embd.weight" for tensor in tensors]
    kinds = {each.kind for each, table_ in zip(tensors, is_table, strict=True) if len(each.ne) > 1 and not table_}
    if dict(columns(form, "yes", "correctly"))["CUDA"] == "not tried" or any(
        kind not in rows or rows[kind]["products"] == "refused" for kind in kinds
    ):
        return None
    host = sum(
        each.nbytes for each, table_ in zip(tensors, is_table, strict=True) if table_ or each.kind in _TERNARY_ON_CPU
    )
    device = sum(each.nbytes for each in tensors) - host
    words = ["the embedding lies in host memory"]
    if "a tied head" in form.features:
        if option(form, RUNTIME["llama.cpp"]):
            words[0] += ", and is multiplied there as the head"
        else:
            copied = sum(each.nbytes for each, table_ in zip(tensors, is_table, strict=True) if table_)
            device += copied
            words.append(f"a copy of it, {counted(copied, 'byte')}, is the head on the GPU")
    if slow := sorted(kinds & _TERNARY_ON_CPU):
        words.append(f"matrices of {' and '.join(slow)} stay in host memory, where they are multiplied")
    row = rows[min(kinds)] if kinds else next(iter(rows.values()))
    return WeightPlaces(
        device, host, "; ".join(words),
        f"runs of llama.cpp ({row['program']} {row['version']}) on an {row['device']} on {row['date']}",
    )  # fmt: skip
