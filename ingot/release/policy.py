"""Read what somebody demands of a release, and judge releases by it.

A policy is a YAML file, which those who publish and those who install can share. Each
rule that a release breaks is an error at the line that states it.
"""

from __future__ import annotations

from dataclasses import dataclass
from datetime import UTC, date, datetime
from pathlib import Path
from typing import Any

from ingot.dsse import PublicKey, read_public_key
from ingot.errors import IngotError
from ingot.model.manifest_schema import QualitySection
from ingot.model.schema_types import (
    Boolean,
    Integer,
    ListOf,
    Section,
    Text,
    key,
    optional,
    read,
)
from ingot.model.text_files import read_file, why
from ingot.model.yaml_nodes import raise_all
from ingot.release.model_image import VERSION_FORM, version_order

_VERSION = Text("a version such as 1.4.0", VERSION_FORM.pattern)
_DATE = Text("a date such as 2027-01-31, in quotes", r"\d{4}-\d{2}-\d{2}")
_NAME = Text("a name")


@dataclass(frozen=True, slots=True, kw_only=True)
class SignerSection(Section):
    """A key whose signatures count."""

    name: str = key(_NAME, "who signs with it, as messages say")
    key: str = key(_NAME, "the file of the public key, relative to this file")
    expires: str = optional(_DATE, "the first day on which it does not count any more")


@dataclass(frozen=True, slots=True, kw_only=True)
class Policy(Section):
    """What a release must be."""

    model: str = optional(_NAME, "the only model that this is about")
    minimum_version: str = optional(_VERSION, "an older version is rejected")
    max_age_days: int | None = optional(
        Integer(1), "a release that is older is rejected", default=None
    )
    signed_by: tuple[SignerSection, ...] = optional(
        ListOf(SignerSection, 1), "whose signatures count"
    )
    targets: tuple[str, ...] = optional(
        ListOf(_NAME, 1), "a release has all of these; no other is installed"
    )
    native_check: bool = optional(
        Boolean(), "whether the check must have run on the device, not on an emulator"
    )
    independent_judge: bool = optional(
        Boolean(), "whether another implementation must have judged the check"
    )
    clean_source: bool = optional(
        Boolean(), "whether the provenance must name a commit without local changes"
    )
    quality: QualitySection | None = optional(
        QualitySection, "what rounded weights may cost", default=None
    )
    licences: tuple[str, ...] = optional(
        ListOf(_NAME, 1), "the licences that are allowed, as SPDX writes them"
    )


@dataclass(frozen=True, slots=True)
class Signer:
    """A key whose signatures count."""

    name: str
    key: PublicKey
    expires: date | None = None

    def has_expired(self, seconds: int) -> bool:
        """Return whether the key has expired at this time."""
        today = datetime.fromtimestamp(seconds, UTC).date()
        return self.expires is not None and today >= self.expires


@dataclass(frozen=True, slots=True)
class Facts:
    """What a policy judges of one bundle of a release."""

    model: str
    version: str
    target: str
    created: int  # seconds since 1970
    licence: str
    judge: str
    emulated: bool
    quality: dict[str, Any] | None
    commit: str
    dirty: bool


def read_policy(path: Path) -> Policy:
    """Return the policy in a file.

    Raises:
        ExceptionGroup: of ManifestError, every mistake in it.
    """
    folder = path.absolute().parent
    policy = read(path.absolute(), folder, Policy)
    errors = []
    for number, signer in enumerate(policy.signed_by):
        if signer.expires:
            try:
                date.fromisoformat(signer.expires)
            except ValueError as error:
                part = f"signed_by[{number}].expires"
                errors.append(policy.at.error(part, f"not a date: {error}"))
    raise_all(errors)
    return policy


def signers(policy: Policy, path: Path) -> tuple[Signer, ...]:
    """Return the keys of a policy.

    Raises: IngotError for a file that holds no such key.
    """
    found: list[Signer] = []
    for signer in policy.signed_by:
        place = path.absolute().parent / signer.key
        try:
            content = read_file(place)
        except OSError as error:
            position = policy.at.position(f"signed_by[{len(found)}].key")
            raise IngotError(f"{position}: {signer.key}: {why(error)}") from error
        expires = date.fromisoformat(signer.expires) if signer.expires else None
        found.append(Signer(signer.name, read_public_key(content, signer.key), expires))
    return tuple(found)


def judge_release(policy: Policy, targets: tuple[str, ...]) -> None:
    """Check that a release has the targets of a policy.

    Raises: IngotError if it lacks one.
    """
    missing = [name for name in policy.targets if name not in targets]
    if missing:
        raise IngotError(
            f"{policy.at.position('targets')}: targets: the release lacks"
            f" {', '.join(missing)}; it has {', '.join(targets)}"
        )


def judge(policy: Policy, facts: Facts, now: int) -> None:
    """Check one bundle of a release.

    Raises: IngotError with every rule that it breaks, and where the rule is.
    """
    broken = [
        f"{policy.at.position(rule)}: {rule}: {text}"
        for rule, text in (*_identity(policy, facts, now), *_check(policy, facts))
    ]
    if broken:
        name = f"{facts.model}@{facts.target} {facts.version}"
        raise IngotError(f"{name} breaks the policy\n  " + "\n  ".join(broken))


def _identity(policy: Policy, facts: Facts, now: int) -> list[tuple[str, str]]:
    broken = []
    if policy.model and facts.model != policy.model:
        broken.append(("model", f"expected {policy.model}, found {facts.model}"))
    least = policy.minimum_version
    if least and version_order(facts.version) < version_order(least):
        text = f"expected {least} or newer, found {facts.version}"
        broken.append(("minimum_version", text))
    age_days = (now - facts.created) // 86400
    if policy.max_age_days is not None and age_days > policy.max_age_days:
        text = f"expected at most {policy.max_age_days} days, found {age_days}"
        broken.append(("max_age_days", text))
    if policy.targets and facts.target not in policy.targets:
        text = f"expected one of {', '.join(policy.targets)}, found {facts.target}"
        broken.append(("targets", text))
    if policy.licences and facts.licence not in policy.licences:
        text = f"expected one of {', '.join(policy.licences)}, found {facts.licence}"
        broken.append(("licences", text))
    if policy.clean_source and (facts.dirty or not facts.commit):
        text = "the source had local changes" if facts.dirty else "no commit is named"
        broken.append(("clean_source", text))
    return broken


def _check(policy: Policy, facts: Facts) -> list[tuple[str, str]]:
    broken = []
    if policy.native_check and facts.emulated:
        broken.append(("native_check", "the check ran on an emulator"))
    if policy.independent_judge and facts.judge.startswith("no "):
        broken.append(("independent_judge", f"found {facts.judge}"))
    for gate in ("max_kl", "min_top_1", "max_perplexity_ratio"):
        limit = getattr(policy.quality, gate) if policy.quality else None
        if limit is None:
            continue
        bound, _, name = gate.partition("_")
        found = (facts.quality or {}).get(name)
        if found is None:
            broken.append((f"quality.{gate}", "it was not measured"))
        elif found > limit if bound == "max" else found < limit:
            sign = "at most" if bound == "max" else "at least"
            text = f"expected {sign} {limit}, found {found}"
            broken.append((f"quality.{gate}", text))
    return broken
