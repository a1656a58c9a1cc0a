"""Selection of the weights and hyperparameters that a member continues with: one class per strategy."""

from popbandits.selection.ipbt import Restarts
from popbandits.selection.mf_pbt import MFPBT
from popbandits.selection.patient import Patient
from popbandits.selection.selection import Picks, Selection
from popbandits.selection.smoothed import Smoothed
from popbandits.selection.t_test import TTest
from popbandits.selection.truncation import Truncation

__all__ = ["MFPBT", "Patient", "Picks", "Restarts", "Selection", "Smoothed", "TTest", "Truncation"]
