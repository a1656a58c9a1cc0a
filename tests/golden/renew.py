"""Renew the golden histories, where a change of decisions is meant: python -m tests.golden.renew [explorer ...]."""

import sys

from tests.golden.runs import EXPLORERS, difference, recorded, renew, run, written


def main(names: list[str]) -> None:
    for name in names or EXPLORERS:
        try:
            change = difference(recorded(name), [written(observation) for observation in run(EXPLORERS[name]())])
        except FileNotFoundError:
            change = "it is new"
        if change is None:
            print(f"{name}: as it was")
        else:
            renew(name)
            print(f"{name}: renewed ({change})")


if __name__ == "__main__":
    main(sys.argv[1:])
