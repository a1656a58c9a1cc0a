"""The methods that the benchmark can play: the library's, and one that is somebody else's."""

from dataclasses import dataclass
from importlib import import_module

from popbandits.errors import ArgumentError
from popbandits.experiments import methods
from popbandits.experiments.methods import Method
from popbandits.explorers import Explorer


@dataclass(frozen=True)
class Peer(Method):
    """A method whose explorer stands beside the benchmark, and needs packages of its own."""

    module: str = ""
    needs: str = ""

    def make(self) -> Explorer:
        """Make a new explorer; ArgumentError where its packages are not installed."""
        try:
            explorer: Explorer = getattr(import_module(self.module), self.explorer)()
        except ImportError as error:
            raise ArgumentError(
                f"the method {self.label} needs {self.needs}, got: {error}; pip install 'popbandits[bench]'"
            ) from error
        return explorer


METHODS: dict[str, Method] = {
    **methods.METHODS,
    "ray-pb2": Peer(
        "Ray Tune's PB2, numbers only",
        "RayPB2",
        module="benchmarks.peers.ray_pb2_explorer",
        needs="Ray Tune, scikit-learn and pandas",
    ),
}
