"""Who copies whom, when, and who trains next: ask and tell."""

from popbandits.population.population import Population

__all__ = ["Population"]
