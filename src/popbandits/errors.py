"""Exceptions and a warning. Every message states the rule, the parameter and the value, then a fix if there is one."""


class PopbanditsError(Exception):
    """Base class of every error that popbandits raises on purpose."""


class PopbanditsWarning(UserWarning):
    """A run goes on, but may not do what was meant."""


class SpaceError(PopbanditsError, ValueError):
    """A search space, or a configuration of it, breaks a rule."""


class HistoryError(PopbanditsError, ValueError):
    """A history does not fit the run it is used for."""


class ArgumentError(PopbanditsError, ValueError):
    """An argument is not allowed."""


class MissingExtraError(PopbanditsError, ImportError):
    """A feature needs packages that an extra installs."""


class CheckpointError(PopbanditsError, RuntimeError):
    """A checkpoint is missing or damaged."""


class RunError(PopbanditsError, RuntimeError):
    """A run cannot start or cannot continue; its results so far are saved."""


class DiskError(RunError):
    """The disk refused a read or write. The agents did not fail, and the run can be resumed."""


class WriteError(DiskError, HistoryError):
    """The disk refused to take a run's record; nothing of it was written."""


class ReadError(DiskError, HistoryError):
    """The disk refused to give a run's record, which may be undamaged."""


class AgentError(PopbanditsError, RuntimeError):
    """An agent breaks the contract."""
