"""Verify that a bundle is complete, loadable, and correct on its target.

The order is: the seal and the file list, then every byte; then, in a sandbox without
network, what IREE and the bundle's own code make of it. The seal is a digest that
anybody can compute, and the golden cases are the bundle's own, so a verified bundle is
complete and does what its packer says. Who packed it is proved by a signature, which
`ingot.release.verify_release` verifies before all of this.
"""

from __future__ import annotations

import importlib.metadata
import stat
import tempfile
from dataclasses import dataclass
from pathlib import Path

import ingot
from ingot.bundles.golden_run import OUTCOME, SPEC, GoldenSpec, Outcome
from ingot.bundles.pack import pack_files
from ingot.bundles.reader import Bundle, read_bundle
from ingot.bundles.tarball import file_digest, read_tar
from ingot.bundles.target_runner import runner_for, tools_for
from ingot.codec import from_json, to_json
from ingot.engine import process, run_action, sandbox, toolchain
from ingot.engine.actions import Limits
from ingot.errors import IngotError, counted
from ingot.model.runner import Runner

# More than any outcome.
OUTCOME_BYTES = 1 << 20

TOOLS: tuple[str, ...] = (
    "python",
    "numpy",
    "ml_dtypes",
    "iree-base-runtime",
    "tokenizers",
)


@dataclass(frozen=True, slots=True)
class Report:
    """What was verified, for people; and what could not be, or ""."""

    text: str
    gap: str = ""


def verify(path: Path, root: Path | None = None, runs: bool = True) -> Report:
    """Return the report about a bundle, which is a folder or a tar.

    `root` is the checkout whose `targets/` describe how to run targets that this
    machine does not run natively. Without `runs`, only the files are verified.

    Raises: IngotError with the reason why the bundle is rejected.
    """
    root = root or Path.cwd()
    if path.is_dir():
        return report(read_bundle(path.absolute()), path.name, root, runs)
    if not path.is_file():
        raise IngotError(f"{path}: no such bundle", "a bundle is a folder or a tar")
    with tempfile.TemporaryDirectory(prefix="bundle-") as name:
        # Errors name the folder.
        folder = Path(name) / "files" / path.name
        folder.mkdir(parents=True)
        read_tar(path, folder)
        bundle = read_bundle(folder)
        _check_form(path, bundle)
        return report(bundle, path.name, root, runs)


def report(
    bundle: Bundle, label: str, root: Path, runs: bool, signed: str = "not signed"
) -> Report:
    """Return the report about a bundle whose files are as they were packed.

    Raises: IngotError if it does not load, or a golden case is wrong.
    """
    files = counted(len(bundle.contract["files"]) + 1, "file")
    lines = [
        f"{label}: {bundle.name}",
        f"  complete: {files} as packed; {signed}",
    ]
    if not runs:
        lines.append("  not tested: run=no")
        return Report("\n".join(lines))
    gap = _why_not(bundle)
    if gap:
        lines.append(f"  not run: {gap}")
    else:
        outcome = _run(bundle, root)
        if outcome.error:
            raise IngotError(_printable(outcome.error), _printable(outcome.hint))
        lines.append(f"  loads: {_printable(outcome.loads)}")
        if outcome.right:
            lines.append(f"  correct: {_printable(outcome.right)}")
        gap = _printable(outcome.gap)
        if gap:
            lines.append(f"  not tested: {gap}")
    return Report("\n".join(lines), gap)


def _why_not(bundle: Bundle) -> str:
    """Return why nothing of the bundle may be run here, or ""."""
    declared = bundle.contract["runtime"]
    if sandbox.kind() != "bubblewrap":
        return "there is no sandbox here, and code of a bundle runs only in one"
    if declared["package"] != "iree-base-runtime":
        return f"the bundle is for the runtime {declared['package']!r}"
    installed = importlib.metadata.version("iree-base-runtime")
    if declared["version"] != installed:
        return (
            f"the bundle is for iree-base-runtime {declared['version']!r},"
            f" and {installed} is installed"
        )
    return ""


def _run(bundle: Bundle, root: Path) -> Outcome:
    """Load the bundle and run its golden cases in a sandbox without network."""
    runner = runner_for(bundle, root)
    spec, tools = GoldenSpec(None, str(runner)), TOOLS
    if isinstance(runner, Runner):
        spec, tools = GoldenSpec(runner), (*TOOLS, *tools_for(bundle, root))
    with tempfile.TemporaryDirectory(prefix="verify-") as name:
        folder = Path(name)
        (folder / SPEC).write_text(to_json(spec), encoding="utf-8")
        mounts = {"bundle": bundle.folder, "ingot": Path(ingot.__path__[0])}
        words = sandbox.bubblewrap(
            folder,
            run_action.environment(),
            mounts,
            tuple(dict.fromkeys(tools)),
            network=False,
        )
        python = toolchain.executable("python")
        argv = (*words, python, "-m", "ingot.bundles.golden_run")
        done = process.run(argv, folder, {}, Limits())
        place = folder / OUTCOME
        try:
            # The bundle's code may have left a link, a pipe or a huge file there.
            if not stat.S_ISREG(place.lstat().st_mode):
                raise OSError(f"{OUTCOME} is not a plain file")
            with place.open("rb") as file:
                return from_json(Outcome, file.read(OUTCOME_BYTES))
        except (OSError, ValueError, RecursionError):
            last = done.output.decode(errors="replace").strip().splitlines()[-1:]
            raise IngotError(
                f"model.vmfb: what runs it ended with exit code {done.exit_code}",
                done.exceeded or _printable("".join(last)),
            ) from None


def _printable(text: str) -> str:
    """Return the text without what a terminal obeys: a bundle's code may write it."""
    return "".join(c for c in text if c.isprintable() or c == "\n")


def _check_form(path: Path, bundle: Bundle) -> None:
    """Compare the tar with the one that the same files produce.

    Raises: IngotError if it differs in something that no file's digest covers.
    """
    if pack_files(bundle, None) != file_digest(path):
        raise IngotError(
            f"{path.name}: its files are right, the tar around them is not",
            "fetch it again",
        )
