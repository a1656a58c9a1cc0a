"""Attacks on runs: what must hold whenever a run is killed, and whatever the disk, the clock and agents do.

    python -m popbandits_experiments.reliability                              # all of them
    python -m popbandits_experiments.reliability killed --trials 500          # those named so, with more trials
    python -m popbandits_experiments.reliability "disk fails under a run" clock

In every trial,

- no history changes: when the fault is gone, a resume leads to the history and the checkpoints of an undisturbed run,
  so nothing half-written was trained on;
- what fails says so in a message that names the path and how to go on;
- no exception of ours reaches the user raw, and nothing hangs;
- no process is left behind, nor any file beside the run's folder.

The trials are seeded. The command fails if anything of this does not hold, and prints every trial in which it did not.
If interrupted, it prints the counts so far.
"""
