"""Read a manifest and the graph that it declares, complete and frozen.

`read_manifest` reports every mistake, so no later stage handles a missing key, an
unknown name or a shape that does not fit.
"""

from __future__ import annotations

import hashlib
from collections.abc import Collection, Mapping
from dataclasses import dataclass, replace
from fnmatch import fnmatchcase
from functools import partial
from pathlib import Path

from ingot.errors import ManifestError
from ingot.model import manifest_rules as rules
from ingot.model.architecture import (
    Architecture,
    find_architecture,
    read_architecture,
)
from ingot.model.component import Components
from ingot.model.graph import DynamicDim, Graph
from ingot.model.library import find
from ingot.model.licence import FOLDER as LICENCES
from ingot.model.licence import allows_redistribution, licences, text_errors
from ingot.model.limits import LimitsSection
from ingot.model.manifest_folder import ManifestFolder
from ingot.model.manifest_schema import (
    GenerationSection,
    ManifestFile,
    Policy,
    QualitySection,
    ToleranceSection,
)
from ingot.model.resolve import resolve
from ingot.model.schema_types import build
from ingot.model.terms import Terms
from ingot.model.tolerance import Tolerance
from ingot.model.weight_sources import (
    WeightFile,
    WeightSource,
    find_tokenizer,
    find_weights,
)
from ingot.model.yaml_nodes import collected, load, raise_all

# The routers of mixtures, for which `match: "*"` does not hold: an expert is chosen by
# small differences, and the matrix is small.
ROUTERS = "*ffn_gate_inp*.weight"


@dataclass(frozen=True, slots=True, kw_only=True)
class Weights:
    """Where a model's parameters come from and how they are stored."""

    source: WeightSource
    naming: str  # how the source names tensors: "hf" or "gguf"
    ignore: tuple[str, ...]  # patterns of source tensors that no parameter needs
    policies: tuple[Policy, ...]  # the first that matches holds

    def policy(self, parameter: str) -> Policy:
        """Return the policy of a parameter of the graph; there always is one."""
        return next(
            item for item in self.policies if fnmatchcase(parameter, item.match)
        )

    def stored(self, parameter: str) -> str:
        """Return how a matrix of the graph is to be stored.

        A router is stored as f32 unless a narrower pattern than `*` matches it.
        """
        policy = self.policy(parameter)
        if policy.match == "*" and fnmatchcase(parameter, ROUTERS):
            return "f32"
        return policy.stored


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
    architecture_files: tuple[str, ...]  # its own first, then what it extends
    licence: str  # an SPDX expression
    terms: Terms | None  # that its weights have, accepted or not
    redistribution: bool  # whether the licence lets you give the weights to others
    dims: tuple[tuple[str, int], ...]
    hyperparameters: tuple[tuple[str, float | int], ...]
    graph: Graph
    weights: Weights
    tokenizer: WeightFile | None
    generation: GenerationSection
    golden: Path | None  # absolute; reference outputs as npz
    # By check level, instead of the target's; the manifest's own replace its
    # architecture's.
    tolerances: Mapping[str, Tolerance]
    quality: dict[str, float]  # the gates: "max_kl", "min_top_1", ...
    own_tolerances: tuple[str, ...]  # the levels that the manifest itself speaks of
    bench: tuple[BenchCase, ...]
    limits: LimitsSection


def read_manifest(
    path: Path,
    root: Path,
    components: Components | None = None,
    accepted: Collection[str] = (),
    readable: tuple[Path, ...] | None = None,
) -> Manifest:
    """Return the model that a manifest below the checkout's root declares.

    Those who read several manifests hand over the components, which are read once.
    `accepted` are the terms that the user has accepted, see `_apply_terms`; `readable`
    are the files and folders that the manifest may read, see `ManifestFolder`.

    Raises:
        ExceptionGroup: of ManifestError, every mistake in the manifest, of its
            architecture and of the components it names.
    """
    path, root = path.absolute(), root.absolute()
    folder = ManifestFolder(path.parent, readable)
    file, errors = build(load(path, root), ManifestFile)
    assert file is not None
    named = graph = source = tokenizer = terms = None
    with collected(errors):
        file, terms = _apply_terms(file, root, accepted)
    with collected(errors):
        named = _named_architecture(file, root)
    found = [*rules.check_manifest(file, path.stem)]
    if named is not None:
        found += rules.check_names(file, named.declared, errors)
    # A mistake of form explains all others at its position.
    reported = {error.position for error in errors}
    errors += [error for error in found if error.position not in reported]
    if named is not None:
        components = components or Components(root)
        graph, wrong = _read_graph(file, path.stem, named, components)
        if graph and not wrong:
            wrong += rules.check_graph(file, named.declared, graph, errors)
        errors += wrong
    if file.weights.source:
        with collected(errors):
            source = find_weights(file.weights.source, folder)
    if file.tokenizer:
        with collected(errors):
            tokenizer = find_tokenizer(file.tokenizer, folder, path.stem, source)
    golden = None
    if file.check.golden:
        with collected(errors):
            golden = folder.find(file.check.golden, file.check.at, "golden")
    has_bundle = source is None or source.splat is None
    errors += rules.check_files(file, golden, root if has_bundle else None)
    raise_all(errors)
    assert named is not None
    assert graph is not None
    assert source is not None
    tolerances = {**named.declared.tolerances, **file.check.tolerances}
    return Manifest(
        path=file.at.position().path,
        model=graph.model,
        architecture=file.architecture,
        architecture_files=named.files,
        licence=file.licence,
        terms=terms,
        redistribution=_allows_redistribution(file),
        dims=tuple(file.dims.items()),
        hyperparameters=tuple(file.hyperparameters.items()),
        graph=graph,
        weights=Weights(
            source=source,
            naming=file.weights.naming,
            ignore=file.weights.ignore,
            policies=file.weights.policy,
        ),
        tokenizer=tokenizer,
        generation=file.generation,
        golden=golden,
        tolerances={level: _tolerance(item) for level, item in tolerances.items()},
        quality=_gates(file.check.quality),
        own_tolerances=tuple(file.check.tolerances),
        bench=tuple(
            BenchCase(entry_point=name, sizes=tuple(case.items()))
            for name, cases in file.bench.items()
            for case in cases
        ),
        limits=file.limits,
    )


def _apply_terms(
    file: ManifestFile, root: Path, accepted: Collection[str]
) -> tuple[ManifestFile, Terms | None]:
    """Return the manifest that holds, and the terms if it has any.

    `accepted` has names of terms, which hold for any text, and `NAME:SHA256` for terms
    whose text has this digest.
    """
    section = file.terms
    if section is None or not file.licence or file.weights.source is None:
        return file, None
    if any(text_errors(file.licence, root)):
        return file, None  # the check of its files reports it
    text = f"{LICENCES}/{licences(file.licence)[0]}.txt"
    sha256 = hashlib.sha256(find(root, text).read_bytes()).hexdigest()
    is_accepted = section.name in accepted or f"{section.name}:{sha256}" in accepted
    terms = Terms(section.name, text, sha256, is_accepted)
    if is_accepted:
        return file, terms
    otherwise = section.otherwise
    policy = otherwise.policy or file.weights.policy
    return replace(
        file,
        licence=otherwise.licence,
        weights=replace(file.weights, source=otherwise.source, policy=policy),
        tokenizer=otherwise.tokenizer,
        check=replace(file.check, golden=otherwise.golden),
    ), terms


def _allows_redistribution(file: ManifestFile) -> bool:
    if file.redistribution is not None:
        return file.redistribution
    return allows_redistribution(file.licence)


def _named_architecture(file: ManifestFile, root: Path) -> Architecture | None:
    """Return the architecture that a manifest names, None where it names none.

    Raises:
        ExceptionGroup: of ManifestError, every mistake of form.
    """
    if not file.architecture:
        return None
    error = partial(file.at.error, "architecture")
    return read_architecture(find_architecture(file.architecture, root, error), root)


def _read_graph(
    file: ManifestFile, model: str, architecture: Architecture, components: Components
) -> tuple[Graph | None, list[ManifestError]]:
    """Return the graph, and what is wrong with it.

    Sizes and numbers that were reported missing are 1, so that the rest is checked.
    The graph is None if the manifest lacks the naming, by which parameters are found.
    """
    if not file.weights.naming:
        return None, []
    declared = architecture.declared
    sizes: dict[str, int | None] = {
        name: file.dims.get(name, 1) for name in declared.dims
    }
    sizes.update(dict.fromkeys(declared.dynamic))
    return resolve(
        model=model,
        architecture=architecture,
        sizes=sizes,
        numbers={
            name: file.hyperparameters.get(name, 1) for name in declared.hyperparameters
        },
        dynamic=tuple(
            DynamicDim(name, given.min, given.max)
            for name, given in file.dynamic.items()
        ),
        weights=file.weights,
        tied=rules.tied(file, declared),
        components=components,
        layers=file.layers,
        scaling=file.rope_scaling,
    )


def _gates(section: QualitySection) -> dict[str, float]:
    gates = {
        "max_kl": section.max_kl,
        "max_perplexity_ratio": section.max_perplexity_ratio,
        "min_top_1": section.min_top_1,
    }
    return {name: limit for name, limit in gates.items() if limit is not None}


def _tolerance(section: ToleranceSection) -> Tolerance:
    of_range = section.max_range_error is not None
    limit = section.max_range_error if of_range else section.max_abs_error
    assert limit is not None
    position = section.at.position()
    source = f"{position.path}:{position.line}"
    return Tolerance(limit, section.min_cosine, source, of_range)
