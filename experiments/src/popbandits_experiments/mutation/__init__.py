"""Mutation testing: change the code in one place, and see whether a test notices.

    make mutation                                     # a sample of 300, on every core
    python -m popbandits_experiments.mutation plan                # the mutants: `runs/mutation/plan.json`
    python -m popbandits_experiments.mutation run --workers 2     # try those that were not tried yet
    python -m popbandits_experiments.mutation report              # the score, and the survivors

Cosmic Ray makes the mutants. The trials are ours, because each runs the tests of its own folder, the fastest first, in
a copy of the sources: Cosmic Ray has one test command for all, and changes the checkout itself. Trials need only pytest
and hypothesis, so a plan can be taken to a machine with more cores. Results are stored line by line: an interrupted run
resumes where it stopped.

The golden histories are not among the tests. They notice any change of a decision, even a harmless one, and would hide
what the other tests miss.
"""
