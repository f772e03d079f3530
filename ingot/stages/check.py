"""Plan the check of a model on one target, piece by piece.

An action of its own compares each piece. After an edit, only the pieces that it changes
are compared again, and an interrupted check continues with the remaining pieces.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator
from dataclasses import replace
from pathlib import Path

from ingot.checks.levels import golden_entry
from ingot.checks.oracle_runs import block_file, chain_file, component_file
from ingot.checks.tolerances import tolerances
from ingot.emit.modules import (
    ALL,
    BlockForm,
    ComponentGroup,
    block_forms,
    block_modules,
    component_groups,
    instances_of,
)
from ingot.engine.actions import Action, InlineText, Output, Source, SourceFile
from ingot.model.graph import EntryPoint, Graph, Instance, parameters_of
from ingot.model.judge import (
    golden_task,
    is_measured,
    judge_name,
    judging_packages,
    oracle_is_judged,
    oracle_task,
    quality_task,
    rounded_types,
    source_is_quantised,
    unmeasured,
)
from ingot.model.manifest import Manifest
from ingot.model.target import Target
from ingot.programs.check.spec import CheckSpec
from ingot.programs.check_inputs.spec import CheckInputsSpec
from ingot.programs.compare_entry_point.spec import ROWS, CompareEntryPointSpec
from ingot.programs.compare_piece.spec import ComparePieceSpec, Comparison
from ingot.programs.golden.spec import GOLDEN
from ingot.programs.quality.spec import QUALITY
from ingot.runtime.decoder import DECODE
from ingot.stages.program import oracle_sources, program_argv, program_inputs

ENV = (
    # An action cannot write to the folder where the driver caches its shaders, and
    # without a cache each call compiles all of them again, which takes 10 s or more.
    ("MESA_SHADER_CACHE_DIR", "shaders"),
    # Each processor runs calls of its own. Sums that are split over threads would also
    # make the oracle depend on the number of threads.
    ("OPENBLAS_NUM_THREADS", "1"),
)

TOOLS = ("python", "numpy", "ml_dtypes", "iree-base-runtime")

ENTRY_POINT_LEVELS = ("model", "golden", "tokens")
"""The levels that entry points are compared at."""

OUTPUTS = ("check.json", "check.txt")


def plan_check_inputs(manifest: Manifest, emulated: bool, root: Path) -> Action:
    """Return the action that records what the oracle computes, for all pieces."""
    graph = manifest.graph
    forms = block_forms(graph)
    specification = CheckInputsSpec(
        task=f"check inputs of {graph.model}@{graph.layout}",
        emulated=emulated,
        forms=tuple((form.name, form.blocks) for form in forms),
    )
    return Action(
        task=_inputs_task(graph, emulated),
        argv=program_argv("check_inputs"),
        inputs=(
            ("graph.json", InlineText(graph.json)),
            ("model.irpa", _archive(graph)),
            *oracle_sources(graph.instances, root),
            *program_inputs("check_inputs", specification),
        ),
        outputs=(
            *(component_file(instance.name) for instance in graph.instances),
            *(block_file(form.name) for form in forms),
            *(chain_file(entry.name) for entry in graph.entry_points),
        ),
        tools=TOOLS,
        env=ENV,
    )


def plan_check(manifest: Manifest, target: Target, root: Path) -> Iterator[Action]:
    """Yield the actions that compare each piece, and the one that reports them all.

    An action that compares succeeds whatever it finds, so that the report has the rows
    of all pieces; the last action fails if any row failed.
    """
    graph = manifest.graph
    forms = block_forms(graph)
    groups = component_groups(graph, target.runner.is_slow)
    # The longest come first, so that every processor has work until the end.
    pieces = [
        *(_entry_point(manifest, target, root, entry) for entry in graph.entry_points),
        *_blocks(manifest, target, root, forms),
        *(_component(manifest, target, root, group) for group in groups),
    ]
    yield from pieces
    name = f"{manifest.model}@{target.resolved}"
    tasks = [piece.task for piece in pieces]
    if oracle_is_judged(manifest):
        tasks.append(oracle_task(manifest))
    if manifest.tokenizer:
        tasks.append(f"check-tokenizer:{manifest.model}")
    files = {f"{number}.json": task for number, task in enumerate(tasks)}
    quality: tuple[tuple[str, Source], ...] = ()
    if is_measured(manifest):
        quality = ((QUALITY, Output(quality_task(manifest, target), QUALITY)),)
    specification = CheckSpec(
        task=f"check {name}",
        model=manifest.model,
        target=target.resolved,
        device=target.runner.device,
        emulated=target.runner.emulated,
        judge=judge_name(manifest),
        has_tokenizer=manifest.tokenizer is not None,
        is_rounded=bool(rounded_types(manifest)),
        is_quantised=source_is_quantised(manifest),
        unmeasured=unmeasured(manifest),
        gates=manifest.quality,
        pieces=tuple(files),
    )
    shown = f"build/{manifest.model}/{target.resolved}"
    yield Action(
        task=f"check:{name}",
        argv=program_argv("check"),
        inputs=(
            ("graph.json", InlineText(graph.json)),
            *((path, Output(task, ROWS)) for path, task in files.items()),
            *quality,
            *program_inputs("check", specification),
        ),
        outputs=OUTPUTS,
        tools=("python", "numpy"),
        exported_to=tuple(f"{shown}/{output}" for output in OUTPUTS),
    )


def _component(
    manifest: Manifest, target: Target, root: Path, group: ComponentGroup
) -> Action:
    part = manifest.graph.once(_component_part, group.name, target.runner.is_slow)
    files = tuple(component_file(instance.name) for instance in group.instances)
    name = f"component-{group.name}"
    compared = Comparison(
        level="component",
        inputs=files,
        modules={"": f"{name}.vmfb"},
        tolerance=tolerances(manifest, target)["component"],
    )
    return _piece(manifest, target, root, name, part, (compared,))


def _blocks(
    manifest: Manifest, target: Target, root: Path, forms: Iterable[BlockForm]
) -> Iterator[Action]:
    """Yield the actions that compare blocks, each alone and all in chains.

    One action compares all blocks of a small model. If loading a module takes long, one
    compares all blocks of an entry point, so that it loads their modules once.
    """
    graph, allowed = manifest.graph, tolerances(manifest, target)
    modules = {
        block: f"block-{module.name}.vmfb"
        for module in block_modules(graph)
        for block in module.blocks
    }
    alone = {
        form: Comparison(
            level="block",
            inputs=(block_file(form.name),),
            modules={"": modules[form.blocks[0]]},
            tolerance=allowed["block"],
        )
        for form in forms
    }
    chains = {
        entry: Comparison(
            level="propagated",
            inputs=(chain_file(entry.name),),
            modules={x.name: modules[entry.name, x.name] for x in entry.blocks},
            tolerance=allowed["propagated"],
        )
        for entry in graph.entry_points
    }
    if graph.is_small:
        part, compared = graph.once(_blocks_part), (*chains.values(), *alone.values())
        yield _piece(manifest, target, root, f"blocks-{ALL}", part, compared)
        return
    for entry, chain in chains.items():
        if target.runner.compiles_at_load:
            names = {(entry.name, block.name) for block in entry.blocks}
            own = (x for form, x in alone.items() if names & set(form.blocks))
            part, name = graph.once(_entry_part, entry), f"blocks-{entry.name}"
            yield _piece(manifest, target, root, name, part, (chain, *own))
        else:
            part, name = graph.once(_chain_part, entry), f"chain-{entry.name}"
            yield _piece(manifest, target, root, name, part, (chain,))
    if not target.runner.compiles_at_load:
        for form, comparison in alone.items():
            part, name = graph.once(_block_part, form), f"block-{form.name}"
            yield _piece(manifest, target, root, name, part, (comparison,))


# All targets of a layout share the parts, and the JSON text that each keeps.
def _component_part(graph: Graph, group: str, is_slow: bool) -> Graph:
    groups = component_groups(graph, is_slow)
    instances = next(item.instances for item in groups if item.name == group)
    names = {instance.name for instance in instances}
    calls = [
        use
        for entry in graph.entry_points
        for block in entry.blocks
        for use in block.calls
        if use.instance in names
    ]
    part = _part(graph, instances, parameters_of(calls))
    return replace(part, entry_points=())


def _block_part(graph: Graph, form: BlockForm) -> Graph:
    members = set(form.blocks)
    entries = []
    for entry in graph.entry_points:
        blocks = tuple(x for x in entry.blocks if (entry.name, x.name) in members)
        entries.append(replace(entry, inputs=(), outputs=(), blocks=blocks))
    called = [block for entry in entries for block in entry.blocks]
    parameters = {name for block in called for name in block.parameters}
    part = _part(graph, instances_of(graph, called), parameters)
    return replace(part, entry_points=tuple(x for x in entries if x.blocks))


def _blocks_part(graph: Graph) -> Graph:
    return _part(graph, graph.instances, {item.name for item in graph.parameters})


def _entry_part(graph: Graph, entry: EntryPoint) -> Graph:
    parameters = {name for block in entry.blocks for name in block.parameters}
    part = _part(graph, instances_of(graph, entry.blocks), parameters)
    return replace(part, entry_points=(entry,))


def _chain_part(graph: Graph, entry: EntryPoint) -> Graph:
    return replace(_part(graph, (), ()), entry_points=(entry,))


def _part(
    graph: Graph, instances: Iterable[Instance], parameters: Collection[str]
) -> Graph:
    """Return the part of the graph that a piece needs."""
    read = tuple(item for item in graph.parameters if item.name in parameters)
    return replace(
        graph, model="", dynamic=(), instances=tuple(instances), parameters=read
    )


def _piece(
    manifest: Manifest,
    target: Target,
    root: Path,
    name: str,
    part: Graph,
    comparisons: tuple[Comparison, ...],
) -> Action:
    """Return the action that compares a piece and writes its rows."""
    graph, pair = manifest.graph, f"{manifest.model}@{target.resolved}"
    recorded = _inputs_task(graph, target.runner.emulated)
    modules = [path for item in comparisons for path in item.modules.values()]
    specification = ComparePieceSpec(
        task=f"check {pair}",
        comparisons=comparisons,
        runner=target.runner,
        scope="model",
    )
    inputs: dict[str, Source] = {
        "graph.json": InlineText(part.json),
        **{
            path: Output(f"compile-{path.removesuffix('.vmfb')}:{pair}", "piece.vmfb")
            for path in modules
        },
        **{
            path: Output(recorded, path) for item in comparisons for path in item.inputs
        },
        **dict(oracle_sources(part.instances, root)),
    }
    if part.parameters or comparisons[0].level != "component":
        inputs["model.irpa"] = _archive(graph)
    return Action(
        task=f"check-{name}:{pair}",
        argv=program_argv("compare_piece"),
        inputs=(*inputs.items(), *program_inputs("compare_piece", specification)),
        outputs=(ROWS,),
        tools=_tools(target),
        env=ENV,
    )


def _entry_point(
    manifest: Manifest, target: Target, root: Path, entry: EntryPoint
) -> Action:
    """Return the action that compares an entry point and writes its rows.

    The action of the golden file also writes `golden.json`: a few sentences or prompts
    that the model computed correctly.
    """
    graph, pair = manifest.graph, f"{manifest.model}@{target.resolved}"
    inputs: dict[str, Source] = {
        "graph.json": InlineText(graph.json),
        "model.vmfb": Output(f"compile:{pair}", "model.vmfb"),
        "model.irpa": _archive(graph),
        **dict(oracle_sources(graph.instances, root)),
    }
    is_golden = entry == golden_entry(graph.entry_points)
    judged = _golden(manifest)
    if judged and (is_golden or entry.name == DECODE):
        inputs["golden.npz"] = judged
    if manifest.tokenizer and is_golden:
        inputs["tokenizer.json"] = manifest.tokenizer.source
    tokenizer = "tokenizer.json" if "tokenizer.json" in inputs else None
    specification = CompareEntryPointSpec(
        task=f"check {pair}",
        entry_point=entry.name,
        runner=target.runner,
        scope="model",
        tolerances={
            level: tolerance
            for level, tolerance in tolerances(manifest, target).items()
            if level in ENTRY_POINT_LEVELS
        },
        golden="golden.npz" if "golden.npz" in inputs else None,
        tokenizer=tokenizer,
        n_vocab=dict(manifest.dims).get("n_vocab"),
    )
    shown = f"build/{manifest.model}/{target.resolved}"
    golden = ("golden.json",) if is_golden else ()
    program = program_inputs("compare_entry_point", specification)
    return Action(
        task=f"check-entry-point-{entry.name}:{pair}",
        argv=program_argv("compare_entry_point"),
        inputs=(*inputs.items(), *program),
        outputs=(*golden, ROWS),
        tools=(*_tools(target), *(("tokenizers",) if tokenizer else ())),
        env=ENV,
        exported_to=tuple(f"{shown}/{path}" for path in golden),
    )


def _golden(manifest: Manifest) -> Source | None:
    """Return the golden file of the manifest, or the output of its judge.

    The judge does not round weights: where targets do, it judges the oracle of the
    plain graph instead.
    """
    if manifest.golden:
        return SourceFile(manifest.golden)
    if judging_packages(manifest) and not oracle_is_judged(manifest):
        return Output(golden_task(manifest), GOLDEN)
    return None


def _inputs_task(graph: Graph, emulated: bool) -> str:
    """Return the task that records inputs; an emulated target gets fewer."""
    stage = "check-inputs-emulated" if emulated else "check-inputs"
    return f"{stage}:{graph.model}@{graph.layout}"


def _archive(graph: Graph) -> Output:
    return Output(f"bake:{graph.model}@{graph.layout}", "model.irpa")


def _tools(target: Target) -> tuple[str, ...]:
    return tuple(dict.fromkeys((*TOOLS, *target.tools)))
