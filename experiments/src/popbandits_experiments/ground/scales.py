"""Reference scores of each task, which map scores of different tasks to one scale."""

from dataclasses import dataclass

from popbandits.errors import ArgumentError


@dataclass(frozen=True)
class Scale:
    """Mean returns that mark the ends of a task's scale; supervised tasks are scored by accuracy in percent.

    >>> pendulum = Scale(random=-1200, solved=-200)
    >>> pendulum.normalise(-700), pendulum.take_off
    (0.5, -1000.0)
    """

    random: float
    """Score of an untrained policy: 0 on the common scale."""
    solved: float
    """Score at which the task counts as solved: 1 on the common scale. Scores may lie beyond either end."""
    take_off_share: float = 0.2
    """Part of the way from random to solved below which a population never took off."""

    def normalise(self, score: float) -> float:
        """Return (score - random) / (solved - random)."""
        return (score - self.random) / (self.solved - self.random)

    @property
    def take_off(self) -> float:
        """Score below which a population never took off."""
        return self.random + self.take_off_share * (self.solved - self.random)


SCALES = {
    "Pendulum": Scale(-1225, -200),
    "Pendulum-short": Scale(-1225, -200),
    "Acrobot": Scale(-498.6, -100),
    "Acrobot-short": Scale(-498.6, -100),
    "CartPole": Scale(22, 475),
    "MountainCarContinuous": Scale(-33.2, 90, take_off_share=0.35),  # above standing still, which scores 0
    "MountainCar": Scale(-200, -110, take_off_share=0.05),
    "SwingUp": Scale(5.7, 350),
    "Detour": Scale(-77.2, -30, take_off_share=0.6),  # above waiting at the wall, which scores -53
    "FrozenLake": Scale(0.0015, 0.85),
    "Taxi": Scale(-773, 7, take_off_share=0.75),  # above driving about, which scores -200
    "CliffWalking": Scale(-2079, -17, take_off_share=0.92),  # above staying at the start, which scores -200
    "KeyDoor": Scale(0.005, 0.8),
    "Reach": Scale(-109, -50),
    "Pendulum-raw": Scale(-1225, -200),
    "Acrobot-raw": Scale(-498.6, -100),
    "MountainCar-raw": Scale(-200, -110, take_off_share=0.05),
    "MountainCarContinuous-raw": Scale(-33.2, 90, take_off_share=0.35),
    "CartPole-raw": Scale(22, 475),
    "SwingUp-raw": Scale(5.7, 350),
    "Taxi-raw": Scale(-773, 7, take_off_share=0.75),
    # MinAtar: scores of good settings within a short budget; agents of the literature train a hundred times as long.
    "Breakout": Scale(0.4, 8),
    "Asterix": Scale(0.5, 5),
    "SpaceInvaders": Scale(4.15, 40),
    "Freeway": Scale(0.15, 20),
    "Seaquest": Scale(0.1, 3),
    # A million steps: `solved` of the games, which is what PPO reaches in gymnax's table, but for Seaquest.
    "Breakout-1M": Scale(0.4, 28),
    "Asterix-1M": Scale(0.5, 15),
    "SpaceInvaders-1M": Scale(4.15, 131),
    "Freeway-1M": Scale(0.15, 23),
    "Seaquest-1M": Scale(0.1, 20),
    "Digits": Scale(10, 95),
    "Recall": Scale(12.5, 95),
    "Modular": Scale(3.2, 95),
    "LunarLander": Scale(-180, 200),
    "BipedalWalker": Scale(-90, 250),
    "LunarLander-full": Scale(-180, 200),
    "LunarLander-short": Scale(-180, 200),
    "MountainCar-pool": Scale(-200, -110, take_off_share=0.05),
    "BipedalWalker-full": Scale(-90, 250),
    "Pendulum-raw-pool": Scale(-1225, -200),
    "CartPole-raw-pool": Scale(22, 475),
    "Hopper": Scale(20, 1500),
    "Walker2d": Scale(5, 1500),
    "Reacher": Scale(-61, -4, take_off_share=0.9),  # above standing still, which scores -12
}


def scale_of(task: str) -> Scale:
    """Return a task's scale."""
    if task not in SCALES:
        raise ArgumentError(
            f"every task needs its random and its solved score, got task {task!r}; add it to ground/scales.py"
        )
    return SCALES[task]
