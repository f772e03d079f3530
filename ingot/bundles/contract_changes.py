"""Compare the contracts of two bundles, and say what each difference means to callers.

A call that was right before the change must be right after it; otherwise the change is
major. What adds something, or changes results, is minor. All else is a patch.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from ingot.bundles.difference import Change, Level

# By key of `bundle.json`; a longer key goes before a shorter one. Sizes of tensors are
# in the shapes of entry points, so a changed dim alone only changes results.
RULES = {
    "model": Level.MAJOR,
    "licence": Level.MAJOR,
    "redistribution": Level.MAJOR,
    "pooling": Level.MAJOR,
    "architecture": Level.MINOR,
    "weights": Level.MINOR,
    "dims": Level.MINOR,
    "hyperparameters": Level.MINOR,
    "sampling": Level.MINOR,
    "generation": Level.MINOR,
    "text": Level.MINOR,
    "runtime": Level.MAJOR,
    "parameters.archive": Level.MAJOR,
    "parameters.scope": Level.MAJOR,
    "target.name": Level.MAJOR,
    "target.machine": Level.MAJOR,
    "target.device": Level.MAJOR,
    "target.layout": Level.PATCH,
    "target.summary": Level.PATCH,
}

# A bundle of an older version lacks a key whose value would be one of these.
_NOTHING: tuple[Any, ...] = (None, [], {})


def contract_changes(before: dict[str, Any], after: dict[str, Any]) -> Iterator[Change]:
    """Yield what differs in the contracts of two bundles."""
    versions_differ = before["schema"] != after["schema"]
    for key, level in RULES.items():
        outer = key.partition(".")[0]
        if versions_differ and (outer not in before or outer not in after):
            continue  # an older version does not record it
        yield from _leaves(key, _at(before, key), _at(after, key), level)
    yield from _features(before["target"], after["target"])
    yield from _dynamic(before["dynamic_dims"], after["dynamic_dims"])
    yield from _entry_points(before["entry_points"], after["entry_points"])


def _at(contract: dict[str, Any], key: str) -> Any:
    outer, _, inner = key.partition(".")
    found = contract.get(outer)
    return found.get(inner) if inner and isinstance(found, dict) else found


def _leaves(key: str, before: Any, after: Any, level: Level) -> Iterator[Change]:
    """Yield the differences of two values, inside mappings by their keys."""
    if isinstance(before, dict) and isinstance(after, dict):
        for name in dict.fromkeys([*before, *after]):
            yield from _leaves(
                f"{key}.{name}", before.get(name), after.get(name), level
            )
    elif before != after and not (before in _NOTHING and after in _NOTHING):
        yield Change("contract", key, before, after, level)


def _features(before: dict[str, Any], after: dict[str, Any]) -> Iterator[Change]:
    """Yield the features of the processor that are needed in addition, or no longer."""
    key = "cpu_features"
    old, new = before.get(key, []), after.get(key, [])
    if set(old) != set(new):
        level = Level.MAJOR if set(new) - set(old) else Level.MINOR
        yield Change("contract", f"target.{key}", old, new, level)


def _dynamic(before: dict[str, Any], after: dict[str, Any]) -> Iterator[Change]:
    for name in dict.fromkeys([*before, *after]):
        old, new = before.get(name), after.get(name)
        if old != new:
            wider = (
                old and new and new["min"] <= old["min"] and new["max"] >= old["max"]
            )
            level = Level.MINOR if wider else Level.MAJOR
            yield Change("contract", f"dynamic_dims.{name}", old, new, level)


def _entry_points(
    before: list[dict[str, Any]], after: list[dict[str, Any]]
) -> Iterator[Change]:
    old = {entry["name"]: entry for entry in before}
    new = {entry["name"]: entry for entry in after}
    for name in dict.fromkeys([*old, *new]):
        key = f"entry_points.{name}"
        if name not in new:
            yield Change("contract", key, _signature(old[name]), None, Level.MAJOR)
        elif name not in old:
            yield Change("contract", key, None, _signature(new[name]), Level.MINOR)
        else:
            for kind in ("inputs", "outputs"):
                yield from _ports(f"{key}.{kind}", old[name][kind], new[name][kind])
            pairs = old[name]["in_place"], new[name]["in_place"]
            if pairs[0] != pairs[1]:
                yield Change("contract", f"{key}.in_place", *pairs, Level.MAJOR)


def _signature(entry: dict[str, Any]) -> str:
    ports = [", ".join(x["name"] for x in entry[k]) for k in ("inputs", "outputs")]
    return f"({ports[0]}) -> ({ports[1]})"


def _ports(key: str, before: list[Any], after: list[Any]) -> Iterator[Change]:
    """Yield the differences of inputs or outputs, which a call takes in their order."""
    old_names = [port["name"] for port in before]
    new_names = [port["name"] for port in after]
    if old_names != new_names:
        yield Change("contract", key, old_names, new_names, Level.MAJOR)
    new = {port["name"]: port for port in after}
    for port in before:
        other = new.get(port["name"])
        if other is None:
            continue
        for part in ("element", "shape", "role", "unwritten"):
            level = Level.MAJOR
            yield from _leaves(
                f"{key}.{port['name']}.{part}", port.get(part), other.get(part), level
            )
        old_range, new_range = port.get("range"), other.get("range")
        if old_range != new_range:
            level = Level.MINOR if _is_wider(old_range, new_range) else Level.MAJOR
            place = f"{key}.{port['name']}.range"
            yield Change("contract", place, old_range, new_range, level)


def _is_wider(old: dict[str, Any] | None, new: dict[str, Any] | None) -> bool:
    """Return whether every number that was accepted is accepted still."""
    if new is None:
        return True
    if old is None or new["min"] > old["min"] or len(new["max"]) != len(old["max"]):
        return False
    return all(
        most == limit
        or (isinstance(most, int) and isinstance(limit, int) and most >= limit)
        for limit, most in zip(old["max"], new["max"], strict=True)
    )
