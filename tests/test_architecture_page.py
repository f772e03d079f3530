"""Test that docs/architecture.md names every package and module of `ingot`."""

from __future__ import annotations

import re

from tests import source_tree as tree
from tests.test_conventions import ROOMS, none

PAGE = "docs/architecture.md"


def tables() -> dict[str, set[str]]:
    """Return the files that each package's table names, by package."""
    sections = re.split(r"^### (ingot\S*)$", tree.text(PAGE), flags=re.MULTILINE)
    return {
        package: {
            f"{package}/{name}" for name in re.findall(r"`([\w/]+\.py)`", section)
        }
        for package, section in zip(sections[1::2], sections[2::2], strict=True)
    }


def modules() -> list[str]:
    """Return the files that the tables must name."""
    return [
        name for name in tree.python_files("ingot") if not name.endswith("__init__.py")
    ]


def test_every_package_has_a_table() -> None:
    packages = {name.rpartition("/")[0] for name in modules()}
    # A program is a package of two modules: the table of `programs` names them.
    packages = {re.sub(r"^(ingot/programs)/.*", r"\1", name) for name in packages}
    assert set(tables()) == packages


def test_every_file_of_a_table_exists_and_every_module_is_in_one() -> None:
    named = {name for names in tables().values() for name in names}
    wrong = [f"{name}: no such file" for name in sorted(named - set(modules()))]
    wrong += [f"{name}: no table names it" for name in sorted(set(modules()) - named)]
    none(wrong)


def test_the_rooms_stand_in_the_order_of_the_layer_test() -> None:
    rows = tree.table(PAGE, "room")
    assert tuple(row[0].strip("`") for row in rows) == ROOMS
