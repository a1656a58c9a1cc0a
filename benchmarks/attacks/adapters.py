"""Checkpoints of Lightning and Hugging Face, damaged or made by an attacker, loaded through the adapters.

In a run, the manifest finds damage first. Here every file is replaced behind its back: nothing may be executed, and
what cannot be read must not be trained on.
"""

import os
import pickle
import shutil
import warnings
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any

from benchmarks.attacks.trials import Tally, attempt


class Payload:
    """A pickle that makes a folder when it is loaded."""

    def __init__(self, mark: Path):
        self.mark = str(mark)

    def __reduce__(self) -> Any:
        return os.mkdir, (self.mark,)


def _payload_in_torch(content: bytes, mark: Path) -> bytes:
    import io

    import torch

    torch.save({"state_dict": Payload(mark)}, file := io.BytesIO())
    return file.getvalue()


DAMAGES: dict[str, Callable[[bytes, Path], bytes]] = {
    "empty": lambda content, mark: b"",
    "truncated": lambda content, mark: content[: len(content) // 2],
    "zeros": lambda content, mark: bytes(len(content)),
    "pickle": lambda content, mark: pickle.dumps(Payload(mark)),
    "PyTorch file": _payload_in_torch,
}


def adapters_on_hostile_checkpoints(trials: int, folder: Path) -> list[Tally]:
    """Load and train from checkpoints of which one file was replaced; `trials` is not used."""
    from tests.adapters import lightning_agents, test_huggingface

    warnings.simplefilter("ignore")
    makers = {
        "Lightning": (lightning_agents.make_agent, {"lr": 0.1, "weight_decay": 0.01}),
        "Hugging Face": (test_huggingface.make_agent, {"learning_rate": 0.01, "weight_decay": 0.01}),
    }
    return [_replace_files(name, make, config, folder / name) for name, (make, config) in makers.items()]


def _replace_files(name: str, make: Callable[[int], Any], config: dict[str, Any], folder: Path) -> Tally:
    tally, saved, hostile, mark = (
        Tally(f"a hostile checkpoint: {name}"),
        *(folder / each for each in ("a", "b", "mark")),
    )
    saved.mkdir(parents=True)
    agent = make(0)
    agent.train(dict(config))
    agent.save(saved)
    for path in sorted(path for path in saved.rglob("*") if path.is_file()):
        for damage, change in DAMAGES.items():
            where = f"{path.name}, {damage}"
            shutil.copytree(saved, hostile)
            changed = hostile / path.relative_to(saved)
            changed.write_bytes(change(path.read_bytes(), mark))
            outcome = attempt(partial(_go_on, make, config, hostile), folder)
            tally.trials += 1
            tally.refused += outcome.result != "trained"
            tally.check(outcome.ended not in ("hang", "died"), "hangs", where)
            tally.check(not mark.exists(), "files outside", f"{where}: the pickle was executed")
            shutil.rmtree(mark, ignore_errors=True)
            shutil.rmtree(hostile)
    return tally


def _go_on(make: Callable[[int], Any], config: dict[str, Any], checkpoint: Path) -> str:
    try:
        agent = make(1)
        agent.load(checkpoint)
        agent.train(dict(config))
    except Exception as error:  # A run records it as the failure of an interval.
        return f"{type(error).__name__}"
    return "trained"
