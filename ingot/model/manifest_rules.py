"""Find where a manifest contradicts itself, its architecture or its graph.

The reader has checked the form of both and left out the wrong parts, so that the rules
can check the rest.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator, Mapping
from fnmatch import fnmatchcase
from pathlib import Path
from urllib.parse import urlsplit

from ingot.errors import ManifestError, did_you_mean
from ingot.model.architecture_schema import ArchitectureSection, ParameterSection
from ingot.model.graph import DynamicDim, EntryPoint, Graph
from ingot.model.licence import licence_errors, text_errors
from ingot.model.manifest_schema import (
    GenerationSection,
    ManifestFile,
    ToleranceSection,
)
from ingot.model.source_sections import (
    FileSection,
    NpmSection,
    PackageSection,
    PartsSection,
    SourceSection,
    UrlSection,
)
from ingot.model.variants import block_name, expand_variants
from ingot.weights.parameter_spec import container

# Of a model: files in the tar of its bundle have 100 characters, the target's too.
LONGEST_NAME = 64


def check_manifest(file: ManifestFile, stem: str) -> Iterator[ManifestError]:
    """Yield where a manifest contradicts its file's name or itself."""
    if file.model and file.model != stem:
        message = f"expected '{stem}', as the file is named"
        yield file.at.error("model", f"{message}, found '{file.model}'")
    elif file.model == "all":
        message = "'model=all' means every model; give it another name"
        yield file.at.error("model", message)
    elif len(file.model) > LONGEST_NAME:
        message = f"expected at most {LONGEST_NAME} characters"
        yield file.at.error("model", f"{message}, found {len(file.model)}")
    if file.licence:
        for error in licence_errors(file.licence):
            yield file.at.error("licence", error.message, error.hint)
    weights = file.weights
    kind = _format(weights.source)
    if kind in ("gguf", "irpa") and weights.naming == "hf":
        message = f"a {kind} file has the names that the parameters have"
        yield weights.at.error("naming", f"{message}; expected 'gguf', found 'hf'")
    if weights.expert_axis and weights.naming == "hf":
        message = "the architecture says how Hugging Face checkpoints hold experts"
        hint = "leave it out, or write 'naming: gguf'"
        yield weights.at.error("expert_axis", message, hint)
    yield from _check_dims(file)
    yield from _check_tolerances(file.check.tolerances)
    yield from _check_generation(file.generation, file.dims.get("n_vocab"))


def _check_generation(
    given: GenerationSection, n_vocab: int | None
) -> Iterator[ManifestError]:
    """Yield what no decoder can do."""
    ids = {f"end_tokens[{index}]": x for index, x in enumerate(given.end_tokens)}
    if given.bos is not None:
        ids["bos"] = given.bos
    for name, token in ids.items():
        if n_vocab is not None and token >= n_vocab:
            message = f"expected an id below n_vocab = {n_vocab}, found {token}"
            yield given.at.error(name, message)
    if given.temperature is not None and given.temperature < 0:
        message = f"expected a number, 0 or more, found {given.temperature:g}"
        yield given.at.error("temperature", message)
    if given.top_p is not None and not 0 < given.top_p <= 1:
        message = f"expected a number above 0 and at most 1, found {given.top_p:g}"
        yield given.at.error("top_p", message)


def _format(source: SourceSection | None) -> str:
    """Return the format of a source's file, by its ending; "" if it has none."""
    match source:
        case UrlSection(url=name) | PartsSection(name=name):
            return container(Path(urlsplit(name).path))
        case PackageSection(path=name) | NpmSection(path=name):
            return container(Path(name))
        case FileSection(kind=kind):
            return kind
    return ""


def _check_dims(file: ManifestFile) -> Iterator[ManifestError]:
    """Yield where a manifest's dims and their ranges contradict each other."""
    yield from _check_ranges(file)
    yield from _check_blocks(file)
    dims = file.dims
    if {"n_expert", "n_expert_used"} <= dims.keys():
        used, most = dims["n_expert_used"], dims["n_expert"]
        if used > most:
            message = f"more than there are; expected at most n_expert = {most}"
            yield file.at.error("dims.n_expert_used", f"{message}, found {used}")
    if {"n_head", "n_head_kv"} <= dims.keys() and dims["n_head"] % dims["n_head_kv"]:
        message = f"expected a multiple of n_head_kv = {dims['n_head_kv']}"
        yield file.at.error("dims.n_head", f"{message}, found {dims['n_head']}")


def _check_ranges(file: ManifestFile) -> Iterator[ManifestError]:
    ranges, context = file.dynamic, file.dims.get("n_ctx")
    for name, given in ranges.items():
        if given.min > given.max:
            yield given.at.error(
                "", f"expected min <= max, found {given.min} > {given.max}"
            )
        if name in ("seq", "ctx") and context and given.max > context:
            message = f"longer than the context, n_ctx = {context}"
            yield given.at.error("max", f"{message}, found {given.max}")
    if "ctx" in ranges and "seq" in ranges:
        cache, longest = ranges["ctx"], ranges["seq"].max
        if cache.max < longest:
            message = "no cache holds the longest sequence"
            found = f"expected at least {longest}, found {cache.max}"
            yield cache.at.error("max", f"{message}; {found}")


def _check_blocks(file: ManifestFile) -> Iterator[ManifestError]:
    """Yield where a pool of blocks, or a table of them, does not fit a sequence."""
    pool, table = file.dynamic.get("n_block"), file.dynamic.get("n_block_seq")
    if table is None:
        return
    size, context = file.dims.get("block_size"), file.dims.get("n_ctx")
    if size and context and (held := table.max * size) > context:
        message = f"longer than the context, n_ctx = {context}"
        yield table.at.error("max", f"{message}, found blocks for {held}")
    if pool is None:
        return
    # Block 0 is nobody's.
    longest, shortest = 1 + table.max, 1 + table.min
    if pool.max < longest:
        message = f"no pool holds the longest sequence; expected at least {longest}"
        yield pool.at.error("max", f"{message}, found {pool.max}")
    if pool.min > shortest:
        message = f"a short sequence has no pool; expected at most {shortest}"
        yield pool.at.error("min", f"{message}, found {pool.min}")


def check_files(
    file: ManifestFile, golden: Path | None, root: Path | None
) -> Iterator[ManifestError]:
    """Yield each file that is missing: golden outputs, and the texts of the licence.

    `root` has the texts that a bundle ships; None where there is no bundle.
    """
    if golden and not golden.is_file():
        message = f"no file '{file.check.golden}' in the manifest's folder"
        yield file.check.at.error("golden", message)
    if root and file.licence and not any(licence_errors(file.licence)):
        for error in text_errors(file.licence, root):
            yield file.at.error("licence", error.message, error.hint)


def _check_tolerances(
    tolerances: Mapping[str, ToleranceSection],
) -> Iterator[ManifestError]:
    """Yield where a tolerance does not say one largest difference."""
    for item in tolerances.values():
        given = [item.max_abs_error, item.max_range_error]
        count = sum(limit is not None for limit in given)
        if count != 1:
            message = "expected one of max_abs_error and max_range_error"
            yield item.at.error("", f"{message}, found {count}")


def check_names(
    file: ManifestFile,
    architecture: ArchitectureSection,
    errors: Collection[ManifestError],
) -> Iterator[ManifestError]:
    """Yield where a manifest does not suit its architecture.

    `errors` has what is wrong in the manifest's form.
    """
    found, expected = architecture.architecture, file.architecture
    if found != expected:
        message = f"expected '{expected}', as the file is named, found '{found}'"
        yield architecture.at.error("architecture", message)
    yield from _compare(file, architecture, "dims", "dim")
    yield from _compare(file, architecture, "dynamic", "dynamic dim")
    written = file.at.names("") or ()
    if "hyperparameters" in written or not _may_be_typo(written, errors):
        yield from _compare(file, architecture, "hyperparameters", "hyperparameter")
    for index, name in enumerate(architecture.dynamic):
        if name in architecture.dims:
            message = f"'{name}' is among 'dims' too"
            yield architecture.at.error(f"dynamic[{index}]", message)
    if file.weights.naming == "hf":
        for name, item in architecture.parameters.items():
            if not item.hf and not item.rope_base:
                message = f"parameter '{name}' has no name in Hugging Face checkpoints"
                hint = f"give it 'hf' at {item.at.position()}"
                yield file.weights.at.error("naming", message, hint)
    yield from _check_rope(file, architecture)
    yield from _check_layers(file, architecture)
    yield from _check_ties(file, architecture)
    yield from _check_tolerances(architecture.tolerances)


def _may_be_typo(written: Iterable[str], errors: Iterable[ManifestError]) -> bool:
    """Return whether a key of the manifest may be meant for one that is missing."""
    return any(
        error.message == "unknown key" and error.key in written for error in errors
    )


def _compare(
    file: ManifestFile, architecture: ArchitectureSection, key: str, noun: str
) -> Iterator[ManifestError]:
    """Yield each name that only one of manifest and architecture has under a key."""
    given = file.at.names(key)
    is_written = key in (file.at.names("") or ())
    if given is None and (is_written or key != "hyperparameters"):
        # It is no mapping, or a key is missing that is never left out.
        return
    names: tuple[str, ...] = getattr(architecture, key)
    for name in given or ():
        if name not in names:
            hint = did_you_mean(name, names, f"{noun}s")
            message = f"architecture '{file.architecture}' has no such {noun}"
            yield file.at.key_error(key, name, message, hint)
    for index, name in enumerate(names):
        if name not in (given or ()):
            message = f"missing {noun} '{name}'"
            place = architecture.at.position(f"{key}[{index}]")
            hint = f"architecture '{file.architecture}' needs it: {place}"
            yield file.at.error(key if is_written else "", message, hint)


def _check_rope(
    file: ManifestFile, architecture: ArchitectureSection
) -> Iterator[ManifestError]:
    """Yield odd widths, which rope cannot rotate, and numbers that would give NaN.

    Bases are raised to fractional powers; an `*_eps` keeps the arguments of roots and
    divisions above 0.
    """
    tables = {k: v for k, v in architecture.parameters.items() if v.rope_base}
    for name, item in tables.items():
        width = file.dims.get(item.dims[-1], 0)
        if width % 2:
            message = f"rope rotates the columns of '{name}' in pairs"
            found = f"expected an even number, found {width}"
            yield file.at.error(f"dims.{item.dims[-1]}", f"{message}; {found}")
    bases = {item.rope_base for item in tables.values()}
    for name, number in file.hyperparameters.items():
        part = f"hyperparameters.{name}"
        if name in bases and number <= 0:
            yield file.at.error(part, f"expected a base above 0, found {number}")
        elif name.endswith("_eps") and number < 0:
            yield file.at.error(part, f"expected 0 or more, found {number}")


def _check_layers(
    file: ManifestFile, architecture: ArchitectureSection
) -> Iterator[ManifestError]:
    """Yield blocks that are no layers of the architecture, and tables that are none."""
    kinds = {
        block_name(name)
        for entry_point in architecture.entry_points.values()
        for step in entry_point.steps
        if step.repeat
        for name in step.blocks.values()
    }
    blocks = expand_variants(architecture.blocks)
    known = [name for name in blocks if block_name(name) in kinds]
    for index, name in enumerate(file.layers):
        if name not in known:
            hint = did_you_mean(name, known, "layers")
            message = f"architecture '{file.architecture}' has no layer '{name}'"
            yield file.at.error(f"layers[{index}]", message, hint)
    if len(file.layers) > file.dims.get("n_layer", len(file.layers)):
        message = f"more than n_layer = {file.dims['n_layer']}"
        yield file.at.error("layers", f"{message}, found {len(file.layers)}")
    tables = [k for k, v in architecture.parameters.items() if v.rope_base]
    for name in file.rope_scaling:
        if name not in tables:
            hint = did_you_mean(name, tables, "tables of rope angles")
            message = f"architecture '{file.architecture}' has no such table"
            yield file.at.key_error("rope_scaling", name, message, hint)


def tied(file: ManifestFile, architecture: ArchitectureSection) -> dict[str, str]:
    """Return the tied parameters of a model, and the parameter that replaces each."""
    return {
        name: item.tied_to
        for name, item in architecture.parameters.items()
        if name in file.weights.tied and item.tied_to
    }


def _check_ties(
    file: ManifestFile, architecture: ArchitectureSection
) -> Iterator[ManifestError]:
    """Yield parameters that cannot be tied to another one."""
    free = [name for name, item in architecture.parameters.items() if item.tied_to]
    for index, name in enumerate(file.weights.tied):
        if name not in free:
            hint = did_you_mean(name, free, "parameters that can be tied")
            message = f"'{name}' cannot be tied"
            yield file.weights.at.error(f"tied[{index}]", message, hint)
    for name in free:
        yield from _check_tie(architecture.parameters[name], architecture.parameters)


def _check_tie(
    item: ParameterSection, parameters: Mapping[str, ParameterSection]
) -> Iterator[ManifestError]:
    """Yield why a parameter cannot replace the one that is tied to it."""
    if item.tied_to not in parameters:
        hint = did_you_mean(item.tied_to, list(parameters), "parameters")
        message = f"no parameter named '{item.tied_to}'"
        yield item.at.error("tied_to", message, hint)
        return
    other = parameters[item.tied_to]
    if other.tied_to:
        message = f"'{item.tied_to}' may be tied itself"
        hint = f"see {other.at.position('tied_to')}"
        yield item.at.error("tied_to", message, hint)
    if item.dims != other.dims:
        wanted, found = ", ".join(item.dims), ", ".join(other.dims)
        message = f"'{item.tied_to}' has another shape"
        message = f"{message}; expected [{wanted}], found [{found}]"
        yield item.at.error("tied_to", message)


def check_graph(
    file: ManifestFile,
    architecture: ArchitectureSection,
    graph: Graph,
    errors: list[ManifestError],
) -> Iterator[ManifestError]:
    """Yield where the weights and the benchmark do not suit the graph.

    `errors` has every mistake reported so far: rules skip the parts that are wrong.
    """
    if set(architecture.dims) <= file.dims.keys():
        yield from _check_policies(file, graph)
    points = {entry.name: entry for entry in graph.entry_points}
    ranges = {
        dim.name: dim
        for dim in graph.dynamic
        if not _has_error_below(f"dynamic.{dim.name}", errors)
    }
    for name, cases in file.bench.items():
        if name not in points:
            hint = did_you_mean(name, list(points), "entry points")
            message = f"no entry point named '{name}'"
            yield file.at.key_error("bench", name, message, hint)
            continue
        for index, case in enumerate(cases):
            part = f"bench.{name}[{index}]"
            yield from _check_case(file, part, case, points[name], ranges)


def _has_error_below(key: str, errors: Iterable[ManifestError]) -> bool:
    """Return whether one of the errors is at the key or below it."""
    return any(f"{error.key}.".startswith(f"{key}.") for error in errors)


def _check_policies(file: ManifestFile, graph: Graph) -> Iterator[ManifestError]:
    """Yield the first parameter without a policy, and policies without parameters."""
    weights = file.weights
    if not weights.policy:
        return
    names = [parameter.name for parameter in graph.parameters]
    left = names  # those that no policy above speaks of
    for item in weights.policy:
        others = [name for name in left if not fnmatchcase(name, item.match)]
        if not any(fnmatchcase(name, item.match) for name in names):
            yield item.at.error("match", f"no parameter matches '{item.match}'")
        elif others == left:
            message = f"the policies above match all that '{item.match}' matches"
            hint = "the first policy that matches a parameter applies"
            yield item.at.error("match", message, hint)
        left = others
    if left:
        message = f"no policy for parameter '{left[0]}'"
        yield weights.at.error("policy", message, 'add one with match: "*"')


def _check_case(
    file: ManifestFile,
    part: str,
    case: Mapping[str, int],
    entry: EntryPoint,
    ranges: Mapping[str, DynamicDim],
) -> Iterator[ManifestError]:
    """Yield where a case does not give each dynamic dim a size in its range."""
    wanted = dict.fromkeys(
        dim for port in entry.inputs for dim in port.type.shape if isinstance(dim, str)
    )
    for name, size in case.items():
        if name not in wanted:
            hint = did_you_mean(name, list(wanted), "dynamic dims")
            message = f"entry point '{entry.name}' has no such dynamic dim"
            yield file.at.key_error(part, name, message, hint)
        elif name in ranges and not ranges[name].min <= size <= ranges[name].max:
            message = f"expected {ranges[name].min} to {ranges[name].max}, found {size}"
            yield file.at.error(f"{part}.{name}", message)
    for name in wanted:
        if name not in case:
            yield file.at.error(part, f"missing dynamic dim '{name}'")
    if {"ctx", "seq"} <= case.keys() and case["ctx"] < case["seq"]:
        message = f"the cache holds no sequence of {case['seq']}"
        found = f"expected at least that, found {case['ctx']}"
        yield file.at.error(f"{part}.ctx", f"{message}; {found}")
