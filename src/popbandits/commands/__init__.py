"""The commands, one file each, in the order of the help page."""

# isort: off
from popbandits.commands import demo as demo
from popbandits.commands import run as run
from popbandits.commands import resume as resume
from popbandits.commands import status as status
from popbandits.commands import replay as replay
from popbandits.commands import export as export
from popbandits.commands import report as report
from popbandits.commands import watch as watch
from popbandits.commands import check as check
from popbandits.commands.registry import COMMANDS as COMMANDS
