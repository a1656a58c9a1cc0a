"""Write runs to where people look: a CSV file, TensorBoard, Weights & Biases, MLflow.

A tracker is a callback: `tune(..., callbacks=[CSVTracker()])`. Each is a file, and imports its library when it is made.
The run's own record is what counts: whatever a tracker has not yet when a run is opened, it writes then. So a kill, or
a run that was tracked only in part, leaves neither gaps nor duplicates.
"""

from popbandits.trackers.csv_tracker import CSVTracker
from popbandits.trackers.mlflow_tracker import MLflowTracker
from popbandits.trackers.tensorboard_tracker import TensorBoardTracker
from popbandits.trackers.tracker import Tracker
from popbandits.trackers.wandb_tracker import WandbTracker

__all__ = ["CSVTracker", "MLflowTracker", "TensorBoardTracker", "Tracker", "WandbTracker"]
