"""Rules about projectors of multimodal models (mmproj): what llama.cpp's loader asks of each type."""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Any

from i2s_spec.errors import Span, TrustedText, counted
from i2s_spec.linter.analysis.companion_view import EncoderView, projector_view
from i2s_spec.linter.analysis.conditions import base_model, projectors
from i2s_spec.linter.analysis.context import LintContext
from i2s_spec.linter.rule import WARNING, Finding, rule
from i2s_spec.schema import kinds
from i2s_spec.schema.faults import KEY_COUNT_SPAN, TENSOR_COUNT_SPAN


def _commit() -> str:
    """Return the version of llama.cpp that the table was read from."""
    return str(kinds.projector_table()["source"].partition("@")[2].partition(":")[0])


@rule("M211", "projector-type", "the type of the {encoder} projector is {got}; {why}", clause="3.9", when=projectors)
def projector_type(subject: LintContext) -> Iterator[Finding]:
    """The type of a projector is missing, or no loader knows it.

    Why: clip.projector_type chooses the graph and which tensors are read; a file with two encoders may name one for each
    (clip.vision.projector_type, clip.audio.projector_type). llama.cpp refuses the file: 'unknown projector type'. A type
    that is newer than the table here is refused by the llama.cpp that the table was read from.

    Example: clip.projector_type llava, which is called mlp.

    Fix: write the type; convert_hf_to_gguf.py --mmproj of llama.cpp writes it.
    """
    for each in projector_view(subject).encoders:
        if each.row is None:
            span = each.records.value_span(each.key) if each.key else KEY_COUNT_SPAN
            if not each.type:
                why = TrustedText(f"it chooses what is loaded, as clip.projector_type or {each.own('projector_type')}")
            elif each.is_refused:
                why = TrustedText(f"llama.cpp at {_commit()} knows the name and does not load it")
            else:
                why = TrustedText(f"llama.cpp at {_commit()} knows no such type")
            got = each.type or TrustedText("missing")
            yield projector_type.at(span, got=got, encoder=TrustedText(each.encoder.name), why=why)


@rule("M212", "projector-encoder", "no key says that there is an encoder: {got}", clause="3.9", when=projectors)
def projector_encoder(subject: LintContext) -> Iterator[Finding]:
    """No key says which encoder the projector has.

    Why: llama.cpp loads the encoders whose key is true, and refuses a file without one: clip.has_vision_encoder,
    clip.has_audio_encoder.

    Example: a projector whose clip.has_vision_encoder was left out.

    Fix: write the key of the encoder, as a bool that is true.
    """
    view = projector_view(subject)
    loaded = [each for each in view.encoders if each.encoder.name != "speech"]
    wrong = [each.flag for each in kinds.ENCODERS if each.flag in view.records.places
             and view.records.label(each.flag) != "bool"]  # fmt: skip
    if not loaded and not wrong:
        flags = [each.flag for each in kinds.ENCODERS[:2]]
        there = next((flag for flag in flags if flag in view.records.places), None)
        got = TrustedText(f"{there} is false" if there else f"{flags[0]} and {flags[1]} are missing")
        yield projector_encoder.at(view.records.value_span(there or ""), got=got)


@rule("M213", "projector-key-missing", "the key {key} is missing, which llama.cpp needs for {what}", clause="3.9",
      when=projectors)  # fmt: skip
def projector_key_missing(subject: LintContext) -> Iterator[Finding]:
    """A key is missing that the loader needs for the encoder or for the type of its projector.

    Why: llama.cpp has no default for it, and refuses the file: 'Key not found'.

    Example: a projector without clip.vision.projection_dim.

    Fix: write the key; its value is in config.json or preprocessor_config.json of the model.
    """
    for each in projector_view(subject).encoders:
        special = (each.row or {}).get("keys", {})
        for key in each.required:
            if key not in each.records.places:
                what = f"projectors of type {each.type}" if key in special else f"{each.encoder.name} encoders"
                yield projector_key_missing.at(KEY_COUNT_SPAN, key=TrustedText(key), what=TrustedText(what))


@rule("M214", "projector-key-type", "{key} has type {got}; llama.cpp reads only {want}", clause="3.9", cwe=843,
      when=projectors)  # fmt: skip
def projector_key_type(subject: LintContext) -> Iterator[Finding]:
    """A key of a projector has another type than the loader reads.

    Why: the loader compares types strictly; its process ends at most of them.

    Example: clip.vision.image_size as a u64, or clip.has_vision_encoder as a u8.

    Fix: write the key with that type.
    """
    view = projector_view(subject)
    wanted = dict(kinds.PROJECTOR_OPTIONAL)
    for each in view.encoders:
        wanted |= each.read
    for key, span, got, want in view.records.of_another_type(wanted):
        yield projector_key_type.at(span, got=got, want=want, key=key)


@rule("M215", "projector-value", "{key} is {got}; {want}", clause="3.9", when=projectors)
def projector_value(subject: LintContext) -> Iterator[Finding]:
    """A value of a projector is one that the loader refuses.

    Why: llama.cpp compares sizes with what its buffers hold, wants a mean and a deviation for each of three colours, pairs
    of sizes, blocks that exist, and not two activations; it divides by the number of heads.

    Example: clip.vision.image_mean with two values.

    Fix: write the value of config.json or preprocessor_config.json of the model.
    """
    for each in projector_view(subject).encoders:
        for key, got, want in _odd_values(each):
            yield projector_value.at(
                each.records.value_span(key), got=got, want=TrustedText(want), key=TrustedText(key)
            )


def _odd_values(each: EncoderView) -> Iterator[tuple[str, Any, str]]:
    """Yield key, value and the wanted value, in words, of each value that the loader refuses."""
    value = each.records.value
    for key, label in each.read.items():
        found = value(key, label)
        if label == "u32" and isinstance(found, int):
            low, high = next((limits for end, limits in kinds.RANGES.items() if key.endswith(end)), (0, 2**31 - 1))
            choices = kinds.CHOICES.get((each.type, key))
            if not low <= found <= high:
                yield (
                    key,
                    found,
                    f"llama.cpp takes {low:,} to {high:,}" if low < high else f"llama.cpp takes {low:,} only",
                )
            elif choices is not None and found not in choices:
                yield key, found, f"llama.cpp takes {' or '.join(map(str, choices))} for this type"
    if each.encoder.name == "vision":
        for name in ("image_mean", "image_std"):
            key = each.own(name)
            if isinstance(items := value(key, "arr[f32]"), tuple) and len(items) < kinds.COLOURS:
                yield key, items, f"llama.cpp takes {kinds.COLOURS} or more values, one for each colour"
        least, most = (value(each.own(f"image_{end}_pixels"), "u32") for end in ("min", "max"))
        read = each.own("image_max_pixels") in each.read
        if read and isinstance(least, int) and isinstance(most, int) and most < least:
            yield each.own("image_max_pixels"), most, f"it is less than clip.vision.image_min_pixels, {least:,}"
        pins = "clip.vision.image_grid_pinpoints"
        if isinstance(items := value(pins, "arr[i32]"), tuple) and len(items) % 2:
            yield pins, TrustedText(f"an array of {len(items):,}"), "its elements are pairs, of width and height"
    if each.encoder.name == "audio":
        bins = each.number(each.own("num_mel_bins"))
        most_bins = None if each.type in kinds.RAW_AUDIO else 256
        if bins is not None and (bins < 1 or (most_bins is not None and bins > most_bins)):
            yield each.own("num_mel_bins"), bins, "llama.cpp takes 1 to 256"
    if value("clip.use_gelu", "bool") is True and value("clip.use_silu", "bool") is True:
        yield "clip.use_silu", TrustedText("true"), "clip.use_gelu is true as well, and there is one activation"
    key, blocks = each.own("feature_layer"), each.blocks
    if isinstance(layers := value(key, "arr[i32]"), tuple) and blocks is not None and max(layers, default=0) > blocks:
        yield key, max(layers), f"there {'is' if blocks == 1 else 'are'} {counted(blocks, 'block')}"
    lengths = [key for key, label in (each.row or {}).get("keys", {}).items() if key.endswith(".wa_pattern_mode")]
    for key in lengths:
        if isinstance(items := value(key, "arr[i32]"), tuple) and blocks is not None and len(items) != blocks:
            yield key, TrustedText(f"an array of {len(items):,}"), f"it has one element for each of {blocks:,} blocks"


@rule("M216", "projector-tensor-missing", "llama.cpp refuses the projector: {what}", clause="3.9", when=projectors)
def projector_tensor_missing(subject: LintContext) -> Iterator[Finding]:
    """A tensor is missing that the loader requires for this type of projector.

    Why: llama.cpp reads three tensors of each block up to block_count, and what the type needs behind the encoder. It
    refuses the file: 'unable to find tensor'; its process ends if the tensor that gives the width of the result is missing.
    Biases, norms and the embedding of patches are optional to the loader.

    Example: a projector of one block whose clip.vision.block_count is 2.

    Fix: convert the projector again; if only block_count is wrong, write the number of blocks.
    """
    for each in projector_view(subject).encoders:
        there = each.records.tensors
        missing = dict.fromkeys(needed for needed in each.needed() if needed.name not in there)
        if not missing:
            continue
        blocks, held = each.blocks, _blocks(each)
        gone = {needed.block for needed in missing if needed.block is not None} - held
        if gone and all(needed.block in gone for needed in missing) and blocks is not None:
            span: Span = each.records.value_span(each.own("block_count"))
            what = (f"{each.own('block_count')} is {blocks:,}, and there "
                    f"{'is' if len(held) == 1 else 'are'} {counted(len(held), 'block')} of tensors "
                    f"{each.encoder.tensors}.blk.N; block {min(gone):,} is the first that is missing")  # fmt: skip
            yield projector_tensor_missing.at(span, got=len(held), want=blocks, what=TrustedText(what))
            continue
        names = [needed.name for needed in missing]
        more = f" and {counted(len(names) - 1, 'other tensor')}" if len(names) > 1 else ""
        what = f"the tensor {names[0]}{more} {'is' if len(names) == 1 else 'are'} missing, which a projector of type " \
               f"{each.type} needs"  # fmt: skip
        yield projector_tensor_missing.at(TENSOR_COUNT_SPAN, want=TrustedText(names[0]), what=TrustedText(what))


def _blocks(each: EncoderView) -> set[int]:
    """Return the numbers of the blocks of which the file has any tensor."""
    name = re.compile(rf"{re.escape(each.encoder.tensors)}\.blk\.(\d{{1,9}})\.")
    return {int(found[1]) for found in map(name.match, each.records.tensors) if found}


@rule("M217", "projector-blocks-unused", "{count:block of tensors|blocks of tensors} from {name} on {verb} not loaded: "
      "{key} is {want}", severity=WARNING, clause="3.9", when=projectors)  # fmt: skip
def projector_blocks_unused(subject: LintContext) -> Iterator[Finding]:
    """There are more blocks of tensors than block_count says.

    Why: llama.cpp loads as many blocks as the key says, without a message; the encoder then ends too early. Some
    models take the result of a block before the last, and their converters leave the rest out.

    Example: clip.vision.block_count 23 in a file with the tensors of 24 blocks.

    Fix: write the number of blocks, or leave out the tensors that are not needed.
    """
    for each in projector_view(subject).encoders:
        if each.blocks is None or each.row is None or not each.row.get("blocks", True):
            continue
        more = sorted(number for number in _blocks(each) if number >= each.blocks)
        if more:
            name = f"{each.encoder.tensors}.blk.{more[0]}"
            key = each.own("block_count")
            yield projector_blocks_unused.at(each.records.value_span(key), got=each.blocks + len(more), want=each.blocks,
                                             count=len(more), name=TrustedText(name), key=TrustedText(key),
                                             verb=TrustedText("is" if len(more) == 1 else "are"))  # fmt: skip


@rule("M218", "projector-width", "the widths do not agree: {what}", clause="3.9", when=projectors)
def projector_width(subject: LintContext) -> Iterator[Finding]:
    """The width of a projector's result is not the width of what takes it.

    Why: the result replaces embeddings of tokens, so it has their width. llama.cpp refuses two encoders of different
    widths, and a projector beside a text model of another width: 'mismatch between text model'. The model of --reference
    is compared.

    Example: a projector of a model of 4,096 columns beside one of 2,048.

    Fix: take the projector that was made for the model.
    """
    encoders = [each for each in projector_view(subject).encoders if each.width is not None]
    first = encoders[0] if encoders else None
    if first is None or first.width is None:
        return
    for other in encoders[1:]:
        if other.width != first.width:
            what = (f"the {first.encoder.name} projector has the width {first.width:,}, and that of {other.encoder.name} "
                    f"{other.width:,}")  # fmt: skip
            span = _width_span(other)
            yield projector_width.at(span, got=other.width, want=first.width, what=TrustedText(what))
    wanted = _text_width(subject)
    if wanted is not None and wanted != first.width:
        what = f"the result of the projector has the width {first.width:,}, and the text model {wanted:,}"
        yield projector_width.at(_width_span(first), got=first.width, want=wanted, what=TrustedText(what))


def _width_span(each: EncoderView) -> Span:
    """Return the bytes that say how wide the result of an encoder is."""
    if each.result is None:
        return each.records.value_span(each.own("projection_dim"))
    return each.records.ne_span(each.result[0])


def _text_width(subject: LintContext) -> int | None:
    """Return the width of the input of the model of --reference, if it is a GGUF file that tells it."""
    base = base_model(subject)
    if base is None:
        return None
    name = base.metadata.get("general.architecture")
    width, layers = (base.metadata.get(f"{name}.{key}") for key in ("embedding_length", "n_deepstack_layers"))
    if not isinstance(width, int):
        return None
    return width * (1 + layers) if isinstance(layers, int) else width
