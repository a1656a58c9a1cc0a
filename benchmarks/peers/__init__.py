"""Other people's decisions on the same data, each by their own code."""

from dataclasses import dataclass


@dataclass(frozen=True)
class PeerResult:
    """What one decision took, and how well the model behind it fits."""

    seconds: float
    log_likelihood: float  # nats, of all the observations together, on the y the peer was fitted to
    observations: int  # how many of them the peer's final model uses
