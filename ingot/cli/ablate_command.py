"""Run `doit ablate`: show where the error of a low-precision model comes from."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

from ingot.ablation.ablate import Request, run
from ingot.ablation.modes import matrices, matrix_schemes, read_modes, read_scheme
from ingot.ablation.prompt import TOKENS, prompt, reading_tokens
from ingot.cli.build_command import build_first
from ingot.cli.commands import Call
from ingot.cli.variables import integer, one_of_each
from ingot.model.manifest import read_manifest
from ingot.project.accepted_terms import accepted
from ingot.project.allowed_paths import allowed
from ingot.project.catalogue import Selection, read, requested_models
from ingot.project.selection import check_runnable, select


def ablate(call: Call) -> int:
    """Bake the weights, then compute; errors come before that."""
    variables = dict(call.variables)
    catalogue = read(call.root, requested_models(variables))
    selection = select(catalogue, variables)
    check_runnable(catalogue, selection)
    request = read_request(call.root, selection, variables)
    return build_first(call, request.task) or run(call.root, request)


def read_request(
    root: Path, selection: Selection, variables: Mapping[str, str]
) -> Request:
    """Return the request that the variables make, checked as far as it can be now.

    Raises: IngotError for a wrong value, or a model that reads no tokens.
    """
    model, target = one_of_each("ablate", selection.models, selection.targets)
    chosen = read_modes(variables.get("modes"))
    scheme = read_scheme(variables.get("weights"))
    given = integer(variables, "tokens", 0)
    tokens = TOKENS if given is None else given
    seed = integer(variables, "seed", 0) or 0
    path = root / f"models/{model}.yaml"
    manifest = read_manifest(path, root, accepted=accepted(), readable=allowed(root))
    entry = reading_tokens(manifest.graph)
    prompt(manifest.graph, entry, tokens, seed)
    schemes = matrix_schemes(matrices(manifest.graph), manifest.weights.stored, scheme)
    return Request(manifest, target, entry, chosen, schemes, tokens, seed)
