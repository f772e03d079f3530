"""Test which pairs of models and targets a command selects, and which it rejects."""

from __future__ import annotations

import pytest

from ingot.errors import IngotError
from ingot.project.catalogue import Catalogue, Plan
from ingot.project.catalogue_values import Model, Settings
from ingot.project.selection import select


def refusing(*pairs: str) -> Catalogue:
    """A catalogue of models a, b and targets x, y, where these pairs cannot be had."""
    settings = Settings(
        models=("a", "b"),
        targets={"x": "", "y": ""},
        unrunnable={},
        aliases={},
        default_model="a",
        default_target="x",
        shared_cache=("", ""),
    )
    models = {
        model: Model(
            unbuildable={
                target: f"no {model} on {target}"
                for target in ("x", "y")
                if f"{model}@{target}" in pairs
            }
        )
        for model in settings.models
    }
    return Catalogue(settings, models, Plan(()))


@pytest.mark.parametrize(
    ("pairs", "variables", "message"),
    [
        (["a@x"], {}, "no a on x"),
        (["a@x"], {"target": "x,y"}, "no a on x"),
        (["b@y"], {"model": "a,b", "target": "y"}, "no b on y"),
        (["a@x", "a@y"], {"target": "x,y"}, "no a on x\nno a on y"),
        (["a@x", "a@y"], {"target": "all"}, "no a on x\nno a on y"),
    ],
)
def test_a_named_pair_that_cannot_be_had_is_refused(
    pairs: list[str], variables: dict[str, str], message: str
) -> None:
    with pytest.raises(IngotError) as caught:
        select(refusing(*pairs), variables)
    assert str(caught.value) == message


def test_the_default_model_is_not_selected_where_tasks_name_others() -> None:
    found = refusing("a@x")
    del found.models["a"]
    assert select(found, {}).models == ()


@pytest.mark.parametrize("variables", [{"target": "all"}, {"model": "all"}])
def test_all_leaves_out_a_pair_that_cannot_be_had(variables: dict[str, str]) -> None:
    chosen = select(refusing("a@x"), variables)
    assert chosen.skipped == (("a@x", "no a on x"),)
