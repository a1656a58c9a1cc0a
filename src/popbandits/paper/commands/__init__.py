"""The commands of the paper's experiments, in the order of the help page."""

# isort: off
from popbandits.paper.commands import synthetic as synthetic
from popbandits.paper.commands import procgen as procgen
