"""Plan the check of a model on one target, part by part.

Each part is compared by an action of its own: a changed golden file compares no
component again, and an interrupted check goes on with the parts that are left.
"""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

from ingot.checks.tolerances import tolerances
from ingot.engine.actions import Action, InlineText, Output, Source, SourceFile
from ingot.model.graph import to_json
from ingot.model.manifest import Manifest
from ingot.model.target import Target
from ingot.programs.check.spec import CheckSpec
from ingot.programs.compare.spec import ROWS, CompareSpec, Part
from ingot.stages.program import program_argv, program_inputs

ENV = (
    # Beside the other files: the driver's own place is read-only for an action, and
    # without it each call compiles all shaders again, 10 s and more of it.
    ("MESA_SHADER_CACHE_DIR", "shaders"),
    # Every processor works at a call of its own; and sums split over threads would
    # make the oracle depend on how many there are.
    ("OPENBLAS_NUM_THREADS", "1"),
)

PARTS: dict[Part, tuple[str, ...]] = {
    "components": ("component",),
    "blocks": ("block", "propagated"),
    "entry-points": ("model", "golden", "tokens"),
}
"""The levels that each part is compared at."""

OUTPUTS = ("check.json", "check.txt")


def plan_check(manifest: Manifest, target: Target, root: Path) -> Iterator[Action]:
    """Yield the actions that compare each part, and the one that judges them all.

    An action that compares succeeds whatever it finds, so that the report has the rows
    of all parts; the last one fails where any row does.
    """
    name = f"{manifest.model}@{target.resolved}"
    for part in PARTS:
        yield _compare(manifest, target, root, part)
    specification = CheckSpec(
        task=f"check {name}",
        model=manifest.model,
        target=target.resolved,
        device=target.runner.device,
        emulated=target.runner.emulated,
        parts=tuple(f"{part}.json" for part in PARTS),
    )
    shown = f"build/{manifest.model}/{target.resolved}"
    yield Action(
        task=f"check:{name}",
        argv=program_argv("check"),
        inputs=(
            ("graph.json", InlineText(to_json(manifest.graph))),
            *((f"{part}.json", Output(f"check-{part}:{name}", ROWS)) for part in PARTS),
            *program_inputs("check", specification),
        ),
        outputs=OUTPUTS,
        tools=("python", "numpy"),
        exported_to=tuple(f"{shown}/{output}" for output in OUTPUTS),
    )


def _compare(manifest: Manifest, target: Target, root: Path, part: Part) -> Action:
    """Return the action that compares a part, and writes its rows.

    That of the entry points also writes `golden.json`: a few sentences or prompts that
    the model was right about.
    """
    graph = manifest.graph
    name = f"{manifest.model}@{target.resolved}"
    is_whole = part == "entry-points"
    module = "model.vmfb" if is_whole else "probe.vmfb"
    compiled = "compile" if is_whole else "compile-probe"
    inputs: dict[str, Source] = {
        "graph.json": InlineText(to_json(graph)),
        module: Output(f"{compiled}:{name}", module),
        "model.irpa": Output(
            f"bake:{manifest.model}@{target.layout.name}", "model.irpa"
        ),
    }
    if manifest.golden and is_whole:
        inputs["golden.npz"] = SourceFile(manifest.golden)
    if manifest.tokenizer and is_whole:
        inputs["tokenizer.json"] = manifest.tokenizer.source
    oracles = sorted({instance.oracle[0] for instance in graph.instances})
    for path in ("oracles/__init__.py", *oracles):
        inputs[path] = SourceFile(root / path)
    specification = CompareSpec(
        task=f"check {name}",
        part=part,
        runner=target.runner,
        scope="model",
        tolerances={
            level: tolerance
            for level, tolerance in tolerances(manifest, target).items()
            if level in PARTS[part]
        },
        golden="golden.npz" if "golden.npz" in inputs else None,
        tokenizer="tokenizer.json" if "tokenizer.json" in inputs else None,
        n_vocab=dict(manifest.dims).get("n_vocab"),
    )
    golden = ("golden.json",) if is_whole else ()
    shown = f"build/{manifest.model}/{target.resolved}"
    paths = (f"check-{part}.json", *golden)
    tools = ("python", "numpy", "ml_dtypes", "iree-base-runtime", *target.tools)
    return Action(
        task=f"check-{part}:{name}",
        argv=program_argv("compare"),
        inputs=(*inputs.items(), *program_inputs("compare", specification)),
        outputs=(ROWS, *golden),
        tools=tuple(dict.fromkeys(tools)),
        env=ENV,
        exported_to=tuple(f"{shown}/{path}" for path in paths),
    )
