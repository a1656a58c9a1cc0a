"""Tune the post-training of a language model while it trains: GRPO of TRL, with low-rank adapters (LoRA).

    pip install 'popbandits[trl]'
    python examples/trl_grpo.py [--rounds 8] [--steps 10] [--compare 5]

A small transformer learns sums from examples for some seconds, imperfectly, and mostly in a form that nobody wants:
17+25=042. Then it is rewarded for right answers, written 42. It is made here and nothing is downloaded: for a model of
yours, change `load_base` and the tokenizer. All members share the base in memory, and a checkpoint holds a member's
adapter alone. `--compare` trains as long without tuning.
"""

import argparse
import json
import os
import platform
import random
import re
import statistics
from functools import partial
from pathlib import Path
from typing import Any

os.environ.setdefault("HF_HUB_DISABLE_TELEMETRY", "1")  # TRL reports its use otherwise.

import torch
from datasets import Dataset
from peft import LoraConfig
from tokenizers import Regex, Tokenizer, decoders, models, pre_tokenizers
from transformers import LlamaConfig, LlamaForCausalLM, PreTrainedTokenizerFast
from trl import GRPOConfig, GRPOTrainer, SFTConfig, SFTTrainer

from popbandits import log, tune
from popbandits.adapters.trl import TRLAgent

SPACE = {
    "learning_rate": log(1e-4, 1e-2),
    "beta": log(1e-3, 1.0),  # weight of the distance from the base
    "temperature": (0.5, 1.5),
    "epsilon": (0.05, 0.4),  # clipping
    "max_grad_norm": log(0.1, 10.0),
}
BASE = Path("trl_grpo_base")  # where the base is kept
BASE_STEPS = 400
ON_CPU = {"use_cpu": True, "bf16": False, "gradient_checkpointing": False}
BATCH = 64

SUMS = [(a, b) for a in range(30) for b in range(30)]
HELD_OUT = random.Random(0).sample(SUMS, 200)
TRAINING = [pair for pair in SUMS if pair not in set(HELD_OUT)]


def make_tokenizer() -> PreTrainedTokenizerFast:
    """Make a tokenizer of single characters."""
    words = ["<pad>", "<eos>", "<unk>", *"0123456789+="]
    tokenizer = Tokenizer(models.WordLevel({word: number for number, word in enumerate(words)}, unk_token="<unk>"))
    tokenizer.pre_tokenizer = pre_tokenizers.Split(Regex("."), "isolated")
    tokenizer.decoder = decoders.Fuse()
    special = {"pad_token": "<pad>", "eos_token": "<eos>", "unk_token": "<unk>"}
    return PreTrainedTokenizerFast(tokenizer_object=tokenizer, padding_side="left", **special)


TOKENIZER = make_tokenizer()


def load_base() -> Any:
    """Load the base; the first time, teach it sums by examples."""
    if not BASE.exists():
        shape = {"hidden_size": 64, "intermediate_size": 128, "num_hidden_layers": 2, "num_attention_heads": 4}
        tokens = {"vocab_size": len(TOKENIZER), "pad_token_id": 0, "bos_token_id": None, "eos_token_id": 1}
        torch.manual_seed(0)
        model = LlamaForCausalLM(LlamaConfig(**shape, **tokens, max_position_embeddings=16))
        shown = [(a, b, form) for a, b in TRAINING for form in ("d", "03d", "03d")]  # 17+25=42, and twice 17+25=042
        rows = {"prompt": [f"{a}+{b}=" for a, b, _ in shown], "completion": [f"{a + b:{form}}" for a, b, form in shown]}
        quiet = {"report_to": "none", "disable_tqdm": True, "logging_strategy": "no", "save_strategy": "no"}
        settings = {"max_steps": BASE_STEPS, "learning_rate": 3e-3, "per_device_train_batch_size": BATCH}
        arguments = SFTConfig(f"{BASE}-output", dataloader_pin_memory=False, **settings, **quiet, **ON_CPU)
        trainer = SFTTrainer(model, arguments, train_dataset=Dataset.from_dict(rows), processing_class=TOKENIZER)
        trainer.train()
        model.save_pretrained(BASE)
    return LlamaForCausalLM.from_pretrained(BASE)


def reward(completions: list[str], answer: list[str], **_: Any) -> list[float]:
    """Reward right answers, and a little whatever is a number without zeros in front."""
    return [
        1.0 if said == right else 0.1 * bool(re.fullmatch(r"0|[1-9]\d*", said))
        for said, right in zip(completions, answer, strict=True)
    ]


def make_trainer(base: Any, arguments: GRPOConfig) -> GRPOTrainer:
    """Build the trainer of an interval."""
    rows = {"prompt": [f"{a}+{b}=" for a, b in TRAINING], "answer": [str(a + b) for a, b in TRAINING]}
    lora = LoraConfig(r=8, lora_alpha=16, target_modules="all-linear", task_type="CAUSAL_LM")
    data = Dataset.from_dict(rows)
    return GRPOTrainer(base, reward, arguments, train_dataset=data, processing_class=TOKENIZER, peft_config=lora)


def accuracy(trainer: GRPOTrainer) -> float:
    """Return the share of right answers to sums that nobody trained with; the most probable answer counts."""
    prompts = TOKENIZER([f"{a}+{b}=" for a, b in HELD_OUT], return_tensors="pt", padding=True)
    with torch.no_grad():
        tokens = trainer.model.eval().generate(**prompts, do_sample=False, max_new_tokens=4)
    said = TOKENIZER.batch_decode(tokens[:, prompts["input_ids"].shape[1] :], skip_special_tokens=True)
    return sum(text == str(a + b) for text, (a, b) in zip(said, HELD_OUT, strict=True)) / len(HELD_OUT)


def make_agent(seed: int, steps: int) -> TRLAgent:
    """Build a member of the population."""
    batches = {"per_device_train_batch_size": BATCH, "num_generations": 8, "num_iterations": 2}
    arguments = {"max_completion_length": 4, **batches, **ON_CPU}
    return TRLAgent(make_trainer, load_base, GRPOConfig, seed=seed, steps=steps, score=accuracy, arguments=arguments)


def main() -> None:
    """Tune it, and show the schedule that came out."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--rounds", type=int, default=8)
    parser.add_argument("--steps", type=int, default=10, help="of an interval")
    parser.add_argument("--compare", type=int, default=0, metavar="SEEDS", help="compare with random search instead")
    parser.add_argument("--store", type=Path, default=Path("trl_grpo.jsonl"), help="where --compare writes its scores")
    arguments = parser.parse_args()
    agent = partial(make_agent, steps=arguments.steps)
    if arguments.compare:
        compare(agent, arguments.rounds, arguments.compare, arguments.store)
        return
    result = tune(agent, SPACE, population=4, rounds=arguments.rounds)
    print(f"The best agent gets {result.best.score:.1%} right. What it trained with:")
    for number, config in enumerate(result.schedule):
        print(f"{number:>5}  " + "  ".join(f"{name} {value:.2g}" for name, value in config.items()))
    print(f"Everything is in {result.directory}, the best agent in {result.checkpoint}.")


def compare(agent: Any, rounds: int, seeds: int, store: Path) -> None:
    """Compare a tuned population with one whose configurations stay, seed by seed; a line of `store` for each run."""
    found: dict[str, list[float]] = {"near-pbt": [], "random": []}
    print("seed  tuned  not tuned")
    for seed in range(seeds):
        for method, scores in found.items():
            result = tune(agent, SPACE, method, population=4, rounds=rounds, seed=seed, progress=False)
            scores.append(max(each.score for each in result.history if each.round == rounds - 1))
            seconds = round(sum(each.seconds for each in result.history))
            run = {"method": method, "seed": seed, "rounds": rounds, "score": scores[-1], "seconds": seconds}
            with store.open("a") as file:
                file.write(json.dumps({**run, "machine": platform.machine()}) + "\n")
        print(f"{seed:>4}  {found['near-pbt'][-1]:5.1%}  {found['random'][-1]:5.1%}", flush=True)
    for name, scores in zip(("tuned", "not tuned"), found.values(), strict=True):
        print(f"{name}: {statistics.mean(scores):.1%}, from {min(scores):.1%} to {max(scores):.1%}")
    gains = [tuned - other for tuned, other in zip(*found.values(), strict=True)]
    print(f"difference of a seed: {statistics.mean(gains):+.1%}, from {min(gains):+.1%} to {max(gains):+.1%}")


if __name__ == "__main__":
    main()
