"""A manifest, its architecture and its graph in, where they contradict each other out.

The forms have been checked before.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping
from fnmatch import fnmatchcase

from ingot.errors import ManifestError, did_you_mean
from ingot.model.bind import entries
from ingot.model.dim_rules import check_dims
from ingot.model.graph import DynamicDim, EntryPoint, Graph
from ingot.model.licence import check_licence
from ingot.model.manifest_recovery import misspelt, touched
from ingot.model.yaml_nodes import Node

# Of a model: files in the tar of its bundle have 100 characters, the target's too.
LONGEST_NAME = 64


def check_own(parts: Node, stem: str) -> Iterator[ManifestError]:
    """Yield where readable parts of a manifest contradict its file or each other."""
    model = parts.get("model")
    if model and model.text != stem:
        message = f"expected '{stem}', as the file is named"
        yield model.error(f"{message}, found '{model.text}'")
    elif model and model.text == "all":
        yield model.error("'model=all' means every model; give it another name")
    elif model and len(model.text) > LONGEST_NAME:
        message = f"expected at most {LONGEST_NAME} characters"
        yield model.error(f"{message}, found {len(model.text)}")
    if licence := parts.get("licence"):
        yield from check_licence(licence)
    weights = parts["weights"]
    names, source = weights.get("names"), weights.get("source")
    kind = source["kind"].text if source else ""
    if names and kind in ("gguf", "irpa") and names.text != "gguf":
        message = f"kind: {kind} has the names that the parameters have"
        yield names.error(f"{message}; expected 'gguf', found '{names.text}'")
    experts = weights.get("experts")
    if experts and names and names.text == "hf":
        message = "the architecture says how Hugging Face checkpoints hold experts"
        yield experts.error(message, "leave it out, or write 'names: gguf'")
    yield from check_dims(parts)
    if check := parts.get("check"):
        yield from _check_tolerances(check)


def check_names(
    node: Node, parts: Node, architecture: Node, wrong: Collection[ManifestError]
) -> Iterator[ManifestError]:
    """Yield where a manifest does not suit its architecture.

    `parts` is what can be read of the manifest, `wrong` what cannot.
    """
    found, expected = architecture["architecture"], node["architecture"].text
    if found.text != expected:
        message = f"expected '{expected}', as the file is named"
        yield found.error(f"{message}, found '{found.text}'")
    for key, noun in (
        ("dims", "dim"),
        ("dynamic", "dynamic dim"),
        ("hyperparameters", "hyperparameter"),
    ):
        given = node.get(key)
        optional = key == "hyperparameters" and not misspelt(node, wrong)
        if isinstance(given.value, dict) if given else optional:
            yield from _compare(node, given, architecture.get(key), noun)
    static = {item.text for item in architecture["dims"].items}
    for item in architecture["dynamic"].items:
        if item.text in static:
            yield item.error(f"'{item.text}' is among 'dims' too")
    names = parts["weights"].get("names")
    if names and names.text == "hf":
        for name, parameter in architecture["parameters"].entries.items():
            if not {"hf", "rope_base"} & parameter.entries.keys():
                message = f"parameter '{name}' has no name in Hugging Face checkpoints"
                hint = f"give it 'hf' at {parameter.position}"
                yield names.error(message, hint)
    yield from _check_pairs(parts, architecture)
    yield from _check_numbers(parts, architecture)
    yield from _check_tolerances(architecture)


def tied(node: Node, architecture: Node, errors: list[ManifestError]) -> dict[str, str]:
    """Return the parameters that others serve for, as manifest and architecture say."""
    listed, found = node["weights"].get("tied"), {}
    parameters = architecture["parameters"].entries
    free = [name for name, item in parameters.items() if "tied_to" in item.entries]
    for item in listed.items if listed else ():
        if item.text not in free:
            hint = did_you_mean(item.text, free, "parameters that can be tied")
            message = f"'{item.text}' cannot be tied"
            errors.append(item.error(message, hint))
            continue
        found[item.text] = parameters[item.text]["tied_to"].text
    for name in free:
        errors.extend(_check_tie(parameters[name], parameters))
    return found


def _check_tie(
    parameter: Node, parameters: Mapping[str, Node]
) -> Iterator[ManifestError]:
    """Yield where the parameter that is to serve for another cannot."""
    target = parameter["tied_to"]
    if target.text not in parameters:
        hint = did_you_mean(target.text, list(parameters), "parameters")
        yield target.error(f"no parameter named '{target.text}'", hint)
        return
    other = parameters[target.text]
    if "tied_to" in other.entries:
        message = f"'{target.text}' may be tied itself"
        yield target.error(message, f"see {other['tied_to'].position}")
    wanted, found = (
        ", ".join(str(item.value) for item in node["shape"].items)
        for node in (parameter, other)
    )
    if wanted != found:
        message = f"'{target.text}' has another shape"
        yield target.error(f"{message}; expected [{wanted}], found [{found}]")


def end_tokens(node: Node, errors: list[ManifestError]) -> tuple[int, ...]:
    """Return the ids that end a text; one that the model has no row for is an error."""
    n_vocab, listed = node["dims"].get("n_vocab"), node.get("end_tokens")
    found = listed.items if listed else ()
    for item in found:
        if n_vocab and item.integer >= n_vocab.integer:
            message = f"expected an id below n_vocab = {n_vocab.integer}"
            errors.append(item.error(f"{message}, found {item.integer}"))
    return tuple(item.integer for item in found)


def check_graph(
    parts: Node, architecture: Node, graph: Graph, errors: Collection[ManifestError]
) -> Iterator[ManifestError]:
    """Yield where the weights and the benchmark do not suit the graph.

    `errors` has what was told of the manifest: on it nothing is built.
    """
    sized = {item.text for item in architecture["dims"].items}
    if sized <= parts["dims"].entries.keys():
        yield from _check_policies(parts["weights"], graph)
    points = {entry.name: entry for entry in graph.entry_points}
    ranges = {
        dim.name: dim
        for dim in graph.dynamic
        if not touched(f"dynamic.{dim.name}", errors)
    }
    for name, cases in entries(parts, "bench").items():
        if name not in points:
            hint = did_you_mean(name, list(points), "entry points")
            message = f"no entry point named '{name}'"
            yield parts["bench"].key_error(name, message, hint)
            continue
        for case in cases.items:
            yield from _check_case(case, points[name], ranges)


def _check_policies(weights: Node, graph: Graph) -> Iterator[ManifestError]:
    """Yield the first parameter without a policy, and policies without parameters."""
    names = [parameter.name for parameter in graph.parameters]
    listed = weights.get("policy")
    if listed is None:
        return
    left = names  # those that no policy above speaks of
    for item in listed.items:
        match = item["match"]
        others = [name for name in left if not fnmatchcase(name, match.text)]
        if not any(fnmatchcase(name, match.text) for name in names):
            yield match.error(f"no parameter matches '{match.text}'")
        elif others == left:
            message = f"policies above have all that '{match.text}' matches"
            yield match.error(message, "the first that matches holds")
        left = others
    if left:
        message = f"no policy for parameter '{left[0]}'"
        yield listed.error(message, 'add one with match: "*"')


def _compare(
    node: Node, given: Node | None, declared: Node | None, noun: str
) -> Iterator[ManifestError]:
    """Yield each name that only one of manifest and architecture has."""
    names = [item.text for item in declared.items] if declared else []
    for name in given.entries if given else ():
        if name not in names:
            assert given is not None
            hint = did_you_mean(name, names, f"{noun}s")
            message = f"architecture '{node['architecture'].text}' has no such {noun}"
            yield given.key_error(name, message, hint)
    for item in declared.items if declared else ():
        if given is None or item.text not in given.entries:
            message = f"missing {noun} '{item.text}'"
            hint = f"architecture '{node['architecture'].text}' needs it"
            yield (given or node).error(message, f"{hint}: {item.position}")


def _check_pairs(node: Node, architecture: Node) -> Iterator[ManifestError]:
    """Yield where the columns of heads cannot be turned in pairs."""
    dims = node["dims"].entries
    for name, parameter in architecture["parameters"].entries.items():
        shape = parameter["shape"].items if "rope_base" in parameter.entries else ()
        width = dims.get(str(shape[-1].value)) if shape else None
        if width and width.integer % 2:
            message = f"'{name}' turns columns in pairs; expected an even number"
            yield width.error(f"{message}, found {width.integer}")


def _check_numbers(node: Node, architecture: Node) -> Iterator[ManifestError]:
    """Yield where nothing can be computed with a hyperparameter: NaN would come of it.

    A base is taken to powers that are no whole numbers; what is named `*_eps` keeps
    roots and divisions from what is below 0.
    """
    parameters = architecture["parameters"].entries.values()
    bases = {
        item["rope_base"].text for item in parameters if "rope_base" in item.entries
    }
    for name, given in entries(node, "hyperparameters").items():
        if name in bases and given.number <= 0:
            yield given.error(f"expected a base above 0, found {given.value}")
        elif name.endswith("_eps") and given.number < 0:
            yield given.error(f"expected 0 or more, found {given.value}")


def _check_tolerances(holder: Node) -> Iterator[ManifestError]:
    """Yield where a tolerance does not say one largest difference."""
    for item in entries(holder, "tolerances").values():
        given = {"max_abs_error", "max_range_error"} & item.entries.keys()
        if len(given) != 1:
            message = "expected one of max_abs_error and max_range_error"
            yield item.error(f"{message}, found {len(given)}")


def _check_case(
    case: Node, entry: EntryPoint, ranges: Mapping[str, DynamicDim]
) -> Iterator[ManifestError]:
    """Yield where a case does not give each dynamic dim a size in its range."""
    wanted = dict.fromkeys(
        dim for port in entry.inputs for dim in port.type.shape if isinstance(dim, str)
    )
    for name, size in case.entries.items():
        if name not in wanted:
            hint = did_you_mean(name, list(wanted), "dynamic dims")
            message = f"entry point '{entry.name}' has no such dynamic dim"
            yield case.key_error(name, message, hint)
        elif (
            name in ranges and not ranges[name].min <= size.integer <= ranges[name].max
        ):
            message = f"expected {ranges[name].min} to {ranges[name].max}"
            yield size.error(f"{message}, found {size.integer}")
    for name in wanted:
        if name not in case.entries:
            yield case.error(f"missing dynamic dim '{name}'")
    ctx, seq = case.entries.get("ctx"), case.entries.get("seq")
    if ctx and seq and ctx.integer < seq.integer:
        message = f"the cache holds no sequence of {seq.integer}"
        yield ctx.error(f"{message}; expected at least that, found {ctx.integer}")
