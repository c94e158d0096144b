"""Questions about the origin of a file: is it a known release, and what wrote its metadata."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import pairwise

from i2s_spec.errors import counted, quote
from i2s_spec.inspect.questions import PROOF, STRONG, WEAK, Evidence, Observed, PossibleAnswer, Question, QuestionCase
from i2s_spec.schema.releases import CONVERTERS, RELEASES, WRITERS, YOUNG_KEYS, Converter, LastWriter, Release
from i2s_spec.schema.types import BY_NAME

#: Fewest keys whose order distinguishes converters.
ENOUGH_KEYS = 8


def release(seen: Observed, sha256: str | None = None) -> Question:
    """Answer whether the file is a known published one.

    :param sha256: of the whole file, if it was computed
    """
    hypotheses = []
    for known in RELEASES:
        favour, against = _release_evidence(seen, known, sha256)
        if favour:
            made = PossibleAnswer(known.name, known.title, tuple(favour), tuple(against))
            hypotheses.append(made)
    hypotheses.sort(key=lambda hypothesis: hypothesis.rank)
    tell = "the SHA-256 of the file: --sha256"
    return Question("release", "Is it a published file?", tuple(hypotheses), tell if sha256 is None else "")


def _release_evidence(seen: Observed, known: Release, sha256: str | None) -> tuple[list[Evidence], list[Evidence]]:
    favour: list[Evidence] = []
    against: list[Evidence] = []
    data_start = seen.file.data_start
    if known.size == seen.file.size:
        favour.append(
            Evidence(f"the file has exactly {counted(known.size, 'byte')}, like the release ({known.source})", STRONG)
        )
    elif (
        data_start is not None and known.data == seen.file.size - data_start and known.architecture == seen.architecture
    ):
        weight = STRONG if known.size is None else WEAK
        favour.append(
            Evidence(f"the data section has {counted(known.data, 'byte')}, as its inventory adds up to", weight)
        )
    if sha256 is not None and known.sha256:
        if sha256.startswith(known.sha256):
            whole = len(known.sha256) == 64
            digits = "" if whole else f", of which {counted(len(known.sha256), 'digit is', 'digits are')} known"
            favour.append(Evidence(f"the SHA-256 is that of the release{digits}", PROOF if whole else STRONG))
        elif favour:
            against.append(Evidence("the SHA-256 differs: something in the file was changed", PROOF))
    if not favour:
        return [], []
    types = dict(known.types)
    if seen.file.index.tensors != known.tensors:
        against.append(Evidence(f"it has {counted(seen.file.index.tensors, 'tensor')}, not {known.tensors}", PROOF))
    elif dict(seen.types) != types:
        against.append(Evidence("the numbers of tensors by type differ", PROOF))
    else:
        inventory = ", ".join(f"{count} {name}" for name, count in known.types)
        favour.append(Evidence(f"it has the {counted(known.tensors, 'tensor')} of the release: {inventory}", WEAK))
    if seen.architecture != known.architecture:
        against.append(Evidence(f"the architecture is {quote(seen.architecture)}, not {known.architecture}", PROOF))
    name = seen.value("general.name")
    if isinstance(name, str) and name.startswith("synthetic-"):
        against.append(Evidence(f"general.name is {quote(name)}: i2s new made it", PROOF))
    for key, wanted in known.sizes:
        got = seen.own(key)
        if got is not None and got != wanted:
            against.append(Evidence(f"{key} is {quote(str(got), bare=True)}, not {wanted:,}", PROOF))
    return favour, against


def converter(seen: Observed) -> Question:
    """Answer which program wrote the keys and the tensor table."""
    case = QuestionCase([*((each.name, each.title) for each in CONVERTERS), ("i2s-spec", "i2s new, of this package"),
                         ("other", "another program")])  # fmt: skip
    fitting = False
    for each in CONVERTERS:
        fitting |= _weigh_order(seen, each, case)
    young = [key for key in YOUNG_KEYS if key in seen.keys]
    if young:
        case.favour("other", f"{', '.join(young)}: newer converters of llama.cpp write them, BitNet's do not", STRONG)
        for each in CONVERTERS:
            case.against(each.name, f"it does not write {young[0]}", STRONG)
    name = seen.value("general.name")
    if isinstance(name, str) and name.startswith("synthetic-"):
        case.favour("i2s-spec", f"general.name is {quote(name)}", STRONG)
        case.against_others("i2s-spec", f"general.name is {quote(name)}, as i2s new writes it", STRONG)
    else:
        case.against("i2s-spec", "general.name does not begin with synthetic-", STRONG)
    if not fitting and len(seen.keys) >= ENOUGH_KEYS and not young:
        case.favour("other", "the keys come in an order that none of the known converters writes", STRONG)
    if seen.layer_order == "number":
        for each in CONVERTERS:
            case.against(each.name, "layers come in the order of their numbers, not of their names as text", WEAK)
    elif seen.layer_order == "text":
        for each in CONVERTERS:
            if each.architectures and seen.architecture in each.architectures:
                case.favour(each.name, "layers come in the order of their numbers as text: 0, 1, 10, 11, 2", WEAK)
    return case.question("converter", "What wrote its metadata?")


def writer(seen: Observed) -> Question | None:
    """Answer which program wrote the file last; None if it has no marks of any."""
    name = seen.value("general.name")
    found = [] if isinstance(name, str) and name.startswith("synthetic-") else list(_marked(seen))
    if not found:
        return None
    case = QuestionCase([(each.name, each.title) for each, _ in found])
    for place, (each, mark) in enumerate(found):
        case.favour(each.name, mark, WEAK if place or each.is_weak else STRONG)
    return case.question("writer", "What wrote the file last?")


def _marked(seen: Observed) -> Iterator[tuple[LastWriter, str]]:
    """Yield the programs whose marks a file has, the last to write it first, and the marks in words."""
    names = [key.replace("{a}", seen.architecture) for key in seen.keys]
    in_order = names == sorted(names)
    families = {BY_NAME[name].family for name in seen.types if name in BY_NAME}
    for each in WRITERS:
        begun = next((key for key in seen.keys if key.startswith(each.beginnings)), None) if each.beginnings else None
        if begun is not None:
            yield each, f"it has the key {_shown(begun, seen)}"
        elif each.keys and set(each.keys) <= set(seen.keys) and (in_order or not each.is_sorted):
            order = ", and all keys come in the order of their names" if each.is_sorted else ""
            yield each, f"it has {' and '.join(each.keys)}{order}"
        elif each.family and each.family in families:
            yield each, "it has tensors of a type of its own"
        elif each.version is not None and seen.file.version == each.version:
            yield each, f"it has version {each.version} of the format"


def _weigh_order(seen: Observed, known: Converter, case: QuestionCase) -> bool:
    """Compare the order of the keys with a converter's; return whether it fits."""
    if seen.architecture not in known.architectures:
        if seen.architecture:
            names = " or ".join(known.architectures)
            case.against(known.name, f"it writes architecture {names}, not {quote(seen.architecture)}", STRONG)
        return False
    place = {key: i for i, key in enumerate(known.keys)}
    shared = [key for key in seen.keys if key in place]
    if len(shared) < min(ENOUGH_KEYS, len(known.keys)):
        return False
    for one, other in pairwise(shared):
        if place[one] > place[other]:
            shown = f"{_shown(other, seen)} comes after {_shown(one, seen)}; it writes them the other way round"
            case.against(known.name, shown, STRONG)
            return False
    written = {"general.quantization_version"}  # llama-quantize adds it
    strangers = [
        key for key in seen.keys if key not in place and key not in written and not key.startswith("tokenizer.")
    ]
    text = f"{counted(len(shared), 'key comes', 'keys come')} in the order in which it writes them"
    if strangers:
        odd = _shown(strangers[0], seen)
        case.favour(known.name, text, WEAK)
        case.against(known.name, f"it does not write {odd}", STRONG)
        return False
    case.favour(known.name, text, STRONG)
    return True


def _shown(key: str, seen: Observed) -> str:
    return quote(key.replace("{a}", seen.architecture), 64, bare=True)
