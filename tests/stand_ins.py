"""Provide a checkout whose Python, pip and apt-get only write a log."""

from __future__ import annotations

import shutil
import subprocess
import sys
from dataclasses import dataclass
from pathlib import Path

from tests.source_tree import ROOT

# Delegates to a real Python, but makes no environment and asks no registry.
PYTHON = """\
#!/bin/sh
echo "python $*" >>"$LOG"
case "$*" in
"-m venv "*) mkdir -p "$3/bin" && cp "$0" "$3/bin/python" ;;
"-m pip download "*)
    while [ "$1" != --dest ]; do shift; done
    exec "$REAL_PYTHON" -c 'import sys, zipfile
with zipfile.ZipFile(sys.argv[1] + "/runtime.whl", "w") as wheel:
    wheel.writestr("iree_base_runtime-3.13.0.dist-info/METADATA", "")
    wheel.writestr("iree/_runtime_libs/iree-run-module", "")' "$2"
    ;;
"-m pip "*) eval "${PIP:-:}" ;;
*) exec "$REAL_PYTHON" "$@" ;;
esac
"""
APT_GET = '#!/bin/sh\necho "apt-get $*" >>"$LOG"\neval "${APT:-:}"\n'
DPKG = '#!/bin/sh\necho "dpkg $*" >>"$LOG"\n'
DPKG_QUERY = """\
#!/bin/sh
while [ "$1" != -f ] && [ "${1#-f}" = "$1" ]; do shift; done
shift
for package; do
    case " $ABSENT " in
    *" $package "*) ;;
    *) printf 'installed=%s ' "$package" ;;
    esac
done
"""
ID = "#!/bin/sh\necho ${USER_ID:-0}\n"


@dataclass(frozen=True)
class Ran:
    """How the script ended."""

    code: int
    out: str
    err: str


@dataclass(frozen=True)
class Checkout:
    """A checkout with the stand-ins next to it."""

    root: Path
    log: Path
    env: dict[str, str]

    @classmethod
    def create(cls, folder: Path) -> Checkout:
        """Return a checkout in the folder, and the stand-ins next to it."""
        root, bin_ = folder / "a checkout", folder / "bin"
        root.mkdir()
        bin_.mkdir()
        for name in ("bootstrap", "pyproject.toml", "constraints.txt"):
            shutil.copy(ROOT / name, root / name)
        stand_ins = {
            "python3": PYTHON,
            "apt-get": APT_GET,
            "dpkg": DPKG,
            "dpkg-query": DPKG_QUERY,
            "id": ID,
        }
        for name, script in stand_ins.items():
            (bin_ / name).write_text(script)
            (bin_ / name).chmod(0o755)
        env = {
            "PATH": f"{bin_}:/usr/bin:/bin",
            "LOG": str(folder / "log"),
            "REAL_PYTHON": sys.executable,
            "CI": "true",
        }
        return cls(root, folder / "log", env)

    def start(self, *words: str, **env: str) -> subprocess.Popen[str]:
        """Start the script with these words and variables."""
        return subprocess.Popen(
            [str(self.root / "bootstrap"), *words],
            env={**self.env, **env},
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
            start_new_session=True,
        )

    def run(self, *words: str, **env: str) -> Ran:
        """Run the script to its end."""
        process = self.start(*words, **env)
        out, err = process.communicate(timeout=60)
        return Ran(process.returncode, out, err)

    def logged(self) -> list[str]:
        """The calls of the stand-ins since the last time."""
        lines = self.log.read_text().splitlines() if self.log.exists() else []
        self.log.unlink(missing_ok=True)
        return lines

    def count(self, words: str) -> int:
        """How many times they were asked for this since the last look."""
        return sum(words in line for line in self.logged())
