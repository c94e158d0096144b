"""Write tiny random checkpoints and convert them with llama.cpp's converter: TREE FOLDER < JOBS > ANSWERS.

TREE is a checkout of llama.cpp; transformers and PyTorch are installed. A line of the input is a job: `checkpoint` (a
name), `model` (transformers' model_type), `config` (values that differ from `SMALL`), `tokenizer` (`bpe`, `spm` or
`wordpiece`), `file` and `options` of the converter. A line of the output is `null`, or why there is no file. Each job
runs in a process of its own, forked after the imports.

Vocabularies are tiny, so the converter does not know the hash of their pre-tokenizer: it is told that it is gpt-2's.
"""

import json
import os
import runpy
import shutil
import sys
import traceback
from pathlib import Path

import sentencepiece
import tokenizers
import torch
import transformers

TREE, FOLDER = map(Path, sys.argv[1:3])
sys.path[:0] = [str(TREE / "gguf-py"), str(TREE)]

import conversion.base  # noqa: E402  # llama.cpp's

#: Small sizes, for each configuration that has a value of the name.
SMALL = {
    "hidden_size": 64, "n_embd": 64, "d_model": 64, "dim": 64, "intermediate_size": 128, "n_inner": 128, "d_ff": 128,
    "ffn_hidden_size": 128, "num_hidden_layers": 2, "n_layer": 2, "n_layers": 2, "num_layers": 2,
    "num_decoder_layers": 2, "num_attention_heads": 4, "n_head": 4, "n_heads": 4, "num_heads": 4,
    "num_key_value_heads": 2, "head_dim": 16, "d_kv": 16, "max_position_embeddings": 128, "n_positions": 128,
    "max_seq_len": 128, "num_experts": 4, "num_local_experts": 4, "n_routed_experts": 4, "num_experts_per_tok": 2,
    "moe_intermediate_size": 64, "shared_expert_intermediate_size": 64, "n_shared_experts": 1, "moe_num_experts": 4,
    "moe_k": 2, "n_group": 1, "topk_group": 1, "first_k_dense_replace": 1, "sliding_window": 32, "q_lora_rank": 32,
    "kv_lora_rank": 32, "qk_rope_head_dim": 8, "qk_nope_head_dim": 16, "v_head_dim": 16, "state_size": 16,
    "mamba_d_state": 16, "mamba_n_heads": 8, "mamba_d_head": 16, "mamba_n_groups": 1, "mamba_d_ssm": 128,
    "mamba_expand": 2, "ssm_state_size": 16, "bos_token_id": 1, "eos_token_id": 2, "pad_token_id": 0,
    "mask_token_id": 11, "layer_norm_epsilon": 1e-5, "tie_word_embeddings": False,
}  # fmt: skip

TEXT = (
    Path(__file__).read_text(encoding="utf-8") + TREE.joinpath("README.md").read_text(errors="replace")
).splitlines()
#: Special tokens; some classes of the converter look for those of their models.
SPECIAL = [
    "<pad>",
    "<s>",
    "</s>",
    "<unk>",
    "<|endoftext|>",
    "[gMASK]",
    "<sop>",
    "<|system|>",
    "<|user|>",
    "<|assistant|>",
]
SPECIAL += ["<|observation|>", "[MASK]", "[sMASK]", "<eop>", "<|im_end|>"]
VOCABULARY = 512


def write_bpe(folder):
    """A tokenizer of merges of bytes."""
    made = tokenizers.Tokenizer(tokenizers.models.BPE())
    made.pre_tokenizer = tokenizers.pre_tokenizers.ByteLevel(add_prefix_space=False)
    made.decoder = tokenizers.decoders.ByteLevel()
    alphabet = tokenizers.pre_tokenizers.ByteLevel.alphabet()
    trainer = tokenizers.trainers.BpeTrainer(
        vocab_size=VOCABULARY, special_tokens=SPECIAL, initial_alphabet=alphabet, show_progress=False
    )
    made.train_from_iterator(TEXT, trainer)
    fast = transformers.PreTrainedTokenizerFast(
        tokenizer_object=made, bos_token="<s>", eos_token="</s>", pad_token="<pad>", unk_token="<unk>"
    )
    fast.save_pretrained(folder)


def write_spm(folder):
    """A tokenizer of pieces of text, with bytes for what no piece has."""
    sentencepiece.SentencePieceTrainer.train(
        sentence_iterator=iter(TEXT), model_prefix=str(folder / "tokenizer"), vocab_size=VOCABULARY, model_type="bpe",
        byte_fallback=True, pad_id=0, bos_id=1, eos_id=2, unk_id=3, minloglevel=2, hard_vocab_limit=True,
    )  # fmt: skip
    (folder / "tokenizer.vocab").unlink()
    (folder / "tokenizer_config.json").write_text(
        json.dumps({"tokenizer_class": "LlamaTokenizer", "bos_token": "<s>", "eos_token": "</s>", "unk_token": "<unk>"})
    )


def write_wordpiece(folder):
    """A tokenizer of words and their parts."""
    words = ["[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]"]
    words += [f"{mark}{chr(code)}" for mark in ("", "##") for code in range(33, 127)]
    words += [f"word{i}" for i in range(VOCABULARY - len(words))]
    (folder / "vocab.txt").write_text("\n".join(words) + "\n")
    transformers.BertTokenizerFast(str(folder / "vocab.txt")).save_pretrained(folder)


TOKENIZERS = {"bpe": write_bpe, "spm": write_spm, "wordpiece": write_wordpiece}


def write_checkpoint(folder, job):
    """A checkpoint of random weights."""
    folder.mkdir(parents=True)
    kind = transformers.CONFIG_MAPPING[job["model"]]
    known = {**kind().to_dict(), **getattr(kind, "attribute_map", {})}
    values = {name: value for name, value in SMALL.items() if name in known}
    values |= {"vocab_size": VOCABULARY} | job["config"]
    config = kind(**{name: value for name, value in values.items() if value != "default"})
    torch.manual_seed(0)
    automatic = {"encoder": transformers.AutoModel, "seq2seq": transformers.AutoModelForSeq2SeqLM}
    model = automatic.get(job["task"], transformers.AutoModelForCausalLM).from_config(config)
    with torch.no_grad():  # gains of norms are all 1 at first, and no trained ones are
        for parameter in model.parameters():
            if parameter.dim() == 1:
                parameter.add_(0.1 * torch.randn_like(parameter))
    model.save_pretrained(folder)
    TOKENIZERS[job["tokenizer"]](folder)


def convert(job):
    """Do a job.

    :raises Exception: whatever the libraries raise
    """
    checkpoint = FOLDER / job["checkpoint"]
    made_by = json.dumps([job["model"], job["config"], job["tokenizer"], job["task"], SMALL, SPECIAL])
    record = checkpoint / "made_by.json"
    if not record.is_file() or record.read_text() != made_by:
        shutil.rmtree(checkpoint, ignore_errors=True)
        write_checkpoint(checkpoint, job)
        record.write_text(made_by)
    conversion.base.TextModel.get_vocab_base_pre = lambda self, tokenizer: "gpt-2"
    sys.argv = ["convert_hf_to_gguf.py", str(checkpoint), "--outfile", job["file"], *job["options"]]
    runpy.run_path(str(TREE / "convert_hf_to_gguf.py"), run_name="__main__")


def answer(job):
    """None, or why there is no file."""
    reading, writing = os.pipe()
    child = os.fork()
    if not child:
        reason = ""
        try:
            convert(job)
        except SystemExit as end:
            reason = f"status {end.code}" if end.code else ""
        except BaseException as error:
            place = traceback.extract_tb(error.__traceback__)[-1]
            reason = f"{type(error).__name__}: {error} ({Path(place.filename).name}:{place.lineno})"
        os.write(writing, reason.encode()[:2000])
        os._exit(0)
    os.close(writing)
    with os.fdopen(reading, "rb") as pipe:
        reason = pipe.read().decode(errors="replace")
    _, status = os.waitpid(child, 0)
    return (reason or (f"ended with status {status}" if status else None)) and reason[:500]


def main():
    """Run the command line."""
    torch.set_num_threads(1)
    out = os.fdopen(os.dup(1), "w")
    os.dup2(2, 1)
    for line in sys.stdin:
        print(json.dumps(answer(json.loads(line))), file=out, flush=True)


main()
