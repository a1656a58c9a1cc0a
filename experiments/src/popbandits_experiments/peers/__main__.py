"""Run every peer alone, to check that it works: `python -m popbandits_experiments.peers [--skip-slow] [--seeds K]`."""

import argparse
from statistics import median

from popbandits_experiments.peers import botorch_mix, ray_pb2
from popbandits_experiments.simulated.data import make_history

PEERS = {"Ray Tune PB2": ray_pb2.decide, "BoTorch, our model": botorch_mix.decide}
SIZES = (50, 200, 500, 1000)
SLOW = 1000  # From here on a decision can take minutes: one seed, and none with --skip-slow.


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--skip-slow", action="store_true", help=f"leave out N >= {SLOW}")
    parser.add_argument("--seeds", type=int, default=3, help=f"histories for each N < {SLOW} (%(default)s)")
    options = parser.parse_args()

    print(f"{'peer':<20}{'N':>6}{'seeds':>7}{'median s':>10}{'min s':>9}{'max s':>9}  log likelihood (rows)")
    for name, decide in PEERS.items():
        decide(make_history(SIZES[0], seed=999))  # The first call includes imports and thread pools.
        for n in SIZES:
            if n >= SLOW and options.skip_slow:
                continue
            results = [decide(make_history(n, seed)) for seed in range(1 if n >= SLOW else options.seeds)]
            seconds = [result.seconds for result in results]
            fits = ", ".join(f"{result.log_likelihood:.1f} ({result.observations})" for result in results)
            print(
                f"{name:<20}{n:>6}{len(results):>7}{median(seconds):>10.3f}{min(seconds):>9.3f}"
                f"{max(seconds):>9.3f}  {fits}",
                flush=True,
            )


if __name__ == "__main__":
    main()
