"""A manifest's YAML in, the frozen Manifest with its resolved graph out.

Everything a later stage needs is here and right: after `read_manifest` no code handles
a missing key, an unknown name or a shape that does not fit.
"""

from __future__ import annotations

from dataclasses import dataclass
from fnmatch import fnmatchcase
from pathlib import Path

from ingot.errors import ManifestError
from ingot.model import manifest_rules as rules
from ingot.model.bind import entries
from ingot.model.graph import Graph
from ingot.model.licence import check_texts
from ingot.model.manifest_graph import numbers, read_architecture, read_graph
from ingot.model.manifest_recovery import readable
from ingot.model.manifest_schema import MANIFEST
from ingot.model.schema_types import check
from ingot.model.weight_sources import (
    FileSource,
    HfDirectory,
    LocalFile,
    PackageFile,
    Splat,
    Synthetic,
    Url,
    WeightSource,
    read_file_source,
    read_weight_source,
)
from ingot.model.yaml_nodes import Node, load, raise_all

__all__ = [
    "BenchCase",
    "FileSource",
    "HfDirectory",
    "LocalFile",
    "Manifest",
    "PackageFile",
    "Policy",
    "Splat",
    "Synthetic",
    "ToleranceOverride",
    "Url",
    "WeightSource",
    "Weights",
    "read_manifest",
]


@dataclass(frozen=True, slots=True, kw_only=True)
class Policy:
    """Element types of the parameters that match: in the source, archive and graph."""

    match: str  # a pattern of GGUF names; * matches anything
    source: str | None  # "bf16"; None: any that can be converted
    stored: str  # "f32"
    compute: str  # "f32"


@dataclass(frozen=True, slots=True, kw_only=True)
class Weights:
    """Where a model's parameters come from and how they are stored."""

    source: WeightSource
    names: str  # how the source names tensors: "hf" or "gguf"
    ignore: tuple[str, ...]  # patterns of source tensors that no parameter needs
    policies: tuple[Policy, ...]  # the first that matches holds

    def policy(self, parameter: str) -> Policy:
        """Return the policy of a parameter of the graph; there always is one."""
        return next(
            item for item in self.policies if fnmatchcase(parameter, item.match)
        )

    def stored(self, parameter: str) -> str:
        """Return how a matrix of the graph is to be stored."""
        return self.policy(parameter).stored


@dataclass(frozen=True, slots=True, kw_only=True)
class ToleranceOverride:
    """What a level of the check may differ by, whatever the target says."""

    level: str  # "golden"
    max_abs_error: float  # of values, or of their range's share
    of_range: bool
    own: bool  # the manifest's, not its architecture's
    min_cosine: float | None
    reason: str
    source: str  # "models/toy.yaml:31"


@dataclass(frozen=True, slots=True, kw_only=True)
class BenchCase:
    """Sizes of the dynamic dims at which an entry point is timed."""

    entry_point: str
    sizes: tuple[tuple[str, int], ...]  # ("batch", 1), ("seq", 128)


@dataclass(frozen=True, slots=True, kw_only=True)
class Manifest:
    """A model, complete."""

    path: str  # "models/all-minilm-l6-v2.yaml", relative to the checkout
    model: str
    architecture: str
    licence: str  # an SPDX expression
    dims: tuple[tuple[str, int], ...]
    hyperparameters: tuple[tuple[str, float | int], ...]
    graph: Graph
    weights: Weights
    tokenizer: FileSource | None
    end_tokens: tuple[int, ...]  # ids that end a text
    golden: Path | None  # absolute; reference outputs as npz
    tolerances: tuple[ToleranceOverride, ...]
    bench: tuple[BenchCase, ...]


def read_manifest(path: Path, root: Path) -> Manifest:
    """Return the model that a manifest below the checkout's root declares.

    Raises:
        ExceptionGroup: of ManifestError, every defect of the manifest, of its
            architecture and of the components it names.
    """
    path, root = path.absolute(), root.absolute()
    node, folder = load(path, root), path.parent
    errors = check(node, MANIFEST)
    architecture = read_architecture(node, root, errors)
    parts = readable(node, errors)
    found = list(rules.check_own(parts, path.stem))
    graph = None
    if architecture is not None:
        found += rules.check_names(node, parts, architecture, errors)
        # On what was told already there is nothing to add.
        told = {error.position for error in errors}
        errors += [error for error in found if error.position not in told]
        graph = read_graph(parts, path.stem, architecture, root, errors)
    else:
        errors += found
    source = _source(parts, folder, errors)
    tokenizer = _tokenizer(parts, folder, errors)
    ends = rules.end_tokens(parts, errors)
    golden = _golden(parts, folder, errors)
    errors += () if isinstance(source, Splat) else check_texts(parts, root)
    raise_all(errors)
    assert architecture is not None
    assert graph is not None
    assert source is not None
    return Manifest(
        path=node.position.path,
        model=graph.model,
        architecture=node["architecture"].text,
        licence=node["licence"].text,
        dims=tuple((k, v.integer) for k, v in node["dims"].entries.items()),
        hyperparameters=tuple(numbers(node).items()),
        graph=graph,
        weights=_weights(node["weights"], source),
        tokenizer=tokenizer,
        end_tokens=ends,
        golden=golden,
        tolerances=_tolerances(architecture, node),
        bench=_bench(node),
    )


def _source(
    parts: Node, folder: Path, errors: list[ManifestError]
) -> WeightSource | None:
    found = parts["weights"].get("source")
    return read_weight_source(found, folder, errors) if found else None


def _weights(node: Node, source: WeightSource) -> Weights:
    ignore = node.get("ignore")
    return Weights(
        source=source,
        names=node["names"].text,
        ignore=tuple(item.text for item in ignore.items) if ignore else (),
        policies=tuple(
            Policy(
                match=item["match"].text,
                source=found.text if (found := item.get("source")) else None,
                stored=item["stored"].text,
                compute=item["compute"].text,
            )
            for item in node["policy"].items
        ),
    )


def _tokenizer(
    node: Node, folder: Path, errors: list[ManifestError]
) -> FileSource | None:
    found = node.get("tokenizer")
    return read_file_source(found, folder, errors, ".json") if found else None


def _golden(node: Node, folder: Path, errors: list[ManifestError]) -> Path | None:
    found = entries(node, "check").get("golden")
    if found is None:
        return None
    path = folder / found.text
    if not path.is_file():
        errors.append(found.error(f"no file '{found.text}' in the manifest's folder"))
    return path


def _tolerances(architecture: Node, node: Node) -> tuple[ToleranceOverride, ...]:
    """Return a tolerance a level; the manifest's stands above the architecture's."""
    given = entries(architecture, "tolerances")
    own = entries(node["check"], "tolerances") if "check" in node.entries else {}
    return tuple(
        _tolerance(level, item, level in own) for level, item in (given | own).items()
    )


def _tolerance(level: str, item: Node, own: bool) -> ToleranceOverride:
    of_range = "max_range_error" in item.entries
    return ToleranceOverride(
        level=level,
        max_abs_error=item["max_range_error" if of_range else "max_abs_error"].number,
        of_range=of_range,
        own=own,
        min_cosine=found.number if (found := item.get("min_cosine")) else None,
        reason=item["reason"].text,
        source=f"{item.position.path}:{item.position.line}",
    )


def _bench(node: Node) -> tuple[BenchCase, ...]:
    return tuple(
        BenchCase(
            entry_point=name,
            sizes=tuple((key, size.integer) for key, size in case.entries.items()),
        )
        for name, cases in entries(node, "bench").items()
        for case in cases.items
    )
