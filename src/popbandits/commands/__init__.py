"""The commands, one file each, in the order of the help page."""

from popbandits.commands import check, demo, export, replay, report, resume, run, status, watch
from popbandits.commands.registry import Definition

COMMANDS: dict[str, Definition] = {
    "demo": demo.demo,
    "run": run.run,
    "resume": resume.resume,
    "status": status.status,
    "replay": replay.replay,
    "export": export.export,
    "report": report.report,
    "watch": watch.watch,
    "check": check.check,
}
