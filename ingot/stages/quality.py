"""Plan the measurement of how well a decoder predicts with its stored weights.

The target's own artifact computes it, if this machine can run it fast. Otherwise, the
oracle computes it with the same stored weights, once for all such targets of a layout.
"""

from __future__ import annotations

from pathlib import Path

from ingot.engine.actions import Action, InlineText, Output, SourceFile
from ingot.model.judge import quality_task, source_is_quantised
from ingot.model.manifest import Manifest
from ingot.model.target import Target
from ingot.programs.quality.spec import QUALITY, TEXT, QualitySpec
from ingot.stages.program import ROOT, oracle_sources, program_argv, program_inputs


def plan_quality(
    manifest: Manifest, plain: Manifest, target: Target, root: Path
) -> Action:
    """Return the action that writes `quality.json`.

    `manifest` has the target's kernels; the reference computes the graph of `plain`,
    whose weights are f32.
    """
    model, layout = manifest.model, manifest.graph.layout
    assert manifest.tokenizer
    task = quality_task(manifest, target)
    runner = target.runner if task.endswith(f"@{target.resolved}") else None
    specification = QualitySpec(
        task=task.replace("check-quality:", "quality "),
        n_vocab=dict(manifest.dims)["n_vocab"],
        n_ctx=dict(manifest.dims)["n_ctx"],
        runner=runner,
        scope="model",
        source_quantised=source_is_quantised(manifest),
    )
    instances = (*plain.graph.instances, *manifest.graph.instances)
    compiled = Output(f"compile:{model}@{target.resolved}", "model.vmfb")
    return Action(
        task=task,
        argv=program_argv("quality"),
        inputs=(
            ("graph.json", InlineText(manifest.graph.json)),
            ("model.irpa", Output(f"bake:{model}@{layout}", "model.irpa")),
            ("plain.json", InlineText(plain.graph.json)),
            ("plain.irpa", Output(f"bake:{model}@{plain.graph.layout}", "model.irpa")),
            *((("model.vmfb", compiled),) if runner else ()),
            ("tokenizer.json", manifest.tokenizer.source),
            (TEXT, SourceFile(ROOT / "ingot/programs/quality" / TEXT)),
            *oracle_sources(instances, root),
            *program_inputs("quality", specification),
        ),
        outputs=(QUALITY,),
        tools=("python", "numpy", "ml_dtypes", "iree-base-runtime", "tokenizers"),
    )
