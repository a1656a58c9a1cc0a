"""Pack what the Procgen experiment needs on a host with a GPU but without a network.

    python -m tools.offline bundle.tar.xz                   # for Python 3.12 on x86-64
    python -m tools.offline bundle.tar.xz --python 3.11 --machine aarch64

The archive holds popbandits and its experiments, pure packages, and the suites of EnvPool that are asked for: all of
them are 0.8 GB. The host has Python, PyTorch, NumPy and SciPy, since two NumPys do not mix. EnvPool
carries Qt along for Python 3.12 and later; before, the host needs libqt5gui5. docs/procgen.md says what to do there.
"""

import argparse
import shutil
import subprocess
import sys
import tarfile
from collections.abc import Sequence
from pathlib import Path
from tempfile import TemporaryDirectory

ROOT = Path(__file__).parents[1]
OURS = ("ConfigSpace", "lazy-loader", "rich", "threadpoolctl")
"""What popbandits depends on, without NumPy and SciPy."""
THEIRS = ("pyparsing", "more-itertools", "typing-extensions", "packaging", "markdown-it-py", "mdurl", "pygments")
"""What these depend on."""
ENVPOOL = (
    *("envpool>=1.2.5,<1.2.8", "envpool-assets<0.5"),
    *("gymnasium", "cloudpickle", "farama-notifications", "optree", "dm-env"),
)
"""EnvPool and its dependencies. Newer ones may draw other frames than stored runs had, as 1.2.6 did."""
DM = ("dm-tree", "absl-py", "attrs", "wrapt")
"""What dm-env depends on."""
KEPT = {"python", "__pycache__"}
"""Folders of EnvPool that belong to no suite."""


def install(site: Path, python: str, machine: str) -> None:
    """Install packages for another Python into a folder, then our own."""
    glibc = [f"--platform=manylinux_2_{minor}_{machine}" for minor in (28, 17)] + [
        f"--platform=manylinux2014_{machine}"
    ]
    pip = [sys.executable, "-m", "pip", "install", "--quiet", "--no-deps", "--no-compile", "--target", str(site)]
    wheels = ["--only-binary=:all:", f"--python-version={python}", *glibc]
    subprocess.run([*pip, *wheels, *OURS, *THEIRS, *ENVPOOL, *DM], check=True)
    subprocess.run([*pip, str(ROOT), str(ROOT / "experiments")], check=True)
    shutil.rmtree(site / "bin", ignore_errors=True)  # Programs that would start the Python of here.
    for address in site.glob("*.dist-info/direct_url.json"):
        address.unlink()  # Where this checkout is.


def keep_suites(site: Path, suites: Sequence[str]) -> None:
    """Remove EnvPool's other suites, and their registration, which would import them."""
    for package in ("envpool", "envpool_assets"):
        for folder in (site / package).glob("*/"):
            if folder.name not in KEPT | set(suites):
                shutil.rmtree(folder)
    lines = [f"import envpool.{suite}.registration" for suite in suites]
    (site / "envpool" / "entry.py").write_text("\n".join(lines) + "\n", "utf-8")


def main(arguments: Sequence[str] | None = None) -> None:
    """Run the command line."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("out", type=Path, help="archive to write, .tar.xz")
    parser.add_argument("--python", default="3.12", metavar="VERSION", help="the host's Python (%(default)s)")
    parser.add_argument("--machine", default="x86_64", choices=("x86_64", "aarch64"), help="the host's processor")
    parser.add_argument(
        "--suites", nargs="+", default=["procgen", "classic_control"], metavar="NAME", help="of EnvPool"
    )
    options = parser.parse_args(arguments)
    with TemporaryDirectory() as folder:
        site = Path(folder) / "bundle"
        install(site, options.python, options.machine)
        keep_suites(site, options.suites)
        with tarfile.open(options.out, "w:xz") as archive:
            archive.add(site, "bundle")
    print(f"{options.out}: {options.out.stat().st_size / 2**20:.0f} MiB")


if __name__ == "__main__":
    main()
