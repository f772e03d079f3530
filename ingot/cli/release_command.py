"""Run `doit release` and `doit pull`: publish bundles, and bring one back."""

from __future__ import annotations

import sys
from pathlib import Path

from ingot.bundles.reader import Bundle, read_bundle
from ingot.cli.build_command import build_first
from ingot.cli.commands import Call
from ingot.cli.variables import check_used, integer
from ingot.engine.byte_sizes import format_size
from ingot.errors import IngotError, counted, did_you_mean
from ingot.project.catalogue import Selection, read, requested_models
from ingot.project.selection import check_runnable, select
from ingot.release import locations, publish, pull
from ingot.release.model_image import check_version, model_image

KEEP = 5

# The variables of each form of the command.
FORMS = {
    "": ("model", "target", "version", "to", "channel"),
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
    catalogue = read(call.root, requested_models(variables))
    selection = select(catalogue, variables)
    check_runnable(catalogue, selection)
    if len(selection.models) != 1:
        found = ", ".join(selection.models)
        raise IngotError(f"doit release needs one model, found {found}")
    tasks = [f"bundle:{selection.models[0]}@{x}" for x in selection.targets]
    if code := build_first(call, *tasks):
        return code
    image = model_image(_bundles(call.root, selection), version)
    moved = publish.publish(repository, image, channel)
    print(f"{repository.name}:{version} and :{channel} are {image.index.digest}")
    for target in image.targets:
        print(f"  {target.target:<18}{target.manifest.digest}")
    sent = f"{counted(moved.blobs, 'blob')}, {format_size(moved.size_bytes)}"
    print(f"  sent: {sent if moved.blobs else 'nothing, for all of it is there'}")
    return 0


def _bundles(root: Path, selection: Selection) -> list[Bundle]:
    (model,) = selection.models
    folders = [root / f"build/{model}/{x}/bundle" for x in selection.targets]
    return [read_bundle(folder) for folder in folders]


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
    print(f"{folder}: {bundle.name} {found.version}, {found.manifest.digest}")
    print(f"  fetched: {format_size(fetched)}; every file is as it was packed")
    print("  not verified: who published it; doit verify does that", file=sys.stderr)
    return 0


def _given(call: Call, name: str) -> str:
    """Return a variable that must be set.

    Raises: IngotError if it is not.
    """
    if not call.variables.get(name):
        raise IngotError(
            f"{name}= is missing",
            f"`doit help {call.doit['command'].name}` shows how it is used",
        )
    return call.variables[name]
