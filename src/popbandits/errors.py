"""What can go wrong, by kind. Every message states the rule, the parameter and the value it got, then the fix."""


class PopbanditsError(Exception):
    """The parent of every error that popbandits raises on purpose."""


class SpaceError(PopbanditsError, ValueError):
    """A search space, or a configuration of it, breaks a rule."""


class HistoryError(PopbanditsError, ValueError):
    """A stored or given history does not fit the run it is used for."""


class ArgumentError(PopbanditsError, ValueError):
    """An argument is outside what the method allows."""


class MissingExtraError(PopbanditsError, ImportError):
    """A feature needs packages that an extra installs."""


class CheckpointError(PopbanditsError, RuntimeError):
    """A checkpoint is missing or damaged."""


class RunError(PopbanditsError, RuntimeError):
    """A run cannot start, or cannot go on; what it did so far is saved."""


class DiskError(RunError):
    """The disk refused what a run must do; no agent is to blame, and the run can be resumed."""


class WriteError(DiskError, HistoryError):
    """The disk refused to take a run's record; nothing of it was written."""


class AgentError(PopbanditsError, RuntimeError):
    """An agent breaks the contract."""
