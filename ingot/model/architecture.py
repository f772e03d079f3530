"""Read an architecture as one whole, with everything that it extends put in place.

An architecture, a block and an entry point may each extend another one. What the
extending one writes replaces what has the same name; a new item says where it goes;
`remove` lists what is not inherited. Everything inherited keeps its position, so that
an error in it points into the file where it was written.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, replace
from pathlib import Path

from ingot.errors import ManifestError, did_you_mean
from ingot.model.architecture_schema import ARCHITECTURE, ArchitectureSection
from ingot.model.library import find, names
from ingot.model.schema_types import build, check
from ingot.model.variants import block_name
from ingot.model.yaml_nodes import Node, load, raise_all

FOLDER = "models/architectures"

# The sections whose items are inherited by name, and what one item is called. Any other
# key that is written replaces the inherited one as a whole, and so does each item.
_ARCHITECTURE = {
    "parameters": "parameter",
    "blocks": "block",
    "entry_points": "entry point",
    "tolerances": "tolerance",
}
_BLOCK = {
    "variants": "variant",
    "inputs": "input",
    "nodes": "node",
    "outputs": "output",
}
_ENTRY_POINT = {"dims": "dim", "inputs": "input", "steps": "step", "outputs": "output"}
# Items that may extend each other, and their own sections.
_EXTENDING = {"blocks": _BLOCK, "entry_points": _ENTRY_POINT}
_PLACES = ("before", "after")
_ABOUT_BASE = ("extends", "remove")


@dataclass(frozen=True, slots=True)
class Architecture:
    """An architecture with all that it inherits."""

    declared: ArchitectureSection  # as if one file had all of it
    files: tuple[str, ...]  # that it is made of, relative to the checkout, own first


def find_architecture(
    name: str, root: Path, error: Callable[[str, str], ManifestError]
) -> Path:
    """Return the file of an architecture; `error` makes errors where it is named.

    Raises:
        ExceptionGroup: of one ManifestError, where there is none.
    """
    path = find(root, f"{FOLDER}/{name}.yaml")
    if "/" in name or not os.path.lexists(path):
        known = [Path(item).stem for item in names(root, f"{FOLDER}/*.yaml")]
        hint = did_you_mean(name, known, "architectures")
        raise_all([error(f"no architecture named '{name}'", hint)])
    return path


def read_architecture(path: Path, root: Path) -> Architecture:
    """Return the architecture of a file, with everything that it extends.

    Raises:
        ExceptionGroup: of ManifestError, every mistake of form in the first file that
            has one, or else everything that does not fit what it extends.
    """
    files = list(_files(path, root))
    merge = _Merge()
    node = merge.architecture(files[::-1])
    raise_all(merge.errors)
    declared, errors = build(node, ArchitectureSection)
    raise_all(errors)
    assert declared is not None
    return Architecture(declared, tuple(item.position.path for item in files))


def _files(path: Path, root: Path) -> Iterator[Node]:
    """Yield the top nodes of a file, of the one that it extends, and so on."""
    names = [path.stem]
    while True:
        node = load(path, root)
        raise_all(check(node, ARCHITECTURE))
        found = node["architecture"]
        # What a manifest names is compared with it where the manifest is checked.
        if len(names) > 1 and found.text != path.stem:
            message = f"expected '{path.stem}', as the file is named"
            raise_all([found.error(f"{message}, found '{found.text}'")])
        yield node
        base = node.get("extends")
        if base is None:
            return
        names.append(base.text)
        if base.text in names[:-1]:
            message = "a cycle: an architecture cannot extend itself"
            raise_all([base.error(message, " -> ".join(names))])
        path = find_architecture(base.text, root, base.error)


@dataclass(frozen=True, slots=True)
class _Item:
    """An item of a section, by its name; "" where a step has none."""

    name: str
    node: Node
    in_list: bool
    has_place: bool  # whether it can say where it belongs

    @property
    def places(self) -> dict[str, Node]:
        """Return where the item asks to be, such as `after` and another item's name."""
        if not self.has_place:
            return {}
        return {key: found for key in _PLACES if (found := self.node.get(key))}

    def unplaced(self) -> _Item:
        """Return the item without what it says about its place."""
        places = self.places
        if not places:
            return self
        kept = {k: v for k, v in self.node.entries.items() if k not in places}
        return replace(self, node=replace(self.node, value=kept))

    def over(self, old: _Item) -> _Item:
        """Return the item instead of an inherited one; its layers come on top."""
        if not isinstance(self.node.value, tuple):
            return self
        layers = old.node.items + self.node.items
        node = replace(self.node, value=layers, named=old.node.named)
        return replace(self, node=node)

    def error(self, message: str, hint: str = "") -> ManifestError:
        """Return an error at the item's name."""
        name = self.node.get("name") if self.in_list else None
        return (name or self.node).error(message, hint)


class _Merge:
    """Put each part over the one that it extends; collect the parts that do not fit."""

    def __init__(self) -> None:
        self.errors: list[ManifestError] = []

    def architecture(self, files: list[Node]) -> Node:
        """Return one whole of files of which each extends the one before it."""
        whole: Node | None = None
        for file in files:
            whole = self.record(whole, _stacked(file), _ARCHITECTURE, "architecture")
        assert whole is not None
        # Only now, so that a block that extends another one inherits what the files
        # make of that one.
        for name in _EXTENDING:
            if found := whole.get(name):
                whole = _with(whole, {name: self.unstacked(name, found)})
        return whole

    def unstacked(self, section: str, node: Node) -> Node:
        """Return blocks or entry points, each made of its layers and what it extends.

        A layer is what one file writes of an item; that of the base comes first.
        """
        noun, sections = _ARCHITECTURE[section], _EXTENDING[section]
        done: dict[str, Node | None] = {}

        def made(name: str, way: tuple[str, ...]) -> Node | None:
            if name in done:
                return done[name]
            layers = node[name].items
            named = [layer["extends"] for layer in layers if layer.get("extends")]
            whole, done[name] = None, None
            if named and (base := self.base(named[-1], node, (*way, name), noun)):
                whole = made(base, (*way, name))
            if whole or not named:
                for layer in layers:
                    whole = self.record(whole, layer, sections, noun)
            done[name] = whole
            return whole

        whole = {name: made(name, ()) or node[name] for name in node.entries}
        named = {k: replace(v, named=node[k].named) for k, v in whole.items()}
        return replace(node, value=named)

    def base(
        self, named: Node, section: Node, way: tuple[str, ...], noun: str
    ) -> str | None:
        """Return the item that another one extends; None where it cannot."""
        if named.text not in section.entries:
            hint = did_you_mean(named.text, list(section.entries), f"{noun}s")
            self.errors.append(named.error(f"no {noun} named '{named.text}'", hint))
        elif named.text in way:
            article = "an" if noun[0] in "aeiou" else "a"
            message = f"a cycle: {article} {noun} cannot extend itself"
            hint = " -> ".join((*way, named.text))
            self.errors.append(named.error(message, hint))
        else:
            return named.text
        return None

    def record(
        self, base: Node | None, own: Node, sections: Mapping[str, str], noun: str
    ) -> Node:
        """Return a record over the one that it extends.

        `sections` has those whose items are inherited by name, and what an item is.
        """
        if base is None:
            self.refuse_changes(own, sections, noun)
        found = dict(base.entries) if base else {}
        for name, node in own.entries.items():
            if name not in _ABOUT_BASE and (base is None or name not in sections):
                found[name] = node
        removed = own.get("remove")
        for name, item in sections.items() if base else ():
            taken = removed.get(name) if removed else None
            if taken or name in own.entries:
                found[name] = self.section(found.get(name), own.get(name), taken, item)
        return replace(own, value=found)

    def refuse_changes(self, own: Node, sections: Mapping[str, str], noun: str) -> None:
        """Add an error for each change of inherited items where there are none."""
        items = [
            item
            for name, inner in sections.items()
            if name in own.entries
            for item in _items(own[name], inner)
        ]
        for node, key in [(own, "remove")] + [
            (item.node, key) for item in items for key in item.places
        ]:
            if key in node.entries:
                message = f"this {noun} extends nothing, so '{key}' means nothing"
                hint = "say what it 'extends', or leave this out"
                self.errors.append(node.key_error(key, message, hint))

    def section(
        self, base: Node | None, own: Node | None, removed: Node | None, noun: str
    ) -> Node:
        """Return the items of a section, over those that are inherited."""
        found = _items(base, noun) if base else []
        for name in removed.items if removed else ():
            index = _index(found, name.text)
            if index is None:
                hint = did_you_mean(name.text, _names(found), f"inherited {noun}s")
                message = f"no {noun} named '{name.text}' is inherited"
                self.errors.append(name.error(message, hint))
            else:
                del found[index]
        above: _Item | None = None
        written: set[str] = set()
        for item in _items(own, noun) if own else ():
            if item.name and item.name in written:
                message = f"{noun} '{item.name}' is written twice here"
                self.errors.append(item.error(message))
                continue
            written.add(item.name)
            index = _index(found, item.name)
            if index is None:
                index = self.place(found, item, above, noun)
                found.insert(index, item.unplaced())
            else:
                self.refuse_place(item, found[index], noun)
                found[index] = item.over(found[index])
            above = found[index]
        holder = own or base
        assert holder is not None
        if isinstance(holder.value, tuple):
            return replace(holder, value=tuple(item.node for item in found))
        return replace(holder, value={item.name: item.node for item in found})

    def place(
        self, found: list[_Item], item: _Item, above: _Item | None, noun: str
    ) -> int:
        """Return the index that a new item gets among those found so far."""
        places = item.places
        if len(places) > 1:
            message = f"new {noun} '{item.name}' has both 'before' and 'after'"
            self.errors.append(item.error(f"{message}; expected one of them"))
        elif places:
            (key,) = places
            named = places[key]
            index = _index(found, named.text)
            if index is not None:
                return index + (key == "after")
            hint = did_you_mean(named.text, _names(found), f"{noun}s")
            message = f"no {noun} named '{named.text}' is inherited"
            self.errors.append(named.error(message, hint))
        elif above:
            return next(i for i, other in enumerate(found) if other is above) + 1
        elif item.in_list and found:
            message = f"new {noun} '{item.name}' does not say where it belongs"
            self.errors.append(item.error(message, _near(item, found, noun)))
        return len(found)

    def refuse_place(self, item: _Item, old: _Item, noun: str) -> None:
        """Add an error where an item that replaces another one says where it goes."""
        for key in item.places:
            message = f"{noun} '{item.name}' replaces an inherited one"
            message = f"{message}, and takes its position"
            hint = f"leave '{key}' out; it replaces {old.node.position}"
            self.errors.append(item.node.key_error(key, message, hint))


def _items(section: Node, noun: str) -> list[_Item]:
    """Return the items of a section, in order."""
    if isinstance(section.value, tuple):
        return [_Item(_step_or_node(item), item, True, True) for item in section.items]
    return [
        # The keys of a variant are its own names.
        _Item(name, item, False, isinstance(item.value, dict) and noun != "variant")
        for name, item in section.entries.items()
    ]


def _near(item: _Item, found: list[_Item], noun: str) -> str:
    """Return a hint: which item may be meant, or how to say where a new one belongs."""
    hint = did_you_mean(item.name, _names(found), f"{noun}s")
    for other in found:
        if hint == f"did you mean '{other.name}'?":
            return f"did you mean '{other.name}', at {other.node.position}?"
    start = f"the inherited {noun}s start at {found[0].node.position}"
    return f"give it 'before' or 'after', with the name of a {noun}; {start}"


def _step_or_node(item: Node) -> str:
    """Return the name of a node or step; a step has its block's where it has none."""
    if name := item.get("name"):
        return name.text
    block = item["block"]
    return block_name(block.text) if isinstance(block.value, str) else ""


def _index(items: list[_Item], name: str) -> int | None:
    return next((i for i, item in enumerate(items) if name and item.name == name), None)


def _names(items: list[_Item]) -> list[str]:
    return [item.name for item in items if item.name]


def _stacked(file: Node) -> Node:
    """Return a file in which each block and entry point is a sequence of one layer."""
    for name in _EXTENDING.keys() & file.entries.keys():
        values = {k: replace(v, value=(v,)) for k, v in file[name].entries.items()}
        file = _with(file, {name: replace(file[name], value=values)})
    return file


def _with(node: Node, values: Mapping[str, Node]) -> Node:
    """Return a mapping with these values instead of those that it has."""
    return replace(node, value={**node.entries, **values})
