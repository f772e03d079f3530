"""Plan every action of a model, stage by stage.

The plan is a value: to make it, `ingot` starts no process and reads no further files.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator
from dataclasses import replace
from pathlib import Path

from ingot.engine.actions import Action
from ingot.model.component import Components
from ingot.model.judge import quality_task, unmeasured
from ingot.model.limits import LimitsSection
from ingot.model.manifest import Manifest
from ingot.model.target import Target
from ingot.stages.bake import plan_bake
from ingot.stages.bench import plan_bench
from ingot.stages.bundle import plan_bundle
from ingot.stages.check import plan_check, plan_check_inputs
from ingot.stages.compile import plan_compile, plan_compile_pieces, plan_ir
from ingot.stages.fetch import plan_files
from ingot.stages.golden import plan_golden
from ingot.stages.link import plan_link, plan_link_blocks, plan_link_components
from ingot.stages.quality import plan_quality
from ingot.stages.specialize import plan_specialize
from ingot.stages.tokenizer_actions import plan_check_tokenizer, plan_tokenizer


def plan_model(
    manifest: Manifest,
    lowered: dict[str, Manifest],
    targets: Collection[Target],
    components: Components,
) -> Iterator[Action]:
    """Yield the model's actions, stage by stage.

    `lowered` contains the manifest with the kernels of each layout, by layout.
    """
    own = manifest.limits.over(LimitsSection())
    by_target = {item.resolved: manifest.limits.over(item.limits) for item in targets}
    for action in _plan_stages(manifest, lowered, targets, components):
        limits = by_target.get(action.task.partition("@")[2], own)
        yield replace(action, limits=limits)


def _plan_stages(
    manifest: Manifest,
    lowered: dict[str, Manifest],
    targets: Collection[Target],
    components: Components,
) -> Iterator[Action]:
    """Yield the model's actions without their limits."""
    is_splat = manifest.weights.source.splat is not None
    source = manifest.weights.source
    for file in (*source.files, *source.beside, manifest.tokenizer):
        if file:
            yield from plan_files(file)
    yield from plan_tokenizer(manifest)
    root, specialized = components.root, set[str]()
    for item in lowered.values():
        for instance in item.graph.instances:
            # Layouts share the instances without kernels.
            if instance.name not in specialized:
                specialized.add(instance.name)
                yield plan_specialize(instance, components.code(instance.component))
        yield plan_link(item.graph)
        if not is_splat:
            yield from plan_link_blocks(item.graph)
        yield plan_bake(item)
    # `doit ablate` reads the weights as f32, whatever type a target stores.
    yield plan_bake(manifest)
    if not is_splat:
        yield from plan_golden(manifest, root)
        yield from plan_check_tokenizer(manifest)
        yield from _plan_for_checks(lowered, targets, root)
    planned = set[str]()
    for target in targets:
        if target.layout.name not in lowered:
            continue
        if not is_splat:
            yield from _plan_quality(manifest, lowered, target, root, planned)
        yield from _plan_target(lowered[target.layout.name], target, components)


def _plan_target(
    manifest: Manifest, target: Target, components: Components
) -> Iterator[Action]:
    """Yield the actions that are a target's own."""
    compiled = tuple(plan_compile(manifest.graph, target))
    yield from compiled
    # A splat computes nothing meaningful and may not fit into memory: it is not run.
    if manifest.weights.source.splat is not None:
        return
    yield from plan_compile_pieces(manifest.graph, target)
    yield from plan_ir(manifest.graph, target)
    yield from plan_check(manifest, target, components.root)
    yield plan_bench(manifest, target)
    yield plan_bundle(manifest, target, compiled, components)


def _plan_quality(
    plain: Manifest,
    lowered: dict[str, Manifest],
    target: Target,
    root: Path,
    planned: set[str],
) -> Iterator[Action]:
    """Yield the measurement of trained weights, unless it is planned already."""
    if unmeasured(plain):
        return
    task = quality_task(plain, target)
    if task not in planned:
        planned.add(task)
        yield plan_quality(lowered[target.layout.name], plain, target, root)


def _plan_for_checks(
    lowered: dict[str, Manifest], targets: Collection[Target], root: Path
) -> Iterator[Action]:
    """Yield what the checks of several targets share."""
    runners = [(x.layout.name, x.runner) for x in targets if x.layout.name in lowered]
    for layout, is_slow in dict.fromkeys((name, x.is_slow) for name, x in runners):
        yield from plan_link_components(lowered[layout].graph, is_slow)
    for layout, emulated in dict.fromkeys((name, x.emulated) for name, x in runners):
        yield plan_check_inputs(lowered[layout], emulated, root)
