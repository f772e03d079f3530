"""Plan the benchmark of a model on one target.

Times are only valid for the machine that measured them, so the machine is part of the
action's key. No other action runs during a benchmark.
"""

from __future__ import annotations

from ingot.engine.actions import Action, InlineText, Output
from ingot.engine.machine import machine
from ingot.model.manifest import Manifest
from ingot.model.target import Target
from ingot.programs.bench.spec import BenchCase, BenchSpec
from ingot.stages.program import program_argv, program_inputs


def plan_bench(manifest: Manifest, target: Target) -> Action:
    """Return the action that measures `bench.json`."""
    model, name = manifest.model, target.resolved
    specification = BenchSpec(
        task=f"bench {model}@{name}",
        model=model,
        target=name,
        weights=manifest.weights.source.note,
        machine=dict(machine()),
        runner=target.runner,
        scope="model",
        cases=tuple(
            BenchCase(case.entry_point, dict(case.sizes)) for case in manifest.bench
        ),
    )
    return Action(
        task=f"bench:{model}@{name}",
        argv=program_argv("bench"),
        inputs=(
            ("graph.json", InlineText(manifest.graph.json)),
            ("model.vmfb", Output(f"compile:{model}@{name}", "model.vmfb")),
            ("model.irpa", Output(f"bake:{model}@{target.layout.name}", "model.irpa")),
            *program_inputs("bench", specification),
        ),
        outputs=("bench.json",),
        tools=tuple(
            dict.fromkeys(("python", "numpy", "iree-base-runtime", *target.tools))
        ),
        # An action cannot write to the folder where the driver caches its shaders.
        env=(("MESA_SHADER_CACHE_DIR", "shaders"),),
        platform=machine(),
        exported_to=(f"build/{model}/{name}/bench.json",),
        exclusive=True,
    )
