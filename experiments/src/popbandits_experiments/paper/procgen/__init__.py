"""Procgen: PPO, DrAC and UCB-DrAC agents on sixteen games with generated levels."""

import os

# Queues of a GPU, 8 unless told: a stream that waits for frames also stops the others in its queue. CUDA reads the
# number when it is first used, if only to count devices, so it is set before anything of this package asks for them.
os.environ.setdefault("CUDA_DEVICE_MAX_CONNECTIONS", "32")
