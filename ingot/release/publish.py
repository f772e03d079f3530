"""Publish a model's image, let a tag name it, and remove old versions.

A version is never changed: its tag names the same image forever. Other tags, such as
`dev` and `release`, are channels, which move. Blobs are sent first and the index last,
so whoever reads finds a whole release or none.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path

from ingot.errors import IngotError, counted
from ingot.release.evidence import attach
from ingot.release.locations import TAG
from ingot.release.model_image import VERSION_FORM, ModelImage, version_order
from ingot.release.oci_documents import INDEX, Descriptor
from ingot.release.repository import Repository, not_found, read_document

CHANNEL = "dev"


@dataclass(frozen=True, slots=True)
class Moved:
    """What a release sent."""

    blobs: int
    size_bytes: int


def publish(
    repository: Repository,
    image: ModelImage,
    channel: str,
    evidence: Mapping[str, Mapping[str, bytes]] | None = None,
) -> Moved:
    """Send what is not there yet; then the version's tag and the channel name it.

    `evidence` is what to attach, by target and file.

    Raises: IngotError if the version names another image, or the place fails.
    """
    check_channel(channel)
    found = repository.get_document(image.version)
    if found is not None and found.digest != image.index.digest:
        raise IngotError(
            f"{repository.name}:{image.version} is there, and is another release;"
            f" expected {image.index.digest}, found {found.digest}",
            "a version never changes: release the next one",
        )
    moved = Moved(0, 0)
    if found is None:
        blobs = [blob for target in image.targets for blob in target.blobs]
        moved = send_blobs(repository, blobs)
        for target in image.targets:
            repository.put_document(target.manifest)
    for target in image.targets:
        attached = (evidence or {}).get(target.target)
        if attached:
            attach(repository, target.manifest.descriptor(), attached)
    if found is None:
        repository.put_document(image.index, image.version)
    named = repository.get_document(channel)
    if named is None or named.digest != image.index.digest:
        repository.put_document(image.index, channel)
    return moved


def send_blobs(
    repository: Repository, blobs: list[tuple[Descriptor, Path | bytes]]
) -> Moved:
    """Store the blobs that are not there; each is asked for once."""
    contents = {
        descriptor.digest: (descriptor, content) for descriptor, content in blobs
    }
    sent = []
    for descriptor, content in contents.values():
        if not repository.has_blob(descriptor):
            repository.put_blob(descriptor, content)
            sent.append(descriptor.size_bytes)
    return Moved(len(sent), sum(sent))


def promote(repository: Repository, reference: str, channel: str) -> str:
    """Let a channel name what `reference` names; return its digest.

    No blob moves. To roll back, promote an older version.

    Raises: IngotError if there is no such release, or the channel is a version.
    """
    check_channel(channel)
    found = read_document(repository, reference)
    if found.media_type != INDEX:
        raise IngotError(f"{repository.name}: {reference} is no release")
    repository.put_document(found, channel)
    return found.digest


def check_channel(name: str) -> None:
    """Check the name of a channel.

    Raises: IngotError if it is no tag, or a version.
    """
    if VERSION_FORM.fullmatch(name):
        raise IngotError(
            f"{name} is a version, and a version never changes",
            "promote to a channel, such as release",
        )
    if TAG.fullmatch(name) is None or name.startswith("sha256-"):
        raise IngotError(
            f"'{name}' is no channel", "expected a name such as dev or release"
        )


def prune(
    repository: Repository, keep: int, dry_run: bool, say: Callable[[str], None]
) -> None:
    """Remove all versions but the newest and those that a channel names.

    Documents that are about a removed one go with it. A registry frees the blobs when
    it collects its garbage; a folder at once.

    Raises: IngotError if the place does not delete.
    """
    tags = [tag for tag in repository.tags() if not tag.startswith("sha256-")]
    if not tags:
        raise not_found(repository, "release")
    digests = {tag: read_document(repository, tag).digest for tag in tags}
    versions = [tag for tag in tags if VERSION_FORM.fullmatch(tag)]
    versions.sort(key=version_order, reverse=True)
    named: dict[str, list[str]] = {}
    for tag in sorted(set(tags) - set(versions)):
        named.setdefault(digests[tag], []).append(tag)
    newest = {digests[tag] for tag in versions[:keep]}
    kept = newest | named.keys()
    reached = {x for digest in kept for x in _documents(repository, digest)}
    verb = "would remove" if dry_run else "removed"
    removed = 0
    for tag in versions:
        if digests[tag] in kept:
            channels = ", ".join(named.get(digests[tag], []))
            say(f"  kept {tag}{f' ({channels})' if channels else ''}")
            continue
        if not dry_run:
            for digest in _documents(repository, digests[tag]):
                if digest not in reached:
                    repository.delete_document(digest)
        removed += 1
        say(f"  {verb} {tag}")
    say(f"{repository.name}: {verb} {counted(removed, 'version')} of {len(versions)}")


def _documents(repository: Repository, digest: str) -> list[str]:
    """Return an index, the manifests in it, and what is about them."""
    found = [digest]
    manifests = read_document(repository, digest).descriptors("manifests", digest)
    for item in manifests:
        found += [item.digest, *(x.digest for x in repository.referrers(item.digest))]
    return found
