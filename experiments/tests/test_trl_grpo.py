"""The comparison of examples/trl_grpo.py: the table in the docs is that of the stored runs, of the former default."""

import json
import re
from pathlib import Path

from popbandits_experiments import RESULTS

PAGE = Path(__file__).parents[2] / "docs" / "adapters.md"


def test_the_docs_have_the_stored_scores() -> None:
    rows = [json.loads(line) for line in (RESULTS / "trl_grpo.jsonl").read_text("utf-8").splitlines()]
    scores = {method: [row["score"] for row in rows if row["method"] == method] for method in ("patient-pbt", "random")}
    shown = dict(re.findall(r"^\| (tuned|not tuned) \| (.*) \|$", PAGE.read_text("utf-8"), re.MULTILINE))
    for name, found in zip(("tuned", "not tuned"), scores.values(), strict=True):
        assert shown[name].split(" | ") == [f"{score:.1%}" for score in (*found, sum(found) / len(found))]
