"""This script trains the models that come with i2s-spec: from stories to GGUF files.

    python train.py                         # both models, with the published settings
    python train.py --model llama           # one of them
    python train.py --steps 4 --out /tmp/x  # a short run, to see that it works

It needs the extra `[training]` (torch, tokenizers). It trains the vocabulary, then the network, with one thread, and
writes to the output folder: `vocabulary.json`, `NAME.gguf`, `NAME.log.jsonl` (the loss curve), `NAME.checkpoint.pt`
(from which a restarted run continues) and `NAME.card.json` (sizes, losses, hashes).
"""

from __future__ import annotations

import argparse
import json
import math
import time
from collections.abc import Iterator
from hashlib import sha256
from pathlib import Path
from typing import Any, Final, NamedTuple

import corpus
import torch
from export import write_gguf
from network import Network, Sizes
from torch import Tensor
from torch.nn import functional
from vocabulary import encoder, learn

#: Stories from which the vocabulary is learned.
VOCABULARY_STORIES: Final = 4000


class Plan(NamedTuple):
    """The settings of a training: sizes, steps of `batch` rows of `context` tokens, peak of the learning rate, seed."""

    architecture: str
    sizes: Sizes
    steps: int
    batch: int
    rate: float
    seed: int
    warmup: int = 60
    weight_decay: float = 0.1
    #: Step at which the cosine of the learning rate would end, if that is not the last step.
    horizon: int | None = None
    #: Steps at the end in which the rate falls linearly to 0 instead.
    cooldown: int = 0


PLANS: Final = {
    "stories": Plan(
        "bitnet-b1.58",
        Sizes(layers=4, embd=256, ff=384, heads=4, heads_kv=2, vocab=512, context=384, sub_norms=True, half_pairs=True),
        steps=700, batch=5, rate=3e-3, seed=158, horizon=1000, cooldown=250,
    ),
    "llama": Plan(
        "llama",
        Sizes(layers=2, embd=128, ff=256, heads=4, heads_kv=2, vocab=384, context=384, sub_norms=False, half_pairs=False),
        steps=800, batch=5, rate=4e-3, seed=159,
    ),
}  # fmt: skip


def learning_rate(plan: Plan, steps: int, step: int) -> float:
    """The rate at a step: linear warm-up, then a cosine; at the end, if the plan says so, linear to 0."""
    if step < plan.warmup:
        return plan.rate * (step + 1) / plan.warmup
    horizon = plan.horizon or steps
    done = (step - plan.warmup) / max(1, horizon - plan.warmup)
    rest = min(1.0, (steps - step) / plan.cooldown) if plan.cooldown else 1.0
    return plan.rate * rest * (0.05 + 0.95 * 0.5 * (1 + math.cos(math.pi * done)))


def weight_decay(plan: Plan, steps: int, step: int) -> float:
    """Decay of latent weights: 0 in the second half and during the cool-down, so that trits settle, as published."""
    until = steps - plan.cooldown if plan.cooldown else (plan.horizon or steps) // 2
    return plan.weight_decay if step < until else 0.0


def batches(ids: Tensor, plan: Plan, generator: torch.Generator) -> Tensor:
    """Rows of one token more than the context, each from a random position of the text."""
    length = plan.sizes.context + 1
    starts = torch.randint(len(ids) - length, (plan.batch,), generator=generator)
    return torch.stack([ids[start : start + length] for start in starts.tolist()])


def story_rows(encoded: list[list[int]], bos: int, eos: int, context: int) -> Iterator[list[int]]:
    """Each story separately, from its first token to its end, truncated to the context."""
    for ids in encoded:
        yield [bos, *ids, eos][: context + 1]


@torch.no_grad()
def unseen_loss(network: Network, rows: list[list[int]]) -> float:
    """Mean loss of a token, in nats, over whole stories, each read from its start."""
    network.eval()
    total, count = 0.0, 0
    for row in rows:
        ids = torch.tensor([row])
        logits = network(ids[:, :-1]).flatten(0, 1)
        total += float(functional.cross_entropy(logits, ids[0, 1:], reduction="sum"))
        count += len(row) - 1
    network.train()
    return total / count


def groups(network: Network, plan: Plan) -> list[dict[str, Any]]:
    """Parameters by their decay: latent weights decay, the table and the gains do not."""
    decay = [value for name, value in network.named_parameters() if value.ndim == 2 and name != "token_embd"]
    keep = [value for name, value in network.named_parameters() if value.ndim != 2 or name == "token_embd"]
    return [{"params": decay, "weight_decay": plan.weight_decay}, {"params": keep, "weight_decay": 0.0}]


def train(
    name: str, plan: Plan, steps: int, folder: Path, stories: list[str], held_out: list[str], every: int = 100
) -> dict[str, Any]:
    """Train one model and write its files.

    :param steps: of the optimizer
    :param stories: the training text
    :param held_out: the text to measure on
    :param every: steps between checkpoints
    :returns: what the card says of the run
    """
    encode, bos, eos = encoder(folder / "vocabulary.json", plan.sizes.vocab)
    encoded = encode(stories)
    ids = torch.tensor([token for row in encoded for token in (bos, *row, eos)])
    rows = list(story_rows(encode(held_out), bos, eos, plan.sizes.context))
    torch.manual_seed(plan.seed)
    network = Network(plan.sizes)
    with torch.no_grad():  # tokens that never occur (most bytes) start with equal rows and keep them
        network.token_embd[~torch.isin(torch.arange(plan.sizes.vocab), ids)] = 0
    optimizer = torch.optim.AdamW(groups(network, plan), lr=plan.rate, betas=(0.9, 0.95), fused=True)
    generator = torch.Generator().manual_seed(plan.seed)
    checkpoint, log = folder / f"{name}.checkpoint.pt", folder / f"{name}.log.jsonl"
    first, spent, running = 0, 0.0, 0.0
    records: list[dict[str, Any]] = []
    if checkpoint.exists():
        state = torch.load(checkpoint, weights_only=True)
        network.load_state_dict(state["network"])
        optimizer.load_state_dict(state["optimizer"])
        generator.set_state(state["generator"])
        first, spent, running = state["step"], state["spent"], state.get("running", 0.0)
        records = [record for record in map(json.loads, log.read_text().splitlines()) if record["step"] < first]
    started = time.process_time()
    for step in range(first, steps):
        for group in optimizer.param_groups:
            group["lr"] = learning_rate(plan, steps, step)
        optimizer.param_groups[0]["weight_decay"] = weight_decay(plan, steps, step)
        batch = batches(ids, plan, generator)
        loss = functional.cross_entropy(network(batch[:, :-1]).flatten(0, 1), batch[:, 1:].flatten())
        optimizer.zero_grad()
        loss.backward()  # type: ignore[no-untyped-call]
        torch.nn.utils.clip_grad_norm_(network.parameters(), 1.0)
        optimizer.step()
        running = 0.9 * running + 0.1 * loss.item() if running else loss.item()
        if step % 20 == 0 or step == steps - 1:
            record = {"step": step, "tokens": (step + 1) * plan.batch * plan.sizes.context, "loss": round(running, 4)}
            if step % 200 == 0 or step == steps - 1:
                record["unseen"] = round(unseen_loss(network, rows[:100] if step < steps - 1 else rows), 4)
            records.append(record)
            log.write_text("".join(json.dumps(each) + "\n" for each in records))
            print(name, json.dumps(record), f"{spent + time.process_time() - started:.0f} s", flush=True)
        if step % every == every - 1:
            state = {
                "network": network.state_dict(), "optimizer": optimizer.state_dict(),
                "generator": generator.get_state(), "step": step + 1, "spent": spent + time.process_time() - started,
                "running": running,
            }  # fmt: skip
            torch.save(state, checkpoint)
    final = records[-1].get("unseen") or unseen_loss(network, rows)
    write_gguf(folder / f"{name}.gguf", name, plan.architecture, network, folder / "vocabulary.json")
    (folder / f"{name}.logits.json").write_text(json.dumps(reference(network, rows[0][:-1])) + "\n")
    return {
        "steps": steps,
        "tokens_seen": steps * plan.batch * plan.sizes.context,
        "seed": plan.seed,
        "training_tokens": len(ids),
        "unseen_tokens": sum(len(row) - 1 for row in rows),
        "unseen_loss": round(final, 4),
        "uniform_loss": round(math.log(plan.sizes.vocab), 4),
        "processor_seconds": round(spent + time.process_time() - started),
        "torch": torch.__version__,
    }


@torch.no_grad()
def reference(network: Network, ids: list[int]) -> dict[str, Any]:
    """The network's results for some tokens, for tests of other implementations.

    :returns: the tokens; the most probable next token after each, and its log-probability; all logits after the last
    """
    network.eval()
    logits = network(torch.tensor([ids]))[0]
    best = functional.log_softmax(logits, -1).max(-1)
    return {
        "tokens": ids,
        "best": best.indices.tolist(),
        "log_probability": [round(value, 5) for value in best.values.tolist()],
        "last_logits": [round(value, 5) for value in logits[-1].tolist()],
    }


def main() -> None:
    """Make the text and the vocabulary, and train what is asked for."""
    arguments = argparse.ArgumentParser(description="Train the models that come with i2s-spec.")
    arguments.add_argument("--model", choices=sorted(PLANS), help="one model instead of all")
    arguments.add_argument("--steps", type=int, help="steps, instead of those of the plan")
    arguments.add_argument("--stories", type=int, default=corpus.TRAINING, help="stories of the training text")
    arguments.add_argument("--out", type=Path, default=Path("out"), help="where the files are written")
    given = arguments.parse_args()
    given.out.mkdir(parents=True, exist_ok=True)
    torch.set_num_threads(1)
    torch.use_deterministic_algorithms(True)
    stories = list(corpus.stories("training", given.stories))
    held_out = corpus.unseen(set(stories))
    print(f"{len(stories)} stories, {sum(map(len, stories)):,} characters; {len(held_out)} unseen", flush=True)
    vocabulary = given.out / "vocabulary.json"
    if not vocabulary.exists():
        learn(stories[:VOCABULARY_STORIES], vocabulary)
    for name, plan in PLANS.items():
        if given.model in (None, name):
            run = train(name, plan, given.steps or plan.steps, given.out, stories, held_out)
            about = made_card(name, plan, run, given.out / f"{name}.gguf", stories, held_out)
            (given.out / f"{name}.card.json").write_text(json.dumps(about, indent=2) + "\n")


def made_card(
    name: str, plan: Plan, run: dict[str, Any], file: Path, stories: list[str], held_out: list[str]
) -> dict[str, Any]:
    """The card of a model: its kind, its training, its results, and its file."""
    data = file.read_bytes()
    return {
        "name": name,
        "license": "CC0-1.0",
        "architecture": plan.architecture,
        "sizes": dict(zip(Sizes._fields[:7], plan.sizes[:7], strict=True)),
        "data": {
            "text": "short stories drawn from a grammar that was written for this project (tests/training/)",
            "license": "CC0-1.0",
            "stories": len(stories),
            "characters": sum(map(len, stories)),
            "sha256": corpus.digest(stories),
            "unseen_stories": len(held_out),
            "unseen_sha256": corpus.digest(held_out),
        },
        "training": run,
        "file": {"bytes": len(data), "sha256": sha256(data).hexdigest()},
    }  # fmt: skip


if __name__ == "__main__":
    main()
