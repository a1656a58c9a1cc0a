"""A run on whatever cluster RAY_ADDRESS names: python -m tests.ray.elsewhere DIRECTORY RESOURCES."""

import json
import sys
from pathlib import Path

from popbandits import PBT, tune
from tests.engines.agents import Walker, space

if __name__ == "__main__":
    directory, resources = sys.argv[1:]
    tune(
        Walker,
        space(),
        method=PBT(),
        rounds=3,
        directory=Path(directory),
        engine="ray",
        resources=json.loads(resources),
        progress=False,
    )
