"""Compare what two commits make: the compiled modules and the parameter archives.

    python benchmarks/compare_commits.py OLD NEW ['compile:*@x86_64' 'bake:*']

The patterns name the tasks to build; without any, all modules and all archives.

Both commits are checked out next to each other and built with one store (INGOT_CACHE),
so that a module whose compile action has the same key is compiled once. The table has
one line for each file of which the two differ, and the exit code is 1 if there is any.
"""

from __future__ import annotations

import hashlib
import os
import subprocess
import sys
import tempfile
from collections import defaultdict
from collections.abc import Sequence
from pathlib import Path

import yaml

ROOT = Path(__file__).resolve().parents[1]
EVERYTHING = ("compile:*", "bake:*")
MODULES = "*/*/model.vmfb"
ARCHIVES = "*/weights/*/model.irpa"


def main() -> int:
    """Print the differences; return 1 where there is one."""
    old, new, *patterns = sys.argv[1:]
    with tempfile.TemporaryDirectory(prefix="ingot-compare-") as name:
        found = {
            commit: artifacts(commit, Path(name) / side, patterns or EVERYTHING)
            for side, commit in (("old", old), ("new", new))
        }
    paths = sorted(found[old].keys() | found[new].keys())
    differing = [path for path in paths if found[old].get(path) != found[new].get(path)]
    for path in differing:
        before, after = (found[commit].get(path, "none")[:12] for commit in (old, new))
        print(f"{path}: {before} -> {after}")
    print(f"{len(paths) - len(differing)} of {len(paths)} artifacts are equal")
    return 1 if differing else 0


def artifacts(commit: str, folder: Path, patterns: Sequence[str]) -> dict[str, str]:
    """Return the sha256 of every module and archive that a commit makes, by path."""
    git("worktree", "add", "--detach", "--quiet", str(folder), commit)
    try:
        subprocess.run(
            # Not stopped by what a commit cannot build: it has no file then.
            [sys.executable, "-m", "doit", "-c", *patterns],
            cwd=folder,
            env={**os.environ, "PYTHONPATH": str(folder)},
            check=False,
        )
        build = folder / "build"
        targets = targets_of_layouts(folder)
        digests = {
            path.relative_to(build).as_posix(): sha256(path)
            for path in build.glob(MODULES)
        }
        for path in build.glob(ARCHIVES):
            model, _, layout, name = path.relative_to(build).parts
            digests[f"{model}/{targets[layout]}/{name}"] = sha256(path)
        return digests
    finally:
        git("worktree", "remove", "--force", str(folder))


def targets_of_layouts(checkout: Path) -> dict[str, str]:
    """Return which targets use each layout; commits may call a layout differently."""
    users = defaultdict[str, list[str]](list)
    for path in sorted((checkout / "targets").glob("*.yaml")):
        target = yaml.safe_load(path.read_text())
        users[target.get("layout", "plain")].append(path.stem)
    return {layout: ",".join(names) for layout, names in users.items()}


def sha256(path: Path) -> str:
    """Return the sha256 of a file's content."""
    with path.open("rb") as content:
        return hashlib.file_digest(content, "sha256").hexdigest()


def git(*words: str) -> None:
    """Run git in this checkout."""
    subprocess.run(["git", *words], cwd=ROOT, check=True)


if __name__ == "__main__":
    sys.exit(main())
