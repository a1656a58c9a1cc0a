"""Attacks on runs from below and from inside: what must hold whatever the disk, the clock, agents and files do.

    python -m popbandits_experiments.reliability.attacks                             # all of them: a quarter of an hour
    python -m popbandits_experiments.reliability.attacks disk commands --trials 20   # two of them, with fewer trials
    python -m popbandits_experiments.reliability.attacks --json attacks.json

Each module holds one attack. In every trial,

- no history changes: when the fault is gone, a resume leads to the history and the checkpoints of an undisturbed run,
  so nothing half-written was trained on;
- what fails says so in a message that names the path and how to go on;
- no exception of ours reaches the user raw, and nothing hangs;
- no file outside of the run's folder is touched.

The trials are seeded. The command fails if anything of this does not hold, and prints every trial in which it did not.
"""
