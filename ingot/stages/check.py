"""Plan the check of a model on one target."""

from __future__ import annotations

from pathlib import Path

from ingot.checks.tolerances import tolerances
from ingot.engine.actions import Action, InlineText, Output, Source, SourceFile
from ingot.model.graph import to_json
from ingot.model.manifest import Manifest
from ingot.model.target import Target
from ingot.model.weight_files import file_input
from ingot.programs.check.spec import CheckSpec
from ingot.stages.program import program_argv, program_inputs

ENV = (
    # Beside the other files: the driver's own place is read-only for an action, and
    # without it each call compiles all shaders again, 10 s and more of it.
    ("MESA_SHADER_CACHE_DIR", "shaders"),
    # Every processor works at a call of its own; and sums split over threads would
    # make the oracle depend on how many there are.
    ("OPENBLAS_NUM_THREADS", "1"),
)

OUTPUTS = ("check.json", "check.txt", "golden.json")


def plan_check(manifest: Manifest, target: Target, root: Path) -> Action:
    """Return the action that makes the reports, or fails.

    `golden.json` holds a few sentences or prompts that the model was right about.
    """
    graph = manifest.graph
    model, name = manifest.model, target.resolved
    inputs: dict[str, Source] = {
        "graph.json": InlineText(to_json(graph)),
        "model.vmfb": Output(f"compile:{model}@{name}", "model.vmfb"),
        "probe.vmfb": Output(f"compile-probe:{model}@{name}", "probe.vmfb"),
        "model.irpa": Output(f"bake:{model}@{target.layout.name}", "model.irpa"),
    }
    if manifest.golden:
        inputs["golden.npz"] = SourceFile(manifest.golden)
    if manifest.tokenizer:
        inputs["tokenizer.json"] = file_input(manifest.tokenizer)
    oracles = sorted({instance.oracle[0] for instance in graph.instances})
    for path in ("oracles/__init__.py", *oracles):
        inputs[path] = SourceFile(root / path)
    shown = f"build/{model}/{name}"
    return Action(
        task=f"check:{model}@{name}",
        argv=program_argv("check"),
        inputs=(
            *inputs.items(),
            *program_inputs("check", _specification(manifest, target)),
        ),
        outputs=OUTPUTS,
        tools=tuple(
            dict.fromkeys(
                ("python", "numpy", "ml_dtypes", "iree-base-runtime", *target.tools)
            )
        ),
        env=ENV,
        exported_to=tuple(f"{shown}/{output}" for output in OUTPUTS),
    )


def _specification(manifest: Manifest, target: Target) -> CheckSpec:
    return CheckSpec(
        task=f"check {manifest.model}@{target.resolved}",
        model=manifest.model,
        target=target.resolved,
        runner=target.runner,
        scope="model",
        tolerances=tolerances(manifest, target),
        golden="golden.npz" if manifest.golden else None,
        tokenizer="tokenizer.json" if manifest.tokenizer else None,
        n_vocab=dict(manifest.dims).get("n_vocab"),
    )
