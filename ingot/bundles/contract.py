"""Describe a manifest on a target for `bundle.json`, and seal that file.

No other file contains the digest of `bundle.json`, so the file contains its own. This
digest detects damage; it is not a signature.
"""

from __future__ import annotations

import hashlib
import json
from typing import TYPE_CHECKING, Any

from ingot.bundles.contract_types import SCHEMA
from ingot.bundles.sampler import Sampling
from ingot.codec import to_json
from ingot.errors import IngotError

if TYPE_CHECKING:
    from collections.abc import Sequence

    from ingot.model.graph import EntryPoint, Graph, Port
    from ingot.model.manifest import Manifest
    from ingot.model.manifest_schema import GenerationSection
    from ingot.model.shapes import Limit
    from ingot.model.target import Target

KEY = "sha256"
SCOPE, ARCHIVE = "model", "model.irpa"
"""The scope of the parameters, and the file that holds them."""

TOKENIZER = "tokenizer.json"

CHAT_TEMPLATE = "chat_template.jinja"
"""The file of a bundle that holds the chat template."""

# The components that make embeddings of sentences.
POOLING, NORMALIZED = "pooling/mean_pool", "normalization/l2_normalize"


def declaration(
    manifest: Manifest, target: Target, compile_commands: Sequence[tuple[str, ...]]
) -> dict[str, Any]:
    """Return the part of `bundle.json` that is known before anything is built.

    Shapes: of ports, static sizes and names of `dynamic_dims`.
    """
    graph = manifest.graph
    return {
        "schema": SCHEMA,
        "model": manifest.model,
        "architecture": manifest.architecture,
        "licence": manifest.licence,
        "weights": manifest.weights.source.origin,
        "redistribution": "yes" if manifest.redistribution else "no",
        "dims": dict(manifest.dims),
        "hyperparameters": dict(manifest.hyperparameters),
        "pooling": _pooling(graph),
        "sampling": _sampling(graph, manifest.generation),
        "generation": _generation(graph, manifest.generation),
        "text": _text(manifest),
        "dynamic_dims": {
            dim.name: {"min": dim.min, "max": dim.max} for dim in graph.dynamic
        },
        "entry_points": [_entry_point(entry) for entry in graph.entry_points],
        "target": {
            "name": target.resolved,
            "summary": target.summary,
            "machine": target.machine,
            "device": _device(target),
            "cpu_features": target.cpu_features,
            "layout": target.layout.name,
            "compile_flags": target.compile_flags,
        },
        "compiler": {
            "package": "iree-base-compiler",
            "commands": compile_commands,
        },
    }


def _generation(graph: Graph, given: GenerationSection) -> dict[str, Any] | None:
    """Return how a decoder's text begins and ends; the template is a file."""
    if not _writes_text(graph):
        return None
    return {
        "bos": given.bos,
        "add_bos": given.add_bos,
        "end_tokens": given.end_tokens,
        "stop": given.stop,
        "chat_template": CHAT_TEMPLATE if given.chat_template else None,
        # The tokenizer tells; it may be an action's output, which does not exist yet.
        "unused": [],
    }


def _text(manifest: Manifest) -> dict[str, Any] | None:
    """Return what turns texts into token ids, and back."""
    if not manifest.tokenizer:
        return None
    template = ["jinja2"] if manifest.generation.chat_template else []
    return {"tokenizer": TOKENIZER, "packages": ["tokenizers", *template]}


def _entry_point(entry: EntryPoint) -> dict[str, Any]:
    return {
        "name": entry.name,
        "inputs": [_port(port) for port in entry.inputs],
        "outputs": [_port(port) for port in entry.outputs],
        # The output overwrites the caller's buffer of that input.
        "in_place": [
            {"input": port.updates, "output": port.name}
            for port in entry.outputs
            if port.updates
        ],
    }


def _port(port: Port) -> dict[str, Any]:
    described: dict[str, Any] = {
        "name": port.name,
        "element": port.type.element,
        "shape": port.type.shape,
        "role": port.role,
    }
    if port.limits:
        described["range"] = {"min": 0, "max": [_last(item) for item in port.limits]}
    if port.role == "cache":
        described["unwritten"] = "anything, NaN included"
    return described


def _last(limit: Limit) -> int | str:
    """Return the largest number of a range; a text depends on the call."""
    less = 0 if limit.closed else 1
    if not limit.names:
        assert limit.less is None
        return limit.most.size - less
    words = [str(limit.most), *([str(limit.less)] if limit.less else [])]
    return " - ".join([*words, *(["1"] if less else [])])


def _device(target: Target) -> str:
    """Return the driver that IREE needs: `local` stands for local-task and -sync."""
    flag = "--iree-hal-target-device="
    found = (x.removeprefix(flag) for x in target.compile_flags if x.startswith(flag))
    return next(found, "local")


def _pooling(graph: Graph) -> dict[str, Any] | None:
    """Return how an encoder makes one embedding of those of a sentence's tokens."""
    used = {item.component for item in graph.instances}
    if POOLING not in used:
        return None
    return {"kind": "mean", "normalized": NORMALIZED in used}


def _sampling(graph: Graph, given: GenerationSection) -> dict[str, Any] | None:
    """Return how a decoder's next token is chosen by default."""
    if not _writes_text(graph):
        return None
    default = Sampling()
    temperature = given.temperature
    if temperature is None:
        draws = (given.top_k, given.top_p) != (None, None)
        temperature = 1.0 if draws else default.temperature
    return {
        "temperature": temperature,
        "top_k": given.top_k,
        "top_p": default.top_p if given.top_p is None else given.top_p,
    }


def _writes_text(graph: Graph) -> bool:
    ports = (port for entry in graph.entry_points for port in entry.outputs)
    return "logits" in {port.role for port in ports}


def seal(contract: dict[str, Any]) -> str:
    """Return the text of `bundle.json`."""
    return to_json({**contract, KEY: _digest(contract)}, indent=True) + "\n"


def unseal(text: str) -> dict[str, Any]:
    """Return the content of `bundle.json`.

    Raises: IngotError if a byte differs from what `seal` wrote.
    """
    try:
        sealed = json.loads(text)
        contract = {key: value for key, value in sealed.items() if key != KEY}
    except (ValueError, AttributeError, RecursionError) as error:
        raise IngotError(f"bundle.json: damaged; {error}") from error
    if text != seal(contract):
        raise IngotError(
            "bundle.json: damaged; expected its own sha256 "
            f"{_digest(contract)}, found {sealed.get(KEY)}"
        )
    return contract


def _digest(contract: dict[str, Any]) -> str:
    return hashlib.sha256(to_json(contract).encode()).hexdigest()
