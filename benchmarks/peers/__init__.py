"""Other people's decisions on the same data, each by their own code, all in one environment (extra `bench`).

Threads are left as each library sets them. That matters on a busy machine: on two cores with other work,
Ray's decision at 500 observations took 160 s so, and 22 s under OPENBLAS_NUM_THREADS=1. Time peers on an idle
machine, both ways, and quote the better.
"""

from dataclasses import dataclass


@dataclass(frozen=True)
class PeerResult:
    """What one decision took, and how well the model behind it fits."""

    seconds: float
    log_likelihood: float  # nats, of all the observations together, on the y the peer was fitted to
    observations: int  # how many of them the peer's final model uses
