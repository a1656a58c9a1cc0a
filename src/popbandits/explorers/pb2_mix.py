"""PB2-Mix (paper, Algorithm "PB2-Mix: explore"): TV.EXP3.M picks the labels, one mixed-kernel GP the numbers."""

from dataclasses import dataclass

from popbandits.explorers.surrogate import ModelExplorer


@dataclass(frozen=True)
class PB2Mix(ModelExplorer):
    """Choose labels by TV.EXP3.M; numbers by the upper confidence bound at the member's new labels, under one GP.

    Args:
        c1: Scale of the weight of uncertainty in the upper confidence bound, sqrt(c1 log(c2 n)) after n observations;
            at least 0. Default 0.2. Raise it to explore more, lower it to stay with what worked.
        c2: Scale of the number of observations in that weight; above 0. Default 0.4. Raise it to explore earlier in a
            run.
        window: Maximum number of observations that a decision uses: the model uses the recent half and older ones with
            new configurations, bandits the last. Default 300, which keeps a decision under half a second. None uses
            all.
        per_dimension: Whether each number has its own length-scale instead of one for all. Default False. Use True if
            few of many numbers matter, and there are enough observations.
        score_before: Whether the model sees the score before the interval. Default False. Use True if gains depend on
            how good a member already is; it harms if the score is a running total.
        continued_only: Whether the model leaves out intervals with a new configuration, as the published code does.
            Default False. Who is copied was lucky, so the score falls next, least where hardly anything is learnt: a
            model of all intervals prefers that. Without them it sees no collapse; on four tasks it was not better.
        edition: Edition of the rules. Default 2. Edition 1 is for runs of earlier versions: one collapse makes the
            bandit's other gains nearly equal, and a first decision takes the raw score as the score before.
    """
