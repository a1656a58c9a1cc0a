"""The population: decides by ask and tell which member trains next, with which weights and configuration."""

from popbandits.population.plan import Plan
from popbandits.population.population import Population

__all__ = ["Plan", "Population"]
