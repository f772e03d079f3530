"""Run Python where only some packages are installed, as on a customer's machine."""

from __future__ import annotations

import subprocess
import sys
import sysconfig
from pathlib import Path

# With what iree-base-runtime itself needs.
NEEDED = (
    "iree/runtime",
    "iree/_runtime*",
    "iree_base_runtime-*",
    "numpy*",
    "ml_dtypes*",
)
TEXTS = ("tokenizers*",)
TEMPLATES = ("jinja2*", "markupsafe*")


def python_with(folder: Path, packages: tuple[str, ...]) -> Path:
    """Link these of the installed packages into a folder of their own."""
    site = Path(sysconfig.get_path("purelib"))
    for pattern in packages:
        found = [*site.glob(pattern)]
        assert found, f"{pattern} is not installed"
        for path in found:
            place = folder / path.relative_to(site)
            place.parent.mkdir(parents=True, exist_ok=True)
            place.symlink_to(path)
    return folder


def run_script(
    site: Path, script: Path, *words: str
) -> subprocess.CompletedProcess[str]:
    """Run a script with the standard library and the packages of a folder alone."""
    return subprocess.run(
        # -S: no site-packages; -s: none of the user's.
        [sys.executable, "-S", "-s", str(script), *words],
        cwd=site,
        env={"PYTHONPATH": str(site), "PYTHONDONTWRITEBYTECODE": "1"},
        capture_output=True,
        text=True,
        check=False,
    )
