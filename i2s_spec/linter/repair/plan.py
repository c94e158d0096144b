"""The plan of a repair: which repairs there are, which are made, and what a file becomes by them.

`repair` registers the repair of a rule's findings, a function that proposes an `Action` or a `Declined` for each.
`plan` makes the chosen ones, pass by pass, until a pass finds nothing to do. All edits of a pass refer to the same
bytes. An action whose edits overlap another's waits for the next pass, where it is examined again: its finding may be
gone by then. What follows from the edits (the counts in the header, the padding before the data section) is updated
once at the end of each pass.

`derived` gives the values of keys that follow from the rest of the file.
"""

from __future__ import annotations

from bisect import bisect_left, insort
from collections import Counter
from collections.abc import Callable, Collection, Iterable, Iterator, Sequence
from itertools import islice
from typing import Final, NamedTuple

from i2s_spec.convert.rewrite import Edit, EditedSource, zeros
from i2s_spec.errors import Span, counted, quote
from i2s_spec.gguf.source import Source
from i2s_spec.linter.analysis.architecture_view import ArchitectureView
from i2s_spec.linter.analysis.context import LintContext
from i2s_spec.linter.repair.workspace import MOST_REPAIRED, NO_EXTRA_REPAIRS, ExtraRepairs, TooManyFindings, Workspace
from i2s_spec.linter.rule import Finding, Fix
from i2s_spec.linter.rules import REGISTRY
from i2s_spec.schema.dialect import CANONICAL
from i2s_spec.schema.faults import KEY_COUNT_SPAN, TENSOR_COUNT_SPAN
from i2s_spec.schema.types import padded

# --- repairs and what they propose -----------------------------------------------------------------------------------


class DataPlacement(NamedTuple):
    """Where the data section begins before the repair, and the alignment after it."""

    base: int
    alignment: int


class Action(NamedTuple):
    """One finding's repair: the edits, which are made together or not at all, and a sentence that says what they do.

    An action of a safe repair is always `safe`; an action of an unsafe repair may be proved safe.
    """

    code: str
    at: Span
    does: str
    edits: tuple[Edit, ...]
    safe: bool
    layout: DataPlacement | None = None


class Declined(NamedTuple):
    """A finding whose repair does not apply here, and why."""

    code: str
    at: Span
    why: str


Outcome = Action | Declined
#: Proposes repairs of the findings of a rule, which is given by its code.
Propose = Callable[["Workspace", str], Iterable[Outcome]]


class Repair(NamedTuple):
    """How the findings of one rule are repaired.

    `does` describes it in a few words. A repair `by_name` rests on a suspicion only: it is made only if its whole code
    is selected. `weights` says whether it changes what `i2s hash` calls the weights: names, shapes, types and contents
    of tensors, or which tensors there are. `option` is the option of `i2s fix` that the repair needs besides
    `--unsafe`: a choice that only the user can make, with its usual value.
    """

    code: str
    safety: Fix
    does: str
    propose: Propose
    by_name: bool = False
    weights: bool = False
    option: str = ""


#: Every repair by its rule's code, in the order in which they are tried.
REPAIRS: dict[str, Repair] = {}


def repair(
    code: str, safety: Fix, does: str, *, by_name: bool = False, weights: bool = False, option: str = ""
) -> Callable[[Propose], Propose]:
    """Declare the decorated function as the repair of a rule's findings.

    A function may repair several rules: of several declarations, the one next to the function is tried first.
    """

    def register(propose: Propose) -> Propose:
        if code in REPAIRS:
            raise ValueError(f"rule {code} has two repairs")
        if safety is Fix.NONE or (weights and safety is Fix.SAFE):
            raise ValueError(f"a repair of {code} is safe or unsafe, and unsafe if it changes weights")
        REPAIRS[code] = Repair(code, safety, does, propose, by_name, weights, option)
        return propose

    return register


# --- passes ----------------------------------------------------------------------------------------------------------

#: The path of the padding before the data section, whose length follows from everything before it.
PADDING: Final = "padding"

#: Repairs that move the data section; in the result its place is looked for again.
_MOVING: Final = frozenset({"G222", "G414"})

#: No file needs as many passes: each pass repairs something, and few repairs enable another one.
PASSES: Final = 64

#: Most places that one repair changes in a pass, over all its findings; if it would change more, it changes none.
MOST_EDITS: Final = 1 << 16


class RepairPlan(NamedTuple):
    """A repaired file that is not written yet, and how it came about.

    `actions` were applied; `declined` findings have a repair that does not apply; `withheld` findings could be repaired
    with unsafe repairs.
    """

    source: EditedSource
    actions: tuple[Action, ...]
    declined: tuple[Declined, ...]
    withheld: tuple[Action, ...]


def chosen(select: Collection[str] = (), ignore: Collection[str] = ()) -> list[Repair]:
    """Return the repairs of the selected rules, in the order in which they are tried.

    Repairs `by_name` are among them only if `select` holds their whole code or slug.

    :param select: codes, beginnings of codes, or slugs; if empty, all
    :param ignore: codes, beginnings of codes, or slugs
    :raises ValueError: for one that names no rule whose findings can be repaired
    """
    wanted = [_named(name) for name in select]
    unwanted = [_named(name) for name in ignore]
    return [
        each
        for code, each in REPAIRS.items()
        if (not wanted or any(code in codes for codes in wanted))
        and not any(code in codes for codes in unwanted)
        and (not each.by_name or [code] in wanted)
    ]


def _named(name: str) -> list[str]:
    found = [code for code in REPAIRS if name and code.startswith(name.upper())]
    found = found or [code for code in REPAIRS if code in REGISTRY and REGISTRY[code].slug == name.lower()]
    if not found:
        raise ValueError(f"{quote(name)} names no rule whose findings can be repaired")
    return found


def plan(
    source: Source,
    repairs: Iterable[Repair],
    unsafe: bool = False,
    path: str | None = None,
    extra: ExtraRepairs = NO_EXTRA_REPAIRS,
) -> RepairPlan:
    """Repair a file, without writing it.

    :param source: the file; one that is edited already keeps its edits
    :param unsafe: whether repairs that need review are made
    :param path: of the original, which rules about split files ask for
    """
    repairs = list(repairs)
    edited = source if isinstance(source, EditedSource) else EditedSource(source)
    actions: list[Action] = []
    for _ in range(PASSES):
        workspace = Workspace(edited if actions else source, path, extra)
        taken = _Pass()
        declined: list[Declined] = []
        withheld: list[Action] = []
        for each in repairs:
            for outcome, _ in _outcomes(each, workspace):
                if isinstance(outcome, Declined):
                    if (
                        unsafe or each.safety is Fix.SAFE
                    ):  # other refusals do not concern a user who wants only safe repairs
                        declined.append(outcome)
                elif not (outcome.safe or unsafe):
                    withheld.append(outcome)
                elif (why := _why_not(outcome, workspace)) is not None:
                    declined.append(Declined(outcome.code, outcome.at, why))
                else:
                    taken.take(outcome)
        if not taken.actions:
            return RepairPlan(edited, tuple(actions), tuple(declined), tuple(withheld))
        actions += taken.actions
        edited = edited.edited(taken.settled(workspace))
    others = [each for each in repairs if each.code not in _MOVING]
    if len(others) == len(repairs):
        raise RuntimeError("the repairs do not converge")
    moved = next(action for action in actions if action.code in _MOVING)
    made = plan(source, others, unsafe, path, extra)
    why = "where the tensors lie stays in doubt: what is in them fits several places"
    return made._replace(declined=(*made.declined, Declined(moved.code, moved.at, why)))


def taken_together(workspace: Workspace, actions: Iterable[Action]) -> EditedSource:
    """Return a file with some actions, whose edits do not overlap, and with what follows from them."""
    taken = _Pass()
    for action in actions:
        if not action.edits or not all(_changes_nothing(edit, workspace) for edit in action.edits):
            assert taken.take(action)
    return EditedSource(workspace.source).edited(taken.settled(workspace))


def offers(subject: LintContext, findings: Sequence[Finding]) -> list[Fix]:
    """Return, for each finding, whether `fix` repairs it in this file: as it is, with the option of its repair, or not.

    It is what `plan` proposes in its first pass. If that makes some repairs and declines others, the plan is made to its
    end, since a repair can enable another one.

    :param subject: the file as the linter has examined it
    :param findings: of each rule the first ones, in the order in which the rule gives them
    """
    codes = {finding.code for finding in findings}
    repairs = [each for code, each in REPAIRS.items() if code in codes]
    workspace = Workspace(subject.file.source, subject.path, ExtraRepairs(True, CANONICAL), subject)
    found: dict[str, dict[int, Fix]] = {code: {} for code in codes}
    declined: set[str] = set()
    usual: list[Action] = []  # with no option but --unsafe
    for each in repairs:
        numbers = _numbers(findings, each.code)
        for outcome, given in _outcomes(each, workspace):
            if isinstance(outcome, Declined) or _why_not(outcome, workspace) is not None:
                declined.add(each.code)
                continue
            spans = numbers.get(outcome.at[:2], {})
            number = given if given in spans or not spans else next(iter(spans))
            spans.pop(number, None)
            found[each.code][number] = Fix.SAFE if outcome.safe else Fix.UNSAFE
            if not each.by_name and not each.option:
                usual.append(outcome)
    if usual and (declined or any(action.code in _MOVING for action in usual)):
        plain = [each for each in repairs if not each.option and not each.by_name]
        for unsafe in (False, True):
            made = plan(subject.file.source, plain, unsafe, subject.path)
            late = Counter(action.code for action in made.actions) if unsafe or made.actions else Counter[str]()
            refused = {each.code for each in made.declined}
            for code, offered in found.items():
                if unsafe and code in _MOVING and code in refused:
                    offered.clear()
                left = (
                    number for number, _ in enumerate(f for f in findings if f.code == code) if number not in offered
                )
                for number in islice(left, max(0, late[code] - len(offered))):
                    offered[number] = Fix.UNSAFE if unsafe else Fix.SAFE
    places: dict[str, int] = {}
    made_for = []
    for finding in findings:
        number = places[finding.code] = places.get(finding.code, -1) + 1
        made_for.append(found[finding.code].get(number, Fix.NONE))
    return made_for


def _numbers(findings: Sequence[Finding], code: str) -> dict[tuple[int, int], dict[int, None]]:
    """Return the numbers of a rule's findings by start and stop of their spans."""
    numbers: dict[tuple[int, int], dict[int, None]] = {}
    for number, finding in enumerate(each for each in findings if each.code == code):
        numbers.setdefault(finding.span[:2], {})[number] = None
    return numbers


def _outcomes(repair: Repair, workspace: Workspace) -> list[tuple[Outcome, int]]:
    """Return what a repair proposes, each with the number of the finding; or one sentence instead, if that is more than
    a real file can need."""
    outcomes: list[tuple[Outcome, int]] = []
    edits = 0
    try:
        for outcome in repair.propose(workspace, repair.code):
            edits += len(outcome.edits) if isinstance(outcome, Action) else 0
            if len(outcomes) == MOST_REPAIRED or edits > MOST_EDITS:
                what = f"{MOST_REPAIRED:,} repairs" if edits <= MOST_EDITS else f"{MOST_EDITS:,} changes of bytes"
                first = outcomes[0][0] if outcomes else outcome
                return [(Declined(repair.code, first.at, f"it takes more than {what}"), 0)]
            outcomes.append((outcome, workspace.given.get(repair.code, 0)))
    except TooManyFindings as error:
        return [(Declined(repair.code, error.at, str(error)), 0)]
    return outcomes


def _why_not(action: Action, workspace: Workspace) -> str | None:
    """Say why an action cannot be taken; None if it can.

    An action without review changes no byte that a tensor may hold, and one with review drops none, unless to change
    weights is what it is for; and if it moves the bytes after it, all of them must be understood.
    """
    file = workspace.file
    if all(_changes_nothing(edit, workspace) for edit in action.edits):
        return "what it would write is there already"
    if _twice(action.edits):
        return "tensors share bytes, and it would change those twice"
    if action.safe:
        for edit in action.edits:
            if (why := workspace.tensor_bytes.why_not(edit.span.start, edit.span.stop)) is not None:
                return f"{why}: it would change what may be weights"
    elif not REPAIRS[action.code].weights and file.infos_end is not None:
        for start, stop, _ in (edit.span for edit in action.edits):
            if start >= file.infos_end and (why := workspace.possible_bytes.why_not(start, stop)) is not None:
                return f"{why}: it would drop what may be weights"
    moving = [edit for edit in action.edits if edit.span.stop - edit.span.start != len(edit.new)]
    end = file.infos_end if moving else None
    if action.layout is not None or (moving and (end is None or min([e.span.start for e in action.edits]) < end)):
        if not workspace.whole:
            return "the header could not be read to its end"
        if action.layout is None and file.data_start is None and file.index.tensors:
            return "where the data section begins is not known"
    return None


def _twice(edits: Collection[Edit]) -> bool:
    """Whether different edits overlap; two insertions at the same place do not."""
    if len(edits) < 2:
        return False
    reached = 0
    for start, stop in sorted(edit.order for edit in dict.fromkeys(edits)):
        if start < reached:
            return True
        reached = max(reached, stop)
    return False


def _changes_nothing(edit: Edit, workspace: Workspace) -> bool:
    (start, stop, _), new = edit.span, edit.new
    return stop - start == len(new) and workspace.source.read(start, stop - start) == new


class _Pass:
    """The actions of one pass, whose edits do not touch each other."""

    def __init__(self) -> None:
        self.actions: list[Action] = []
        self._edits: dict[Edit, None] = {}
        self._spans: list[tuple[int, int]] = []
        self._layout: DataPlacement | None = None

    def take(self, action: Action) -> bool:
        """Take an action, unless it conflicts with one that was taken."""
        new = [edit for edit in dict.fromkeys(action.edits) if edit not in self._edits]
        spans = sorted([edit.order for edit in new])
        if not self._free(spans):
            return False
        self._keep(spans)
        self._edits.update(dict.fromkeys(new))
        self._layout = self._layout or action.layout
        self.actions.append(action)
        return True

    def _free(self, spans: list[tuple[int, int]]) -> bool:
        """Whether spans overlap none that was taken; insertions may be beside a span, but not inside it."""
        for start, stop in spans:
            if not self._spans or self._spans[-1][1] <= start:  # most edits come in the order of the file
                continue
            i = bisect_left(self._spans, (start, start))
            if i and self._spans[i - 1][1] > start:
                return False
            while i < len(self._spans) and self._spans[i] == (start, start):
                i += 1
            if i < len(self._spans) and self._spans[i][0] < stop:
                return False
        return True

    def _keep(self, spans: list[tuple[int, int]]) -> None:
        if len(spans) > 64:
            self._spans = sorted([*self._spans, *spans])
        else:
            for span in spans:
                insort(self._spans, span)

    def settled(self, workspace: Workspace) -> list[Edit]:
        """Return all edits, with those that follow from them."""
        edits = list(self._edits)
        file = workspace.file
        for span, count, change in (
            (KEY_COUNT_SPAN, file.index.key_count, sum(edit.keys for edit in edits)),
            (TENSOR_COUNT_SPAN, file.index.tensor_count, sum(edit.tensors for edit in edits)),
        ):
            if change:
                assert count is not None
                edits.append(Edit(span, (count + change).to_bytes(8, file.byte_order)))
        end = file.infos_end
        if end is None:
            return edits
        grown = sum(
            len(edit.new) - (edit.span.stop - edit.span.start)
            for edit in edits
            if edit.span.stop <= end and edit.span.path != PADDING
        )
        if grown or self._layout is not None:
            return _with_padding(workspace, edits, end, grown, self._layout)
        return edits


def _with_padding(
    workspace: Workspace, edits: list[Edit], end: int, grown: int, layout: DataPlacement | None
) -> list[Edit]:
    """Return the edits with the padding before the data section that fits the new end of the tensor infos."""
    file, size = workspace.file, workspace.source.size
    if layout is None:
        if file.data_start is None or file.alignment is None:
            return edits
        layout = DataPlacement(file.data_start, file.alignment)
    stop = min(layout.base, size)
    if stop == end == size:  # a file without tensors that ends with its header
        return edits
    fill = padded(end + grown, layout.alignment) - (end + grown)
    if layout.base > size:  # the file ends inside the padding; that is kept
        fill = size - end
    # Edits that would zero bytes of the old padding are dropped with it.
    remaining = [
        edit
        for edit in edits
        if not (end <= edit.span.start <= edit.span.stop <= stop)
        or (edit.span.start == edit.span.stop and edit.span.path != PADDING)
    ]
    if fill != stop - end or len(remaining) != len(edits):
        remaining.append(Edit(Span(end, stop, "padding"), zeros(fill)))
    return remaining


# --- values that follow from the rest of the file --------------------------------------------------------------------
# Only one value can be right for each of these keys:
#
#     general.quantization_version   2: ggml has had this version of its layouts for as long as GGUF has existed
#     general.file_type              the number for the type of most weights
#     {arch}.vocab_size              the number of listed tokens, if the embedding has as many rows
#     {arch}.embedding_length        the width of the embedding
#     {arch}.block_count             the layers that tensors are named after, counted from 0 without a gap
#     {arch}.feed_forward_length     the rows of ffn_up, of each layer
#     {arch}.attention.head_count    the rows of attn_q divided by the width of a head, if something else gives that width
#                                    {arch}.attention.head_count_kv, key_length, value_length, rope.dimension_count:
#                                    likewise, of attn_k, attn_v, attn_q_norm
#
# Nothing in a file says what context_length, layer_norm_rms_epsilon, rope.freq_base, the ids of special tokens or
# tokenizer.ggml.pre must be: other values load as well, and compute something else. They are never guessed.

#: A number for all layers, or one for each.
Derived = int | tuple[int, ...]


class Undecided(Exception):
    """A value does not follow from the rest of the file; the text says why."""


def derived(known: ArchitectureView, name: str) -> Derived:
    """Return the only value of a key that agrees with the tensors of the file.

    :param name: the key, with the architecture in front
    :raises Undecided: if there is no such value, or more than one
    """
    rule = _RULES.get(name.removeprefix(f"{known.name}."))
    if not known.is_declared or rule is None:
        raise Undecided("nothing in the file says what it must be; the config.json that the model came with does")
    return rule(known)


def head_width(known: ArchitectureView) -> int:
    """Return the width of a query head, if a key or a norm of each head gives it."""
    stated = known.keys.own("attention.key_length")
    norm = known.present.get("blk.0.attn_q_norm.weight")
    if norm is not None and len(norm.ne) == 1:
        return norm.ne[0]
    if isinstance(stated, int) and stated > 0:
        return stated
    rope = known.keys.own("rope.dimension_count")
    if known.is_declared and known.model.whole_head_rope and isinstance(rope, int) and rope > 0:
        return rope
    raise Undecided("nothing in the file says how wide a head is")


def _rows(known: ArchitectureView, tensor: str) -> Iterator[int]:
    """Yield the rows of a tensor in each layer."""
    for layer in range(_layers(known)):
        row = known.present.get(f"blk.{layer}.{tensor}.weight")
        if row is None or len(row.ne) != 2:
            raise Undecided(f"layer {layer} has no matrix {tensor}")
        yield row.ne[1]


def _one(values: Iterator[int]) -> Derived:
    """Return one number if all layers have the same, else one for each layer."""
    every = tuple(values)
    return every[0] if len(set(every)) == 1 else every


def _layers(known: ArchitectureView) -> int:
    if not known.layers or known.layers != set(range(len(known.layers))):
        raise Undecided("the layer numbers in the names of tensors have gaps")
    return len(known.layers)


def _width(known: ArchitectureView) -> int:
    embedding = known.present.get("token_embd.weight")
    norm = known.present.get("output_norm.weight")
    if embedding is None or len(embedding.ne) != 2 or (norm is not None and norm.ne != embedding.ne[:1]):
        raise Undecided("token_embd.weight and output_norm.weight have different widths")
    return embedding.ne[0]


def _tokens(known: ArchitectureView) -> int:
    embedding = known.present.get("token_embd.weight")
    if known.tokens is None or embedding is None or embedding.ne[1:] != (known.tokens,):
        raise Undecided("the number of tokens differs from the number of rows of token_embd.weight")
    return known.tokens


def _heads(tensor: str) -> Callable[[ArchitectureView], Derived]:
    def heads(known: ArchitectureView) -> Derived:
        return _one(_divided(known, tensor))

    return heads


def _divided(known: ArchitectureView, tensor: str) -> Iterator[int]:
    try:
        width = head_width(known)
    except Undecided:
        heads, embd = known.keys.own("attention.head_count"), known.keys.own("embedding_length")
        if tensor == "attn_q" or not isinstance(heads, int) or not isinstance(embd, int) or not heads or embd % heads:
            raise
        width = embd // heads
    for rows in _rows(known, tensor):
        if rows % width:
            raise Undecided(f"the {counted(rows, 'row')} of {tensor} are not whole heads of {width:,}")
        yield rows // width


def _value_width(known: ArchitectureView) -> Derived:
    heads = known.keys.own("attention.head_count_kv") or known.keys.own("attention.head_count")
    if not isinstance(heads, int) or heads < 1:
        raise Undecided("nothing in the file says how many value heads there are")
    widths = {rows / heads for rows in _rows(known, "attn_v")}
    if len(widths) != 1 or (width := widths.pop()) % 1:
        raise Undecided("the rows of attn_v are not whole heads")
    return int(width)


_RULES: Final[dict[str, Callable[[ArchitectureView], Derived]]] = {
    "block_count": _layers,
    "embedding_length": _width,
    "vocab_size": _tokens,
    "feed_forward_length": lambda known: _one(_rows(known, "ffn_up")),
    "attention.head_count": _heads("attn_q"),
    "attention.head_count_kv": _heads("attn_k"),
    "attention.key_length": head_width,
    "attention.value_length": _value_width,
    "rope.dimension_count": head_width,
}
