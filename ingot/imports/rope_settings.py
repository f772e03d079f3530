"""Read the rope settings of a config.json: bases, shares, and how angles are scaled.

They are stated by themselves, in `rope_scaling` (older files) or in `rope_parameters`,
where layers that differ have an object for each kind of layer.

Source: transformers, modeling_rope_utils.py, whose defaults hold here too.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import Any

from ingot.errors import IngotError
from ingot.imports.checkpoint_facts import RopeSettings, Stated
from ingot.imports.hyperparameters import spelled

GROUPS = ("rope_scaling", "rope_parameters")
KINDS = ("full_attention", "sliding_attention")
"""The kinds of layers, by which rope settings differ."""

# By kind of layer: the key of its rope base in older configs.
_BASES = dict(zip(KINDS, ("rope_theta", "rope_local_base_freq"), strict=True))
_PLAIN = frozenset(("rope_type", "type", "rope_theta", "partial_rotary_factor"))
_TRAINED = "original_max_position_embeddings"
_POSITIONS = "max_position_embeddings"
_ATTENTION = "attention_factor"

# By type: the other keys that are read; None of these is missing unless it has one of
# the defaults below.
_KEYS = {
    "default": (),
    "linear": ("factor",),
    "dynamic": ("factor",),
    "llama3": ("factor", "low_freq_factor", "high_freq_factor", _TRAINED),
    "yarn": (
        *("factor", "beta_fast", "beta_slow", "truncate", _TRAINED),
        *(_ATTENTION, "mscale", "mscale_all_dim"),
    ),
    "longrope": ("short_factor", "long_factor", "factor", _TRAINED, _ATTENTION),
}
_NAMES = {"su": "longrope"}  # as the first Phi-3 checkpoints call it
*_FIRST, _LAST = map(repr, _KEYS)
_TYPES = f"{', '.join(_FIRST)} or {_LAST}"
_DBRX_BASES = (
    "transformers 5 reads only rope_parameters, and writes 10000 there even for weights"
    " that were trained with the base of attn_config: write the right one to both"
)
_ATTENTION_BASE = "attn_config.rope_theta"


def read_rope(
    config: Mapping[str, Any],
    file: str,
    stated: dict[str, Stated],
    errors: list[IngotError],
) -> RopeSettings:
    """Return the scaling of the angles; state bases and shares as single keys."""
    reader = _Reader(config, file, stated, errors)
    for group in GROUPS:
        reader.group(group, config.get(group))
    return RopeSettings(reader.scaling, tuple(reader.notes))


class _Reader:
    """Reads one group of settings after the other."""

    def __init__(
        self,
        config: Mapping[str, Any],
        file: str,
        stated: dict[str, Stated],
        errors: list[IngotError],
    ) -> None:
        self.config = config
        self.file = file
        self.stated = stated
        self.errors = errors
        self.scaling: dict[str, Stated] = {}
        self.notes: list[str] = []

    def group(self, group: str, value: Any) -> None:
        """Read an object of rope settings, or of one for each kind of layer."""
        if value is None:
            return
        place = f"{self.file}: {group}"
        if not isinstance(value, dict):
            found = f"expected an object or null, found {spelled(value)}"
            self.errors.append(IngotError(f"{place}: {found}"))
            return
        if not any(kind in value for kind in KINDS):
            self.settings(value, place, KINDS[0])
            return
        for kind in KINDS:
            if isinstance(value.get(kind), dict):
                self.settings(value[kind], f"{place}.{kind}", kind)
        for kind in value.keys() - {*KINDS}:
            self.stated[f"{group}.{kind}"] = Stated(value[kind], f"{place}.{kind}")

    def settings(self, settings: dict[str, Any], place: str, kind: str) -> None:
        """Read the settings of a kind of layer."""
        # Older configs call it `type`.
        named = next((key for key in ("rope_type", "type") if key in settings), None)
        given = settings[named] if named else "default"
        name = _NAMES.get(given, given) if isinstance(given, str) else given
        if name not in _KEYS or (not named and settings.keys() - _PLAIN):
            where = f"{place}.{named}" if named else place
            found = spelled(given if named else settings)
            self.errors.append(
                IngotError(f"{where}: not supported; expected {_TYPES}, found {found}")
            )
        else:
            group = place.removeprefix(f"{self.file}: ")
            for key in sorted(settings.keys() - _PLAIN - {*_KEYS[name]}):
                self.stated[f"{group}.{key}"] = Stated(settings[key], f"{place}.{key}")
            self.scale(name, settings, place, kind)
        if "partial_rotary_factor" in settings:
            share = Stated(
                settings["partial_rotary_factor"], f"{place}.partial_rotary_factor"
            )
            self.stated.setdefault("partial_rotary_factor", share)
        self.base(settings, place, kind)

    def base(self, settings: dict[str, Any], place: str, kind: str) -> None:
        """State the base of the angles, which may stand in two places."""
        if "rope_theta" not in settings:
            return
        key = _BASES[kind]
        found, older = settings["rope_theta"], self.stated.get(key)
        if older is not None and older.value != found:
            self.errors.append(
                IngotError(
                    f"{place}.rope_theta: expected {spelled(older.value)}, as"
                    f" {older.origin} has, found {spelled(found)}",
                    _DBRX_BASES if _ATTENTION_BASE in older.origin else "",
                )
            )
        self.stated[key] = Stated(found, f"{place}.rope_theta")

    def scale(self, name: str, settings: dict[str, Any], place: str, kind: str) -> None:
        """Read how the angles are scaled, if they are."""
        if name == "default":
            return
        if name == "dynamic":
            self.notes.append(
                f"{place}: positions are scaled only beyond {_POSITIONS}, so nothing is"
            )
            return
        given = {key: settings[key] for key in _KEYS[name] if key in settings}
        given = {key: value for key, value in given.items() if value is not None}
        for key in (_TRAINED, _POSITIONS):
            # transformers prefers what stands beside the object.
            if key in self.config and name != "linear":
                given[_TRAINED] = self.config[key]
                break
            if _TRAINED in given:
                break
        wrong = [key for key, value in given.items() if not _fits(key, value)]
        for key in wrong:
            expected = _EXPECTED.get(key, "a number above 0")
            found = f"expected {expected}, found {spelled(given[key])}"
            self.errors.append(IngotError(f"{place}.{key}: {found}"))
        missing = [key for key in _NEEDED[name] if key not in given]
        for key in missing:
            error = f"{place}.{key}: missing; rope of type {name!r} needs it"
            self.errors.append(IngotError(error))
        if not wrong and not missing:
            section = _SECTIONS[name](given, self.config.get(_POSITIONS))
            self.scaling[kind] = Stated({"kind": name, **section}, place)


_NEEDED = {
    "linear": ("factor",),
    "llama3": ("factor", "low_freq_factor", "high_freq_factor", _TRAINED),
    "yarn": ("factor", _TRAINED),
    "longrope": ("short_factor", "long_factor", _TRAINED),
}
_EXPECTED = {
    "truncate": "true or false",
    "short_factor": "a list of numbers above 0",
    "long_factor": "a list of numbers above 0",
    _TRAINED: "an integer, 1 or more",
}


def _fits(key: str, value: Any) -> bool:
    if key == "truncate":
        return isinstance(value, bool)
    if key in ("short_factor", "long_factor"):
        return isinstance(value, list) and all(map(_is_number, value))
    return _is_number(value) and (key != _TRAINED or type(value) is int)


def _is_number(value: Any) -> bool:
    return type(value) in (int, float) and 0 < value < math.inf


def _linear(given: dict[str, Any], positions: Any) -> dict[str, Any]:
    return {"factor": float(given["factor"])}


def _llama3(given: dict[str, Any], positions: Any) -> dict[str, Any]:
    names = ("factor", "low_freq_factor", "high_freq_factor")
    numbers = {name: float(given[name]) for name in names}
    return {**numbers, "n_ctx_trained": given[_TRAINED]}


def _yarn(given: dict[str, Any], positions: Any) -> dict[str, Any]:
    factor = float(given["factor"])
    scale, whole = given.get("mscale"), given.get("mscale_all_dim")
    attention = given.get(_ATTENTION)
    if attention is None and scale and whole:
        attention = _magnitude(factor, scale) / _magnitude(factor, whole)
    elif attention is None:
        attention = _magnitude(factor, 1.0)
    section = {
        "factor": factor,
        "beta_fast": float(given.get("beta_fast", 32)),
        "beta_slow": float(given.get("beta_slow", 1)),
        "attention_factor": float(attention),
        "n_ctx_trained": given[_TRAINED],
    }
    return section if given.get("truncate", True) else {**section, "truncate": False}


def _magnitude(factor: float, scale: float) -> float:
    """Return the factor of cosines and sines that the paper recommends."""
    return 0.1 * scale * math.log(factor) + 1 if factor > 1 else 1.0


def _longrope(given: dict[str, Any], positions: Any) -> dict[str, Any]:
    trained = given[_TRAINED]
    factor = given.get("factor") or (positions or trained) / trained
    attention = given.get(_ATTENTION)
    if attention is None:
        attention = 1.0
        if factor > 1:
            attention = math.sqrt(1 + math.log(factor) / math.log(trained))
    return {
        "short": [float(item) for item in given["short_factor"]],
        "long": [float(item) for item in given["long_factor"]],
        "attention_factor": float(attention),
        "n_ctx_trained": trained,
    }


_SECTIONS = {
    "linear": _linear,
    "llama3": _llama3,
    "yarn": _yarn,
    "longrope": _longrope,
}
