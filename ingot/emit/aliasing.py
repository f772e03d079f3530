"""Decide which values of an entry point live in memory that its caller owns.

An output marked `updates: X` takes over the memory of input `X`, and so does every
value on the way from one to the other: a component that takes such a value and returns
one of the same type updates it in place.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass

from ingot.errors import IngotError
from ingot.model.graph import Block, EntryPoint, Graph, held_values


@dataclass(frozen=True, slots=True)
class Step:
    """A block of an entry point, and where its values live."""

    block: Block
    # Its inputs that live in an input of the entry point, and in which one.
    held: dict[str, str]
    owners: dict[str, str]  # the same of all its values, by their names in the block
    made: tuple[str, ...]  # the entry point's values that it produces elsewhere


@dataclass(frozen=True, slots=True)
class Memory:
    """Where the values of an entry point live, block by block."""

    steps: tuple[Step, ...]
    is_chain: bool
    own: dict[str, object]  # by block, what `_own_values` returns


def memory_of(graph: Graph, entry: EntryPoint) -> Memory:
    """Return where the values of an entry point live.

    Raises: IngotError if no memory can hold the values as the entry point says.
    """
    steps = _steps(graph, entry)
    return Memory(steps, _is_chain(graph, entry, steps), _own_values(entry, steps))


def _steps(graph: Graph, entry: EntryPoint) -> tuple[Step, ...]:
    """Return the blocks of an entry point, each with the memory of its values.

    Raises: IngotError if a block reads a value that an earlier block has
        overwritten, or if an output aliases an input without declaring it, or declares
        it without aliasing it.
    """
    # Entry-point value: the input that it lives in, and that input's update count.
    where = {port.updates: (port.updates, 0) for port in entry.outputs if port.updates}
    updates = dict.fromkeys(where, 0)
    found: list[Step] = []
    for block in entry.blocks:
        held = {}
        for formal, value in block.inputs:
            if value not in where:
                continue
            held[formal], version = where[value]
            if version != updates[held[formal]]:
                raise IngotError(
                    f"{graph.model}: {entry.name}: block {block.name} reads {value},"
                    " which an earlier block has overwritten",
                    "use the value that that block returns",
                )
        owners, replaced = held_values(block, held)
        made = tuple(value for value, inner in block.outputs if inner not in owners)
        found.append(Step(block, held, owners, made))
        last = {owners[result]: result for result in replaced}
        for owner in last:
            updates[owner] += 1
        for value, inner in block.outputs:
            where.pop(value, None)
            if inner in owners:
                owner = owners[inner]
                late = last.get(owner, inner) == inner
                where[value] = (owner, updates[owner] - (not late))
    newest = {owner: (owner, count) for owner, count in updates.items()}
    _check_outputs(graph, entry, where, newest)
    return tuple(found)


def _check_outputs(
    graph: Graph,
    entry: EntryPoint,
    where: Mapping[str, tuple[str, int]],
    newest: Mapping[str, tuple[str, int]],
) -> None:
    """Reject outputs whose values are not in the memory that they claim.

    Raises: IngotError.
    """
    for port in entry.outputs:
        made = where.get(port.value, ("", 0))
        if made[0] and not port.updates:
            raise IngotError(
                f"{graph.model}: {entry.name}: {port.name} is {port.value}, which"
                f" aliases {made[0]}",
                f"add 'updates: {made[0]}', or remove the output",
            )
        if port.updates and made != newest[port.updates]:
            raise IngotError(
                f"{graph.model}: {entry.name}: {port.name} cannot update"
                f" {port.updates}: {port.value} does not derive from it",
                "a component updates an operand by a result of the same type",
            )


def _is_chain(graph: Graph, entry: EntryPoint, steps: Iterable[Step]) -> bool:
    """Return whether each block produces one value, which the next one takes.

    Held values do not count. IREE 3.13 places values that are produced together in one
    allocation, and then passes them to a function without their offsets.

    Raises: IngotError if the blocks are not a chain but hold values, because several
        blocks that update one input cannot be inlined.
    """
    made: set[str] = set()
    before: set[str] = set()
    for step in steps:
        block, makes = step.block, step.made
        takes = {value for _, value in block.inputs} & made
        if len(makes) > 1 or len(takes) > 1 or not takes <= before:
            if not any(port.updates for port in entry.outputs):
                return False
            raise IngotError(
                f"{graph.model}: {entry.name}: block {block.name} takes"
                f" {_listed(takes)} and returns {_listed(set(makes))}; if inputs"
                " are updated, each block takes the one value that the previous one"
                " returns",
                "combine the values, or merge the blocks that pass them on",
            )
        made |= set(makes)
        before = set(makes)
    return True


def _own_values(entry: EntryPoint, steps: Iterable[Step]) -> dict[str, object]:
    """Return, by block, which of its inputs and results belong to the caller.

    These are inputs and outputs of the entry point; held values do not count. IREE 3.13
    gives them another type, and an argument or a result of a function has only one
    type.
    """
    last = {value: block.name for block in entry.blocks for value, _ in block.outputs}
    returned = {port.value for port in entry.outputs}
    own = {port.value for port in entry.inputs}
    found: dict[str, object] = {}
    for step in steps:
        block, makes = step.block, step.made
        takes = tuple(v in own and f not in step.held for f, v in block.inputs)
        gives = tuple(v in returned and last[v] == block.name for v in makes)
        found[block.name] = (takes, gives)
        own -= set(makes)
        own |= {value for value, given in zip(makes, gives, strict=True) if given}
    return found


def _listed(values: set[str]) -> str:
    return " and ".join(sorted(values)) or "nothing"
