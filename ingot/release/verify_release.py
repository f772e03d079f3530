"""Verify a release: who signed it first, then its files, and only then what it does.

The evidence is verified against the digests that the manifest states, before the files
are fetched; each file is compared with its digest as it arrives. Nothing of a bundle is
loaded before its signature, seal and file list hold.
"""

from __future__ import annotations

import shutil
import tempfile
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, replace
from pathlib import Path

from ingot.bundles.reader import read_bundle
from ingot.bundles.tarball import file_digest
from ingot.bundles.verify import Report, report
from ingot.dsse import read_public_key
from ingot.errors import IngotError
from ingot.model.text_files import read_file, why
from ingot.model.yaml_nodes import format_errors
from ingot.release import evidence, locations, pull
from ingot.release.model_image import VERSION_FORM, check_version
from ingot.release.model_signature import check_key
from ingot.release.oci_documents import Descriptor
from ingot.release.policy import Policy, Signer, read_policy, signers
from ingot.release.repository import Broken
from ingot.release.statements import now
from ingot.release.vouching import Trusted, Wanted, check_policy, trusted

NOT_SIGNED = "who packed it is not known: key=FILE or policy=FILE names a trusted key"


@dataclass(frozen=True, slots=True)
class Asked:
    """What to verify a release by: the values of the command line."""

    key: str = ""  # the file of a public key
    policy: str = ""  # the file of a policy
    model: str = ""
    target: str = ""
    version: str = ""
    to: str = ""  # the folder that gets the bundle, if it is accepted


def read_wanted(asked: Asked) -> Wanted:
    """Return whom to trust, and what else is wanted.

    Raises: IngotError if nobody is to be trusted, or a file is wrong.
    """
    if asked.version:
        check_version(asked.version)
    policy, found = _policy(asked.policy)
    if asked.key:
        path = Path(asked.key).expanduser()
        try:
            key = read_public_key(read_file(path), asked.key)
        except OSError as error:
            raise IngotError(f"key={asked.key}: {why(error)}") from error
        same = [signer for signer in found if signer.key.der == key.der]
        if found and not same:
            raise IngotError(f"key={asked.key}: the policy does not trust this key")
        found = tuple(same) or (Signer(path.name, key),)
    for signer in found:
        check_key(signer.key, signer.name)
    if not found:
        raise IngotError("nobody is trusted", NOT_SIGNED)
    return Wanted(found, now(), policy, asked.model, asked.target, asked.version)


def verify_release(address: str, asked: Asked, root: Path, runs: bool) -> Report:
    """Return the report about one target of a release.

    Raises: IngotError with the reason why it is rejected.
    """
    location = locations.parse(address)
    if not location.reference:
        raise IngotError(f"{address}: a release has a tag or a digest", locations.FORMS)
    wanted = read_wanted(asked)
    if VERSION_FORM.fullmatch(location.reference) and not wanted.version:
        wanted = replace(wanted, version=location.reference)
    repository = locations.open_repository(location.place)
    found = pull.find(repository, location.reference, asked.target)
    wanted = replace(wanted, target=found.target)
    files = found.files()
    attached = evidence.read_attached(repository, found.manifest.digest)
    name = f"{repository.name}:{location.reference}"
    vouched = trusted(name, attached, _digests(files), wanted)
    with _folder(asked.to) as folder:
        pull.fetch_bundle(repository, found, folder)
        text = _report(folder, name, vouched, wanted, root, runs, files)
        if asked.to and not text.gap:
            beside = [(file, contents[0]) for file, contents in attached.items()]
            evidence.write_folder(evidence.folder_of(Path(asked.to)), beside)
            folder.rename(asked.to)
        return text


@contextmanager
def _folder(to: str) -> Iterator[Path]:
    """Provide a folder for a bundle that is not verified yet.

    What was fetched stays there only after a broken connection.

    Raises: IngotError if the folder that gets the bundle is there already.
    """
    if not to:
        with tempfile.TemporaryDirectory(prefix="release-") as temporary:
            yield Path(temporary) / "bundle"
        return
    if Path(to).exists():
        raise IngotError(f"to={to}: already exists", "name a new folder")
    folder = Path(f"{to}.unverified")
    try:
        yield folder
    except Broken:
        raise
    except IngotError:
        shutil.rmtree(folder, ignore_errors=True)
        raise
    shutil.rmtree(folder, ignore_errors=True)


def verify_folder(folder: Path, asked: Asked, root: Path, runs: bool) -> Report:
    """Return the report about a bundle whose evidence is in `<folder>.evidence`.

    Raises: IngotError with the reason why it is rejected.
    """
    wanted = read_wanted(asked)
    beside = evidence.read_folder(evidence.folder_of(folder))
    digests = {}
    for path in sorted(folder.iterdir()):
        if path.is_symlink() or not path.is_file():
            raise IngotError(f"{path.name}: not a plain file")
        digests[path.name] = file_digest(path)[0]
    vouched = trusted(folder.name, beside, digests, wanted)
    return _report(folder, folder.name, vouched, wanted, root, runs, None)


def _policy(name: str) -> tuple[Policy | None, tuple[Signer, ...]]:
    if not name:
        return None, ()
    path = Path(name).expanduser()
    try:
        policy = read_policy(path)
    except ExceptionGroup as group:
        raise IngotError(format_errors(group)) from group
    return policy, signers(policy, path)


def _digests(files: Mapping[str, Descriptor]) -> dict[str, str]:
    return {name: layer.sha256 for name, layer in files.items()}


def _report(
    folder: Path,
    name: str,
    vouched: Trusted,
    wanted: Wanted,
    root: Path,
    runs: bool,
    files: Mapping[str, Descriptor] | None,
) -> Report:
    """Read the bundle, judge it, and let the sandbox run it."""
    if files is None:
        bundle = read_bundle(folder.absolute())
    else:
        known = {file: (x.sha256, x.size_bytes) for file, x in files.items()}
        # Each was compared with its digest when it arrived.
        bundle = read_bundle(folder.absolute(), lambda path: known[path.name])
    check_policy(vouched, bundle.contract, wanted)
    version = vouched.signature.release.version
    signed = f"version {version}, signed by {vouched.signer}"
    if wanted.policy is not None:
        signed += ", as the policy demands"
    return report(bundle, name, root, runs, signed)
