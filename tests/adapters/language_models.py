"""A language model small enough for tests, and agents that post-train it with TRL: it learns to say "a"."""

import os
import signal
from typing import Any

os.environ.setdefault("HF_HUB_DISABLE_TELEMETRY", "1")  # TRL reports its use otherwise.

import torch
from datasets import Dataset
from peft import LoraConfig
from tokenizers import Regex, Tokenizer, decoders, models, pre_tokenizers
from transformers import LlamaConfig, LlamaForCausalLM, PreTrainedTokenizerFast
from trl import GRPOConfig, GRPOTrainer, SFTConfig, SFTTrainer

from popbandits.adapters.trl import TRLAgent

REWARDED = 0
"""Batches of completions that were rewarded in this process."""
LOADED = 0
"""Bases that were loaded in this process."""
EMBEDDINGS: list[int] = []
"""Where the weights of a base are in memory, for every trainer that was built in this process."""
ON_CPU = {"use_cpu": True, "gradient_checkpointing": False, "per_device_train_batch_size": 8}
GENERATION = {"num_generations": 4, "max_completion_length": 3, "num_iterations": 2, "num_generations_eval": 4}


def make_tokenizer() -> PreTrainedTokenizerFast:
    words = ["<pad>", "<eos>", "<unk>", *"abcd"]
    tokenizer = Tokenizer(models.WordLevel({word: number for number, word in enumerate(words)}, unk_token="<unk>"))
    tokenizer.pre_tokenizer = pre_tokenizers.Split(Regex("."), "isolated")
    tokenizer.decoder = decoders.Fuse()
    special = {"pad_token": "<pad>", "eos_token": "<eos>", "unk_token": "<unk>"}
    return PreTrainedTokenizerFast(tokenizer_object=tokenizer, padding_side="left", **special)


TOKENIZER = make_tokenizer()
PROMPTS = [first + second for first in "abcd" for second in "abcd"]
LORA = {"r": 2, "target_modules": ["q_proj", "v_proj"], "task_type": "CAUSAL_LM"}


def load_base() -> Any:
    global LOADED
    LOADED += 1
    torch.manual_seed(0)
    shape = {"hidden_size": 16, "intermediate_size": 16, "num_hidden_layers": 1, "num_attention_heads": 2}
    tokens = {"vocab_size": len(TOKENIZER), "pad_token_id": 0, "bos_token_id": None, "eos_token_id": 1}
    return LlamaForCausalLM(LlamaConfig(**shape, **tokens, attention_bias=True, max_position_embeddings=16))


def reward(completions: list[str], **_: Any) -> list[float]:
    global REWARDED
    REWARDED += 1
    if str(REWARDED) == os.environ.get("KILL_AT_STEP"):
        os.kill(os.getpid(), signal.SIGKILL)
    return [said.count("a") / 3 for said in completions]


def make_grpo(base: Any, arguments: Any, **lora: Any) -> GRPOTrainer:
    EMBEDDINGS.append(base.get_input_embeddings().weight.data_ptr())
    data, settings = Dataset.from_dict({"prompt": PROMPTS}), LoraConfig(**LORA | lora)
    held_out = data.select(range(4))
    return GRPOTrainer(base, reward, arguments, data, held_out, TOKENIZER, peft_config=settings)


def make_sft(base: Any, arguments: Any) -> SFTTrainer:
    EMBEDDINGS.append(base.get_input_embeddings().weight.data_ptr())
    data = Dataset.from_dict({"prompt": PROMPTS, "completion": ["aa"] * len(PROMPTS)})
    return SFTTrainer(
        base,
        arguments,
        train_dataset=data,
        eval_dataset=data,
        processing_class=TOKENIZER,
        peft_config=LoraConfig(**LORA),
    )


def grpo(seed: int, make_trainer: Any = make_grpo, **settings: Any) -> TRLAgent:
    settings = {"steps": 4, "score": "eval_reward", "arguments": ON_CPU | GENERATION} | settings
    return TRLAgent(make_trainer, load_base, GRPOConfig, seed=seed, **settings)


def sft(seed: int, **settings: Any) -> TRLAgent:
    return TRLAgent(make_sft, load_base, SFTConfig, seed=seed, **{"steps": 3, "arguments": ON_CPU} | settings)
