"""A run on whatever cluster RAY_ADDRESS names: python -m tests.ray.elsewhere DIRECTORY RESOURCES [NOTES]."""

import json
import sys
from functools import partial
from pathlib import Path

from popbandits import PBT, tune
from tests.engines.agents import Walker, space
from tests.ray.members import Placed

if __name__ == "__main__":
    directory, resources, *notes = sys.argv[1:]
    tune(
        partial(Placed, folder=Path(*notes)) if notes else Walker,
        space(),
        method=PBT(),
        rounds=3,
        directory=Path(directory),
        engine="ray",
        resources=json.loads(resources),
        progress=False,
    )
