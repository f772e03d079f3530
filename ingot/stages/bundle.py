"""Plan the action that packs the bundle of a model for one target."""

from __future__ import annotations

from collections.abc import Sequence

from ingot.bundles.contract import CHAT_TEMPLATE, TOKENIZER, declaration
from ingot.checks.levels import golden_entry
from ingot.engine.actions import Action, InlineText, Output, Source, SourceFile
from ingot.model.component import Components
from ingot.model.library import find
from ingot.model.licence import FOLDER as LICENCES
from ingot.model.licence import licences
from ingot.model.manifest import Manifest
from ingot.model.target import Target
from ingot.programs.bundle.spec import FOLDER, WRITTEN, BundleSpec
from ingot.stages.program import ROOT, program_argv, program_inputs

TOOLS = ("python", "numpy", "ml_dtypes", "iree-base-runtime", "iree-base-compiler")


# They are shipped as they are.
SCRIPTS = ("run.py", "run_text.py")


def plan_bundle(
    manifest: Manifest,
    target: Target,
    compiled: Sequence[Action],
    components: Components,
) -> Action:
    """Return the action that packs the folder and the file of times.

    `compiled` are the actions that compile `model.vmfb`; `bundle.json` records their
    commands.
    """
    model, name = manifest.model, target.resolved
    bundle = f"{model}-{name}"
    sources = _sources(manifest, target, components)
    commands = [action.argv for action in compiled]
    specification = BundleSpec(
        task=f"bundle {model}@{name}",
        bundle=bundle,
        files=_files(manifest),
        sources=tuple(sources),
        weights_origin=manifest.weights.source.origin,
        contract=declaration(manifest, target, commands),
    )
    outputs = (
        *(f"{FOLDER}/{file}" for file in _files(manifest)),
        f"{bundle}.bench.json",
    )
    return Action(
        task=f"bundle:{model}@{name}",
        argv=program_argv("bundle"),
        inputs=(
            *_parts(manifest, target),
            *((f"sources/{path}", source) for path, source in sources.items()),
            *program_inputs("bundle", specification),
        ),
        outputs=outputs,
        tools=TOOLS,
        exported_to=tuple(f"build/{model}/{name}/{output}" for output in outputs),
    )


def _parts(manifest: Manifest, target: Target) -> tuple[tuple[str, Source], ...]:
    """Return the outputs of earlier stages and the files that are packed."""
    model, name, layout = manifest.model, target.resolved, target.layout.name
    golden = f"entry-point-{golden_entry(manifest.graph.entry_points).name}"
    parts: dict[str, Source] = {
        "linked.mlir": Output(f"link:{model}@{layout}", "linked.mlir"),
        "model.vmfb": Output(f"compile:{model}@{name}", "model.vmfb"),
        "model.irpa": Output(f"bake:{model}@{layout}", "model.irpa"),
        "bake.json": Output(f"bake:{model}@{layout}", "bake.json"),
        "check.json": Output(f"check:{model}@{name}", "check.json"),
        "golden.json": Output(f"check-{golden}:{model}@{name}", "golden.json"),
        "bench.json": Output(f"bench:{model}@{name}", "bench.json"),
    }
    if manifest.tokenizer:
        parts[TOKENIZER] = manifest.tokenizer.source
    for script in SCRIPTS:
        if script in _files(manifest):
            parts[script] = SourceFile(ROOT / "ingot/bundles/shipped" / script)
    if manifest.generation.chat_template:
        parts[CHAT_TEMPLATE] = InlineText(manifest.generation.chat_template)
    return tuple(parts.items())


def _files(manifest: Manifest) -> tuple[str, ...]:
    """Return the names of the files in the bundle."""
    names = [*WRITTEN, *SCRIPTS[:1], "check.json", "golden.json", "model.irpa"]
    names.append("model.vmfb")
    if manifest.tokenizer:
        names += [TOKENIZER, *SCRIPTS[1:]]
    if manifest.generation.chat_template:
        names.append(CHAT_TEMPLATE)
    return tuple(sorted(names))


def _sources(
    manifest: Manifest, target: Target, components: Components
) -> dict[str, Source]:
    """Return the sources whose digests `bundle.json` records, by path.

    A component's comments are no part of what was built.
    """
    used = sorted({item.component for item in manifest.graph.instances})
    code = {f"components/{x}.mlir": InlineText(components.code(x)) for x in used}
    paths = (
        manifest.path,
        *manifest.architecture_files,
        target.path,
        target.layout.path,
        *(name for name, _ in target.compile_inputs),
        *code,
        *(f"{LICENCES}/{name}.txt" for name in licences(manifest.licence)),
    )
    return {x: code.get(x) or SourceFile(find(components.root, x)) for x in paths}
