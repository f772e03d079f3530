"""Plan the golden outputs of a checkpoint, where transformers is installed.

The judge is independent: transformers reads the checkpoint's own config.json, or the
metadata of a GGUF file, while oracles and targets share what the manifest says.
"""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path, PurePosixPath

from ingot.engine.actions import Action, InlineText, Output
from ingot.engine.machine import machine
from ingot.model.judge import (
    PACKAGES,
    golden_task,
    judging_packages,
    oracle_is_judged,
    oracle_task,
    wheels,
)
from ingot.model.manifest import Manifest
from ingot.programs.golden.spec import GOLDEN, GoldenSpec
from ingot.programs.judge.spec import ROWS, JudgeSpec
from ingot.stages.program import oracle_sources, program_argv, program_inputs

N_IDS = 1024
"""How many logits of a prompt a golden file has."""


def plan_golden(manifest: Manifest, root: Path) -> Iterator[Action]:
    """Yield the actions that compute golden outputs and judge the oracle with them.

    `manifest` has the plain graph, whose weights are f32. There are no actions without
    the packages, and none for a model with a golden file.
    """
    packages = judging_packages(manifest)
    if not packages:
        return
    source = manifest.weights.source
    versions = wheels(packages)
    gguf = [
        PurePosixPath(x.path).name for x in source.files if x.path.endswith(".gguf")
    ]
    specification = GoldenSpec(
        task=f"golden {manifest.model}",
        model=manifest.model,
        folder="weights",
        gguf=gguf[0] if gguf else None,
        n_ctx=dict(manifest.dims)["n_ctx"],
        n_ids=N_IDS,
        packages=tuple((name, dict(versions)[name]) for name in PACKAGES),
    )
    config = (("weights/config.json", source.config),) if source.config else ()
    yield Action(
        task=golden_task(manifest),
        argv=program_argv("golden"),
        inputs=(
            *((file.path, file.source) for file in source.files),
            *source.index,
            *config,
            *program_inputs("golden", specification),
        ),
        outputs=(GOLDEN,),
        tools=("python", *(name for name, _ in versions)),
        env=(
            ("HF_HUB_OFFLINE", "1"),
            ("OMP_NUM_THREADS", "1"),
            ("OPENBLAS_NUM_THREADS", "1"),
            ("TOKENIZERS_PARALLELISM", "false"),
        ),
        # Sums in float32 depend on the processor's vectors.
        platform=machine(),
        exported_to=(f"build/{manifest.model}/{GOLDEN}",),
    )
    if not oracle_is_judged(manifest):
        return
    graph = manifest.graph
    judged = JudgeSpec(task=f"judge {manifest.model}")
    yield Action(
        task=oracle_task(manifest),
        argv=program_argv("judge"),
        inputs=(
            ("graph.json", InlineText(graph.json)),
            ("model.irpa", Output(f"bake:{graph.model}@{graph.layout}", "model.irpa")),
            ("golden.npz", Output(golden_task(manifest), GOLDEN)),
            *oracle_sources(graph.instances, root),
            *program_inputs("judge", judged),
        ),
        outputs=(ROWS,),
        tools=("python", "numpy", "ml_dtypes", "iree-base-runtime"),
        env=(("OPENBLAS_NUM_THREADS", "1"),),
    )
