"""Run `doit release` and `doit pull`: publish bundles, and bring one back."""

from __future__ import annotations

import json
import os
import sys
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from ingot.bundles.reader import Bundle, read_bundle
from ingot.cli.build_command import build_first
from ingot.cli.commands import Call
from ingot.cli.connections import open_store
from ingot.cli.runnable_model import read_built
from ingot.cli.variables import check_used, integer
from ingot.dsse import Algorithm, PrivateKey, generate, read_private_key
from ingot.engine.byte_sizes import format_size
from ingot.engine.toolchain import identity
from ingot.errors import IngotError, counted, did_you_mean
from ingot.model.text_files import read_file, why
from ingot.model.yaml_nodes import format_errors
from ingot.project.catalogue import read, requested_models
from ingot.project.selection import check_runnable, select
from ingot.release import locations, publish, pull
from ingot.release.evidence import (
    Builder,
    Evidence,
    folder_of,
    make_evidence,
    read_attached,
    write_folder,
)
from ingot.release.model_image import ModelImage, check_version, model_image
from ingot.release.model_signature import check_key
from ingot.release.policy import Policy, Signer, judge_release, read_policy, signers
from ingot.release.provenance import BUILDER, read_checkout
from ingot.release.repository import Repository
from ingot.release.statements import Subject, now
from ingot.release.vouching import Wanted, check_policy, trusted

KEEP = 5

# What must be set, in messages.
EXAMPLES = {
    "from": "oci://HOST/REPO:1.4.0",
    "to": "releases/toy-moe",
    "version": "1.4.0",
}

# A private key in PEM, for machines that have secrets in variables.
KEY_VARIABLE = "INGOT_RELEASE_KEY"

KEYS: tuple[tuple[str, Algorithm, str], ...] = (
    ("release", "ecdsa-p256", "signs releases; doit release key=, doit verify key="),
    ("results", "ed25519", "signs results of a shared cache"),
)

# The variables of each form of the command.
FORMS = {
    "": (
        *("model", "target", "version", "to", "channel"),
        *("key", "policy", "builder"),
    ),
    "promote": ("from", "to"),
    "prune": ("from", "keep"),
}


def release(call: Call) -> int:
    """Publish, promote or prune.

    Raises: IngotError if the command line is wrong, or the place fails.
    """
    form = call.words[0] if call.words else ""
    if form not in FORMS or len(call.words) > 1:
        known = [name for name in FORMS if name]
        raise IngotError(
            f"release {' '.join(call.words)}: expected promote, prune or nothing",
            did_you_mean(form, known, "forms"),
        )
    words = f"doit release {form}".strip()
    check_used(call.variables, FORMS[form], words)
    if call.options.get("dry_run") and form != "prune":
        raise IngotError(f"{words}: -d is for doit release prune")
    return {"": _publish, "promote": _promote, "prune": _prune}[form](call)


def _publish(call: Call) -> int:
    variables = dict(call.variables)
    place, version = _given(call, "to"), _given(call, "version")
    channel = variables.get("channel", publish.CHANNEL)
    check_version(version)
    publish.check_channel(channel)
    location = locations.parse(place)
    if location.reference:
        raise IngotError(f"to={place}: version= is the tag of a release; leave it out")
    repository = locations.open_repository(location.place)
    signing = _signing(call)
    catalogue = read(call.root, requested_models(variables))
    selection = select(catalogue, variables)
    check_runnable(catalogue, selection)
    if len(selection.models) != 1:
        found = ", ".join(selection.models)
        raise IngotError(f"doit release needs one model, found {found}")
    names = [f"{selection.models[0]}@{target}" for target in selection.targets]
    if code := build_first(call, *(f"bundle:{name}" for name in names)):
        return code
    bundles = [read_built(call.root, name) for name in names]
    image = model_image(bundles, version)
    evidence = signing.evidence(repository, image, bundles) if signing else {}
    moved = publish.publish(repository, image, channel, evidence)
    print(f"{repository.name}:{version} and :{channel} are {image.index.digest}")
    for target in image.targets:
        print(f"  {target.target:<18}{target.manifest.digest}")
    sent = f"{counted(moved.blobs, 'blob')}, {format_size(moved.size_bytes)}"
    print(f"  sent: {sent if moved.blobs else 'nothing, for all of it is there'}")
    if signing is None:
        print("  not signed: key=FILE signs it", file=sys.stderr)
    else:
        state = "signed" if evidence else "signed already"
        print(f"  {state}: key {signing.key.public.key_id[:16]}")
    return 0


def _signing(call: Call) -> Signing | None:
    """Return how to sign; None if there is no key.

    Raises: IngotError if the key or the policy is wrong, or a policy has no key.
    """
    name = call.variables.get("key", "")
    policy_name = call.variables.get("policy", "")
    if name:
        try:
            pem = read_file(Path(name).expanduser())
        except OSError as error:
            raise IngotError(f"key={name}: {why(error)}") from error
    else:
        pem, name = os.environ.get(KEY_VARIABLE, "").encode(), KEY_VARIABLE
    if not pem:
        if policy_name:
            raise IngotError("policy= needs key=: it judges what is signed")
        return None
    key = read_private_key(pem, name)
    check_key(key.public, name)
    policy = None
    trust: tuple[Signer, ...] = ()
    if policy_name:
        try:
            policy = read_policy(Path(policy_name).expanduser())
        except ExceptionGroup as group:
            raise IngotError(format_errors(group)) from group
        trust = signers(policy, Path(policy_name).expanduser())
    packages = ("iree-base-compiler", "iree-base-runtime")
    digests = open_store().digests
    builder = Builder(
        checkout=read_checkout(call.root),
        name=call.variables.get("builder", BUILDER),
        created=now(),
        packages={x: identity(x, digests).rpartition(" ")[2] for x in packages},
    )
    return Signing(key, builder, policy, trust or (Signer("this key", key.public),))


@dataclass(frozen=True, slots=True)
class Signing:
    """The key, the builder and the policy of a release."""

    key: PrivateKey
    builder: Builder
    policy: Policy | None
    signers: tuple[Signer, ...]  # whose signatures count

    def evidence(
        self, repository: Repository, image: ModelImage, bundles: list[Bundle]
    ) -> dict[str, dict[str, bytes]]:
        """Return the evidence that is not there yet, by target.

        Raises: IngotError if the release breaks the policy.
        """
        if self.policy is not None:
            judge_release(self.policy, tuple(x.target for x in image.targets))
        made = {}
        by_target = {str(x.contract["target"]["name"]): x for x in bundles}
        for target in image.targets:
            bundle = by_target[target.target]
            subject = Subject(image.model, image.version, target.target, target.files)
            there = read_attached(repository, target.manifest.digest)
            try:
                self._judge(subject, there, bundle)
            except IngotError:
                new = make_evidence(
                    bundle, subject, _bench(bundle), self.builder, self.key
                )
                self._judge(subject, {k: (v,) for k, v in new.items()}, bundle)
                made[target.target] = new
        return made

    def _judge(self, subject: Subject, evidence: Evidence, bundle: Bundle) -> None:
        wanted = Wanted(
            self.signers,
            now(),
            self.policy,
            subject.model,
            subject.target,
            subject.version,
        )
        found = trusted(subject.name, evidence, subject.files, wanted)
        check_policy(found, bundle.contract, wanted)


def _bench(bundle: Bundle) -> dict[str, Any]:
    """Return what was measured of a bundle; nothing if that is not beside it."""
    contract = bundle.contract
    name = f"{contract['model']}-{contract['target']['name']}.bench.json"
    path = bundle.folder.parent / name
    if not path.is_file():
        return {}
    measured: dict[str, Any] = json.loads(path.read_text(encoding="utf-8"))
    return measured


def make_keys(call: Call) -> int:
    """Write the keys of releases and of results into a folder.

    Raises: IngotError if one is there already, or cannot be written.
    """
    folder = Path(_given(call, "to")).expanduser()
    for name, algorithm, purpose in KEYS:
        key = generate(algorithm)
        for path, content, mode in (
            (folder / f"{name}.key", key.pem, 0o600),
            (folder / f"{name}.pub", key.public.pem, 0o644),
        ):
            try:
                folder.mkdir(parents=True, exist_ok=True)
                flags = os.O_WRONLY | os.O_CREAT | os.O_EXCL
                with os.fdopen(os.open(path, flags, mode), "wb") as file:
                    file.write(content)
            except FileExistsError:
                hint = "a key is not overwritten; choose another folder"
                raise IngotError(f"{path}: already exists", hint) from None
            except OSError as error:
                raise IngotError(
                    f"{path}: cannot be written; {error.strerror}"
                ) from error
        print(f"{folder / name}.key and .pub: {algorithm}, {purpose}")
        print(f"  {key.public.text}")
    return 0


def _promote(call: Call) -> int:
    location = locations.parse(_given(call, "from"))
    channel = _given(call, "to")
    if not location.reference:
        hint = "doit release promote from=oci://HOST/REPO:1.4.0 to=release"
        raise IngotError("from= needs a tag or a digest", hint)
    repository = locations.open_repository(location.place)
    digest = publish.promote(repository, location.reference, channel)
    print(f"{repository.name}:{channel} is {location.reference}, {digest}")
    return 0


def _prune(call: Call) -> int:
    location = locations.parse(_given(call, "from"))
    if location.reference:
        raise IngotError("from= needs a place without a tag: prune looks at all")
    keep = integer(call.variables, "keep", 1)
    repository = locations.open_repository(location.place)
    dry_run = bool(call.options.get("dry_run"))
    publish.prune(repository, KEEP if keep is None else keep, dry_run, print)
    return 0


def pull_bundle(call: Call) -> int:
    """Bring a bundle of a release into a folder.

    Raises: IngotError if there is none, or the place sends other bytes.
    """
    location = locations.parse(_given(call, "from"))
    folder = Path(_given(call, "to")).expanduser()
    if not location.reference:
        raise IngotError("from= needs a tag or a digest", "from=oci://HOST/REPO:1.4.0")
    repository = locations.open_repository(location.place)
    found = pull.find(repository, location.reference, call.variables.get("target", ""))
    fetched = pull.fetch_bundle(repository, found, folder)
    digests = {name: (x.sha256, x.size_bytes) for name, x in found.files().items()}
    bundle = read_bundle(folder, lambda path: digests[path.name])
    attached = read_attached(repository, found.manifest.digest)
    beside = [(name, contents[0]) for name, contents in attached.items()]
    if beside:
        write_folder(folder_of(folder), beside)
    print(f"{folder}: {bundle.name} {found.version}, {found.manifest.digest}")
    print(f"  fetched: {format_size(fetched)}; every file is as it was packed")
    print("  not verified: who published it; doit verify does that", file=sys.stderr)
    return 0


def _given(call: Call, name: str) -> str:
    """Return a variable that must be set.

    Raises: IngotError if it is not.
    """
    if not call.variables.get(name):
        raise IngotError(f"{name}= is missing", f"for example: {name}={EXAMPLES[name]}")
    return call.variables[name]
