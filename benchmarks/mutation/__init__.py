"""Mutation testing: change the code in one place, and see whether a test notices.

    make mutation                                     # a sample of 300, on every core
    python -m benchmarks.mutation plan                # the mutants: `runs/mutation/plan.json`
    python -m benchmarks.mutation run --workers 2     # try those that were not tried yet
    python -m benchmarks.mutation report              # the score, and who survived

Cosmic Ray makes the mutants. The trials are ours, because each is to run the tests of its own folder, the fastest
first, in a copy of the sources: Cosmic Ray has one test command for all, and changes the checkout itself. Trials need
pytest and hypothesis and nothing else, so a plan can be carried to a machine with more cores. What was tried is kept
line by line: an interrupted run goes on where it stopped.

The golden histories are not among the tests. They notice any change of a decision, also a harmless one, and so would
say nothing of what the other tests notice.
"""
