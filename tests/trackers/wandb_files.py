"""Read the files that Weights & Biases writes offline: records of its own protocol in a log of LevelDB's format."""

import json
from collections import defaultdict
from collections.abc import Iterator
from pathlib import Path
from typing import Any

BLOCK, HEADER = 32768, 7
FULL, FIRST, LAST = 1, 2, 4


def records(path: Path) -> Iterator[Any]:
    from wandb.proto.wandb_internal_pb2 import Record

    content, position, parts = path.read_bytes(), HEADER, b""
    assert content[:4] == b":W&B"
    while position + HEADER <= len(content):
        if BLOCK - position % BLOCK < HEADER:  # The rest of a block that no header fits in.
            position += BLOCK - position % BLOCK
            continue
        size, kind = int.from_bytes(content[position + 4 : position + 6], "little"), content[position + 6]
        data = content[position + HEADER : position + HEADER + size]
        parts = data if kind in (FULL, FIRST) else parts + data
        position += HEADER + size
        if kind in (FULL, LAST):
            record = Record()
            record.ParseFromString(parts)
            yield record


def logged(directory: Path) -> dict[str, list[tuple[int, dict[str, Any]]]]:
    """Return what was logged: step and values, by the id of the run, over the files of all processes."""
    found: dict[str, list[tuple[int, dict[str, Any]]]] = defaultdict(list)
    for path in sorted(directory.glob("wandb/offline-run-*/run-*.wandb"), key=lambda path: path.stat().st_mtime_ns):
        identity = path.stem.removeprefix("run-")
        for record in records(path):
            if record.WhichOneof("record_type") == "history":
                items = {".".join(i.nested_key) or i.key: json.loads(i.value_json) for i in record.history.item}
                found[identity].append((record.history.step.num, items))
    return found
