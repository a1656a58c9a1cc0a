"""One small Ray for the tests of a process."""

import os
from collections.abc import Iterator
from typing import Any

import pytest

SETTINGS = {
    "RAY_ACCEL_ENV_VAR_OVERRIDE_ON_ZERO": "0",  # the default will change, and Ray says so at every start
    "RAY_USAGE_STATS_ENABLED": "0",
    "RAY_prestart_worker_first_driver": "0",  # a worker for every processor, of which not all find something to do
    "RAY_AUTH_MODE": "disabled",
    "RAY_worker_niceness": "0",  # actors would be the last to get a processor of a busy machine
    "TUNE_DISABLE_AUTO_CALLBACK_LOGGERS": "1",  # nobody reads their files, and an interrupted Tune leaves them open
}


@pytest.fixture(scope="session")
def cluster() -> Iterator[Any]:
    """A cluster of one node, to which others can be added. It has fewer processors than the tests have members, so
    that they take turns and actors are used again."""
    import ray
    from ray.cluster_utils import Cluster

    os.environ.update(SETTINGS)
    # A lost node is missed after three seconds, not twenty; that is still after its actors, as everywhere.
    checks = {"health_check_initial_delay_ms": 0, "health_check_period_ms": 1000, "health_check_failure_threshold": 3}
    # Nobody looks at a dashboard, reads the workers' output or scales: their processes only take time from the tests.
    unused = {"include_dashboard": False, "include_log_monitor": False, "no_monitor": True}
    head = {"num_cpus": 2, "object_store_memory": 100 * 2**20, "_system_config": checks, **unused}
    try:
        made = Cluster(initialize_head=True, head_node_args=head)
    except Exception as error:  # Ray gives a node half a minute, which a busy machine may need twice.
        if "timed out during startup" not in str(error):
            raise
        made = Cluster(initialize_head=True, head_node_args=head)
    ray.init(address=made.address, log_to_driver=False)
    yield made
    ray.shutdown()
    made.shutdown()
