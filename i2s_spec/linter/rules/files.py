"""Rules about a file beyond its bytes: the other parts of a split model, a record of its header, and servers.

Faults of servers are the reasons why the bytes of a remote file cannot be fetched. They say nothing about the file.
"""

from collections.abc import Iterator

from i2s_spec.errors import Span, TrustedText
from i2s_spec.gguf.split_set import ARCHITECTURE, IDENTITY, NAME, TYPES, SplitSet, part_keys
from i2s_spec.linter.analysis.architecture_view import architecture_view
from i2s_spec.linter.analysis.conditions import compared_with_record
from i2s_spec.linter.analysis.context import LintContext, split_set
from i2s_spec.linter.rule import WARNING, Finding, Fix, raised, rule
from i2s_spec.schema import faults


@rule("G230", "split-number", "split.no is {got} in a model of {want:part}; parts are numbered from 0", clause="2.8",
      cwe=129)  # fmt: skip
def split_number(subject: LintContext) -> Iterator[Finding]:
    """The number of a part is not smaller than the number of parts.

    Why: loaders use the number to build file names and to index a list. At best they refuse a part beyond the end.

    Example: split.no = 3 with split.count = 3.

    Fix: number the parts from 0.
    """
    if b"split.no" in subject.key_index and b"split.count" in subject.key_index:
        keys = part_keys(subject.file)
        if keys.is_part and keys.number is not None and keys.parts is not None and keys.number >= keys.parts:
            yield split_number.at(_span(subject, b"split.no"), got=keys.number, want=keys.parts)


@rule("G231", "split-incomplete", "this is part {got} of a model of {want:part}, and {reason}", clause="2.8")  # fmt: skip
def split_incomplete(subject: LintContext) -> Iterator[Finding]:
    """Other parts of a split model are missing, or not in their order.

    Why: a single part does not load. Loaders look for the others beside the first part, by the name pattern
    '-00001-of-00003.gguf', and refuse the model if a part is missing, cannot be read, or says in split.no that it is
    another part, or if a name does not match the pattern.

    Example: model-00001-of-00003.gguf without its two companions.

    Fix: put all parts into one folder under their own names, or merge them.
    """
    whole = split_set(subject)
    if whole is None or whole.number is None or whole.number >= whole.count or _is_whole(subject, whole):
        return
    if whole.incomplete:
        yield split_incomplete.at(
            subject.split_count_span, got=whole.number + 1, want=whole.count, reason=TrustedText(whole.incomplete)
        )


@rule("G232", "split-type", "{key} has type {got}; loaders expect {want}", clause="2.8", cwe=843, fix=Fix.UNSAFE)
def split_type(subject: LintContext) -> Iterator[Finding]:
    """A key about splitting does not have the type that loaders expect.

    Why: loaders compare types strictly and refuse the file.

    Example: split.count as a u32 instead of a u16.

    Fix: write split.no and split.count as u16 and split.tensors.count as i32.
    """
    if b"split.count" not in subject.key_index:
        return
    split = part_keys(subject.file)
    for key, wanted in TYPES.items():
        if key != b"split.count" and not split.is_part:
            continue  # loaders ask for the others only if there are several parts
        i = subject.key_index.get(key)
        if i is not None and subject.file.index.key(i).type != wanted:
            entry = subject.file.index.key(i)
            yield split_type.at(entry.type_span, got=TrustedText(entry.label), want=TrustedText(wanted.label), key=key)


@rule("G233", "split-tensor-count", "the {parts:part has|parts have} {got:tensor} in all, and split.tensors.count is {want}",
      clause="2.8")  # fmt: skip
def split_tensor_count(subject: LintContext) -> Iterator[Finding]:
    """The parts of a split model do not have as many tensors as the first part says.

    Why: loaders count the tensors of all parts, and refuse the model if they are not those that split.tensors.count of
    the first part announces: 'corrupted model: 21 tensors expected but 20 found'. A program that rewrote one part has
    lost tensors, or left the count as it was.

    Example: split.tensors.count is 21, and the three parts have 20 tensors.

    Fix: split the model again, or write the number of tensors that the parts have if none is missing.
    """
    whole = split_set(subject)
    if whole is None or whole.keys.tensors is None or not whole.complete:
        return
    count = len({tensor.name for tensor in whole.tensors})
    if count != whole.keys.tensors:
        yield split_tensor_count.at(
            _span(subject, b"split.tensors.count"), got=count, want=whole.keys.tensors, parts=whole.count
        )


@rule("G234", "split-tensor-repeated", "tensor {name} is in part {want} and again in part {got}", clause="2.8")
def split_tensor_repeated(subject: LintContext) -> Iterator[Finding]:
    """A tensor is in two parts of a split model.

    Why: loaders refuse the model: 'tensor is duplicated'. A reader that goes on takes one of the two, and nothing says
    which.

    Example: blk.0.attn_v.weight is the last tensor of part 1 and the first of part 2.

    Fix: split the model again.
    """
    whole = split_set(subject)
    if whole is not None:
        for name, first, other in whole.repeated():
            yield split_tensor_repeated.at(subject.split_count_span, got=other + 1, want=first + 1, name=name)


@rule("G235", "split-part-foreign", "part {part} is of another model: its {key} is {got}, that of part 1 {want}",
      clause="2.8")  # fmt: skip
def split_part_foreign(subject: LintContext) -> Iterator[Finding]:
    """A part of another model is among the parts of a split model.

    Why: loaders read the keys of the first part only, and take tensors from every part that has the right name. If
    those of another model fit, the result is computed with weights that do not belong together.

    Example: parts 1 and 2 say that general.architecture is 'llama', and part 3 says 'qwen3'; or the values of split.i2s.id
    differ, which `i2s convert --split` writes into all parts of one model.

    Fix: download or split the model again.
    """
    for key in (ARCHITECTURE, IDENTITY):
        for number, theirs, ours in _others(subject, key):
            yield split_part_foreign.at(
                subject.split_count_span, got=theirs, want=ours, part=number + 1, key=TrustedText(key.decode())
            )


@rule("G238", "split-name-differs", "part {part} may be of another model: its {key} is {got}, that of part 1 {want}",
      severity=WARNING, clause="2.8")  # fmt: skip
def split_name_differs(subject: LintContext) -> Iterator[Finding]:
    """The parts of a split model do not have the same name.

    Why: loaders read the keys of the first part only. Perhaps only that part was renamed; perhaps a part of another
    model is among them, whose tensors have the same names and shapes: then the result is computed with weights that do
    not belong together.

    Example: parts 1 and 2 say that general.name is 'A', and part 3 says 'B'.

    Fix: compare the part with the published one. If it is of another model, download or split the model again.
    """
    for number, theirs, ours in _others(subject, NAME):
        yield split_name_differs.at(
            subject.split_count_span, got=theirs, want=ours, part=number + 1, key=TrustedText("general.name")
        )


def _others(subject: LintContext, key: bytes) -> Iterator[tuple[int, str, str]]:
    whole = split_set(subject)
    return iter(()) if whole is None else whole.differing(key)


@rule("G236", "split-key-missing", "split.count is {got}, and {keys} missing", clause="2.8")
def split_key_missing(subject: LintContext) -> Iterator[Finding]:
    """A part of a split model does not say which part it is, or how many tensors all parts have.

    Why: loaders look for split.no in every part and for split.tensors.count in the first one, and refuse the model if
    they are missing.

    Example: split.count = 3 without split.no.

    Fix: split the model again.
    """
    whole = split_set(subject)
    if whole is None or _is_whole(subject, whole):
        return
    wanted = (b"split.no",) if whole.number else (b"split.no", b"split.tensors.count")
    missing = [key.decode() for key in wanted if key not in subject.key_index]
    if missing:
        words = f"{' and '.join(missing)} {'is' if len(missing) == 1 else 'are'}"
        yield split_key_missing.at(subject.split_count_span, got=whole.count, keys=TrustedText(words))


@rule("G237", "split-leftover", "split.count is {got}, but all {want:tensor} that split.tensors.count announces are in "
      "this file: it is whole, and the keys about splitting are left over", clause="2.8", fix=Fix.UNSAFE,
      provenance=("ggml-org/llama.cpp#6548",))  # fmt: skip
def split_leftover(subject: LintContext) -> Iterator[Finding]:
    """A whole model still says that it is one of several parts.

    Why: loaders believe split.count, look for the other parts, and refuse the model without them. Programs that read all
    parts and wrote one file, such as a quantizer, have copied the keys of the first part.

    Example: split.count = 3 and split.tensors.count = 21 in a file with 21 tensors, and no other part beside it.

    Fix: remove split.no, split.count and split.tensors.count.
    """
    whole = split_set(subject)
    if whole is not None and _is_whole(subject, whole):
        yield split_leftover.at(subject.split_count_span, got=whole.count, want=whole.keys.tensors)


def _is_whole(subject: LintContext, whole: SplitSet) -> bool:
    """Whether a file has all tensors of the model and its keys, and other parts of it are not beside it."""
    file = subject.file
    return (
        not whole.number
        and file.fault is None
        and 0 < file.index.tensors == whole.keys.tensors
        and architecture_view(subject).holds_model
        and bool(whole.incomplete)
    )


def _span(subject: LintContext, key: bytes) -> Span:
    return subject.file.index.key(subject.key_index[key]).value_span


# --- remote files ----------------------------------------------------------------------------------------------------
# The reader raises these faults.


@rule("S905", "record-differs", "{what} is {got} here, and {want} in the record", clause="12.4",
      when=compared_with_record)  # fmt: skip
def record_differs(subject: LintContext) -> Iterator[Finding]:
    """The header is not the one that a record pins.

    Why: a record holds what a file had when somebody looked at it. Since then a key has changed, such as the chat template
    that every conversation goes through, or a tensor has another type, shape or place, or something was added or left out.

    Example: the record has llama.context_length = 8192, the file 131072.

    Fix: look at what changed; if it is meant, write the record again with `i2s show FILE --format record`.
    """
    assert subject.record is not None
    if subject.file.fault is None:
        for each in subject.record.drift(subject.file):
            words = map(TrustedText, (each.what, each.got, each.want))
            yield record_differs.at(each.span, **dict(zip(("what", "got", "want"), words, strict=True)))


raised(
    faults.REMOTE_DENIED,
    """The server does not give the file to this caller.

    Why: the repository is gated or private, and the token is missing, has expired or has no access; or the server
    answers 401 or 403 for another reason.

    Example: a gated repository without HF_TOKEN.

    Fix: accept the conditions on the page of the repository and set HF_TOKEN, or ask its owner.
    """,
    clause="12.4",
)

raised(
    faults.REMOTE_MISSING,
    """The server has no file of that name.

    Why: the repository, the revision or the file does not exist. Hubs give the same answer for private repositories to
    users without access.

    Example: an address with a typing error, or a file that was renamed.

    Fix: correct the address.
    """,
    clause="12.4",
)

raised(
    faults.REMOTE_RATE_LIMITED,
    """The server answers 429 and asks for a wait that is too long.

    Why: hubs limit requests by network address and by token. i2s waits as the server asks, but not longer than the
    time budget of the file.

    Example: many files checked in a row without a token.

    Fix: wait, set HF_TOKEN (users who are signed in have higher limits), or raise the time budget (`--remote-limit
    seconds=N`).
    """,
    clause="12.4",
)

raised(
    faults.REMOTE_OFFLINE,
    """The offline mode is on, and the file is not in the cache of the hub.

    Why: HF_HUB_OFFLINE is set, so i2s contacts no server.

    Example: HF_HUB_OFFLINE=1 on a machine that never downloaded the file.

    Fix: unset the variable, or download the file first.
    """,
    clause="12.4",
)

raised(
    faults.REMOTE_UNREACHABLE,
    """The server cannot be reached, or fails.

    Why: the host does not exist, there is no connection, the certificate is invalid, the answer takes too long, or the
    server answers with a 5xx status.

    Example: a machine without a network.

    Fix: try again later; check the address and the network.
    """,
    clause="12.4",
)

raised(
    faults.REMOTE_REFUSED,
    """i2s refuses to follow the address.

    Why: the address or a redirect names a private or local network, leads from HTTPS to plain HTTP, has another scheme,
    contains credentials, or forms a loop. A program that follows such addresses can be made to contact servers inside a
    network that is closed to the outside.

    Example: a redirect to 169.254.169.254, where cloud providers serve the machine's credentials.

    Fix: use --allow-private if the server is your own.
    """,
    clause="12.4",
    cwe=918,
)

raised(
    faults.REMOTE_OVER_BUDGET,
    """Reading the file takes more bytes, requests or time than allowed for one remote file.

    Why: a server can send bytes without end, or one byte at a time, and a header can declare strings of gigabytes.

    Example: a server that sends one byte a second.

    Fix: use --payload sample or --header-only, or raise the limit, for example --remote-limit seconds=7200.
    """,
    clause="12.4",
    cwe=400,
)

raised(
    faults.REMOTE_MISBEHAVES,
    """The server does not answer a range request as HTTP requires.

    Why: it sent the whole file, another range, fewer bytes than announced, compressed bytes, or too many headers. A
    client that accepts such bytes reads something else than the file.

    Example: a development server that does not support ranges and answers 200.

    Fix: download the file and check the local copy, or use another server.
    """,
    clause="12.4",
)
