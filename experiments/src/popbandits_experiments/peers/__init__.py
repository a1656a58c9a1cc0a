"""Decisions of other libraries on the same data, by their own code, in one environment (extra `bench`).

Threads are left as each library sets them. That matters on a busy machine: on two cores with other work,
Ray's decision at 500 observations took 160 s, and 22 s under OPENBLAS_NUM_THREADS=1. Time peers on an idle
machine, both ways, and quote the better.
"""

from dataclasses import dataclass


@dataclass(frozen=True)
class PeerResult:
    """Time of one decision, and the likelihood of its model."""

    seconds: float
    log_likelihood: float  # nats, of all the observations together, on the y the peer was fitted to
    observations: int  # how many of them the peer's final model uses
