"""Check what `python -m build` made, and try the wheel in an empty environment of every Python that is installed.

    python tools/check_dist.py dist

Environments get the wheel and what it depends on, as new as there is: that is what a user gets.
"""

import os
import re
import shutil
import subprocess
import sys
import tarfile
import tempfile
import tomllib
import zipfile
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
ABOUT = {"METADATA", "WHEEL", "RECORD", "entry_points.txt", "licenses/LICENSE"}
DATA = {
    "popbandits/py.typed",
    "popbandits/reports/page/style.css",
    "popbandits/reports/page/live.html",
    "popbandits/reports/page/live.js",
    "popbandits/storage/schema-2.sql",
    "popbandits/storage/schema-3.sql",
}
AT_TOP = [
    "CHANGELOG.md",
    "CITATION.cff",
    "CODE_OF_CONDUCT.md",
    "CONTRIBUTING.md",
    "LICENSE",
    "Makefile",
    "README.md",
    "SECURITY.md",
    "conftest.py",
    "constraints.txt",
    "pyproject.toml",
]
FOLDERS = ("src/popbandits", "tests", "examples", "docs", "experiments", "tools")
UNWANTED = re.compile(r"(^|/)(__pycache__|runs|dist|\.venv[^/]*|\.git)(/|$)|\.pyc$")


def main(folder: Path) -> None:
    """Check the one wheel and the one source distribution of a folder; exit with the first thing that is wrong."""
    (wheel,), (source,) = folder.glob("*.whl"), folder.glob("*.tar.gz")
    check_wheel(wheel)
    check_source(source)
    found = interpreters()
    for python in found.values():
        try_out(wheel, python)
    missing = [version for version in supported() if version not in found]
    print(f"Tried with Python {', '.join(found)}" + (f"; not installed here: {', '.join(missing)}" if missing else ""))


def check_wheel(wheel: Path) -> None:
    """Compare a wheel's files with the package's, and look at its metadata."""
    with zipfile.ZipFile(wheel) as archive:
        names = {name for name in archive.namelist() if not name.endswith("/")}
        (metadata,) = (name for name in names if name.endswith(".dist-info/METADATA"))
        text = archive.read(metadata).decode("utf-8")
    about = metadata.removesuffix("METADATA")
    package = {path.relative_to(ROOT / "src").as_posix() for path in (ROOT / "src/popbandits").rglob("*")}
    expected = {name for name in package if (ROOT / "src" / name).is_file() and not UNWANTED.search(name)}
    expected |= {about + name for name in ABOUT}
    demand(names == expected, f"the wheel differs from src: {sorted(names ^ expected)}")
    demand(names >= DATA, f"the wheel lacks data: {sorted(DATA - names)}")
    relative = re.findall(r"\]\((?!https?:|mailto:|#)[^)]*\)", text)
    demand(not relative, f"links of the README lead nowhere on a package index: {relative[:3]}")
    for needed in ("Project-URL: ", "Keywords: ", "License-Expression: Apache-2.0", "Requires-Python: >=3.11"):
        demand(f"\n{needed}" in text, f"the metadata lacks {needed!r}")


def check_source(source: Path) -> None:
    """See that a source distribution holds what is needed to test and to document, and nothing that was made here."""
    with tarfile.open(source) as archive:
        names = {name.partition("/")[2] for name in archive.getnames()}
    missing = [name for name in AT_TOP if name not in names]
    missing += [folder for folder in FOLDERS if not any(name.startswith(f"{folder}/") for name in names)]
    demand(not missing, f"the source distribution lacks {missing}")
    unwanted = [name for name in names if UNWANTED.search(name)]
    demand(not unwanted, f"the source distribution holds {unwanted[:3]}")


def supported() -> list[str]:
    """Return the versions of Python that the package says it works with, such as "3.12"."""
    classifiers = tomllib.loads((ROOT / "pyproject.toml").read_text("utf-8"))["project"]["classifiers"]
    return re.findall(r"Python :: (3\.\d+)$", "\n".join(classifiers), re.MULTILINE)


def interpreters() -> dict[str, str]:
    """Find a Python of every supported version, on the path or among pyenv's."""
    pyenv = Path(os.environ.get("PYENV_ROOT") or Path.home() / ".pyenv") / "versions"
    found = {}
    for version in supported():
        name = f"python{version}"
        known = [shutil.which(name), *map(str, sorted(pyenv.glob(f"{version}.*/bin/{name}")))]
        if f"{sys.version_info[0]}.{sys.version_info[1]}" == version:
            known.insert(0, sys.executable)
        for python in filter(None, known):
            # One of pyenv's that is not selected is on the path, and does not run.
            if subprocess.run([python, "--version"], capture_output=True).returncode == 0:
                found[version] = python
                break
    return found


def try_out(wheel: Path, python: str) -> None:
    """Install a wheel in an empty environment, and run the smoke test there."""
    with tempfile.TemporaryDirectory(prefix="popbandits-dist-", ignore_cleanup_errors=True) as folder:
        subprocess.run([python, "-m", "venv", folder], check=True)
        inside = str(Path(folder) / ("Scripts/python.exe" if os.name == "nt" else "bin/python"))
        quiet = ["--quiet", "--disable-pip-version-check"]
        subprocess.run([inside, "-m", "pip", "install", *quiet, str(wheel)], check=True)
        subprocess.run([inside, str(ROOT / "tools" / "smoke.py")], check=True)


def demand(holds: bool, otherwise: str) -> None:
    """Exit with a message unless something holds."""
    if not holds:
        sys.exit(otherwise)


if __name__ == "__main__":
    main(Path(sys.argv[1]))
