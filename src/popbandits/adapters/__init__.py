"""Agents from common training libraries: each adapter is a file, and needs its library only when it is used.

| file | what it adapts |
|---|---|
| `torch_agent` | your own training loop in PyTorch, as a class |
| `script` | a training script, as a function that yields its score |
| `stable_baselines3` | any algorithm of Stable-Baselines3 |
| `rsl_rl`, `skrl`, `rl_games` | libraries for robot learning, as Isaac Lab trains with |
| `lightning` | a module of PyTorch Lightning |
| `huggingface` | the Trainer of Hugging Face's transformers |
| `trl` | trainers of TRL: adapters of a language model |
| `optuna` | search spaces from Optuna |

All of them follow one rule: a checkpoint restores learnt state, never hyperparameters. Those of the next interval are
set after the load, and `applied()` reads them back from the objects that trained.
"""
