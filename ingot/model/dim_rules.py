"""A manifest's dims and their ranges in, where they contradict each other out."""

from __future__ import annotations

from collections.abc import Iterator

from ingot.errors import ManifestError
from ingot.model.yaml_nodes import Node


def check_dims(node: Node) -> Iterator[ManifestError]:
    """Yield where sizes that may each be right are not right together."""
    yield from _check_ranges(node)
    yield from _check_experts(node)
    yield from _check_sharing(node)


def _check_ranges(node: Node) -> Iterator[ManifestError]:
    for name, entry in node["dynamic"].entries.items():
        least, most = entry["min"].integer, entry["max"].integer
        if least > most:
            yield entry.error(f"expected min <= max, found {least} > {most}")
        context = node["dims"].entries.get("n_ctx")
        if name in ("seq", "ctx") and context and most > context.integer:
            message = f"longer than the context, n_ctx = {context.integer}"
            yield entry["max"].error(f"{message}, found {most}")
    ranges, dims = node["dynamic"].entries, node["dims"].entries
    if "n_block_seq" in ranges and {"block_size", "n_ctx"} <= dims.keys():
        listed = ranges["n_block_seq"]["max"]
        held = listed.integer * dims["block_size"].integer
        if held > dims["n_ctx"].integer:
            message = f"longer than the context, n_ctx = {dims['n_ctx'].integer}"
            yield listed.error(f"{message}, found blocks for {held}")
    if {"n_block", "n_block_seq"} <= ranges.keys():
        yield from _check_pool(ranges["n_block"], ranges["n_block_seq"])
    if "ctx" in ranges and "seq" in ranges:
        cache, longest = ranges["ctx"]["max"], ranges["seq"]["max"].integer
        if cache.integer < longest:
            message = "no cache holds the longest sequence"
            found = f"expected at least {longest}, found {cache.integer}"
            yield cache.error(f"{message}; {found}")


def _check_pool(pool: Node, table: Node) -> Iterator[ManifestError]:
    """Yield where a pool cannot be as large, or as small, as one sequence needs."""
    # Block 0 is nobody's.
    longest, shortest = (1 + table[end].integer for end in ("max", "min"))
    if pool["max"].integer < longest:
        message = f"no pool holds the longest sequence; expected at least {longest}"
        yield pool["max"].error(f"{message}, found {pool['max'].integer}")
    if pool["min"].integer > shortest:
        message = f"a short sequence has no pool; expected at most {shortest}"
        yield pool["min"].error(f"{message}, found {pool['min'].integer}")


def _check_experts(node: Node) -> Iterator[ManifestError]:
    dims = node["dims"].entries
    if {"n_expert", "n_expert_used"} <= dims.keys():
        used, most = dims["n_expert_used"], dims["n_expert"].integer
        if used.integer > most:
            message = f"more than there are; expected at most n_expert = {most}"
            yield used.error(f"{message}, found {used.integer}")


def _check_sharing(node: Node) -> Iterator[ManifestError]:
    """Yield where heads cannot share keys and values."""
    dims = node["dims"].entries
    if {"n_head", "n_head_kv"} <= dims.keys():
        heads, shared = dims["n_head"], dims["n_head_kv"].integer
        if heads.integer % shared:
            message = f"expected a multiple of n_head_kv = {shared}"
            yield heads.error(f"{message}, found {heads.integer}")
