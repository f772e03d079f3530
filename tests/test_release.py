"""Test releases as OCI images: in registries, in folders and in buckets."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Callable, Iterator
from dataclasses import replace
from pathlib import Path

import pytest
from oras.client import OrasClient

from ingot.engine.cache.backend import Timeouts
from ingot.errors import IngotError
from ingot.release import locations, oci_registry, pull
from ingot.release.model_image import (
    ModelImage,
    model_image,
    parameter_size,
    version_order,
)
from ingot.release.oci_documents import EMPTY_CONFIG, described, manifest
from ingot.release.publish import promote, prune, publish
from ingot.release.repository import Repository, read_document
from tests.bucket_server import serving_bucket
from tests.registry_server import (
    BASIC,
    RegistryServer,
    docker_registry,
    registry_server,
)
from tests.tiny_release import WEIGHTS, written

TARGETS = ("x86_64", "x86_64-v4", "aarch64", "vulkan")


@pytest.fixture
def server() -> Iterator[RegistryServer]:
    with registry_server() as running:
        yield running


@pytest.fixture
def there(server: RegistryServer) -> Repository:
    """A repository of the registry that misbehaves on demand."""
    return locations.open_repository(server.address)


@pytest.fixture(
    params=[
        "registry 1.1",
        "registry 1.0",
        pytest.param("docker-registry", marks=pytest.mark.registry),
        "folder",
    ]
)
def place(
    request: pytest.FixtureRequest, tmp_path: Path, server: RegistryServer
) -> Iterator[Repository]:
    """A repository of each kind."""
    if request.param == "docker-registry":
        with docker_registry(tmp_path / "registry") as address:
            yield locations.open_repository(address)
    elif request.param == "folder":
        yield locations.open_repository(str(tmp_path / "layout"))
    else:
        server.knows_referrers = request.param == "registry 1.1"
        yield locations.open_repository(server.address)


@pytest.fixture(scope="module")
def images(tmp_path_factory: pytest.TempPathFactory) -> Callable[[str], ModelImage]:
    """The image of the same four bundles, in any version."""
    folder = tmp_path_factory.mktemp("bundles")
    bundles = [written(folder / target, target) for target in TARGETS]
    return lambda version: model_image(bundles, version)


def refusal(function: Callable[[], object]) -> str:
    with pytest.raises(IngotError) as caught:
        function()
    return str(caught.value)


def test_a_release_comes_back_byte_by_byte(
    place: Repository, images: Callable[[str], ModelImage], tmp_path: Path
) -> None:
    image = images("1.4.0")
    moved = publish(place, image, "dev")
    # Four targets share the archive and four more files of their bundles.
    own = ("the configuration", "bundle.json", "model.vmfb")
    assert moved.blobs == 4 * len(own) + 5
    found = pull.find(place, "dev", "aarch64")
    assert found.version == "1.4.0"
    assert found.index.digest == image.index.digest
    assert pull.fetch_bundle(place, found, tmp_path / "pulled") > len(WEIGHTS)
    source = [x for _, x in image.targets[0].blobs if isinstance(x, Path)]
    assert len(source) == 7
    for path in source:
        assert (tmp_path / "pulled" / path.name).read_bytes() == path.read_bytes()
    assert pull.fetch_bundle(place, found, tmp_path / "pulled") == 0


def test_an_unchanged_release_moves_no_blob_byte(
    server: RegistryServer, there: Repository, images: Callable[[str], ModelImage]
) -> None:
    publish(there, images("1.4.0"), "dev")
    server.asked.clear()
    server.sent_bytes = 0
    publish(there, images("1.4.0"), "dev")
    assert dict(server.asked) == {"GET manifests": 2}
    # The next version has other configurations, which name it, and no other new blob.
    server.asked.clear()
    publish(there, images("1.4.1"), "dev")
    assert server.asked["PUT blobs"] == len(TARGETS)
    assert server.sent_bytes < 4000 < len(WEIGHTS)


def test_an_image_has_a_platform_for_each_processor(
    images: Callable[[str], ModelImage],
) -> None:
    value = json.loads(images("1.4.0").index.content)
    assert value["artifactType"] == "application/vnd.cncf.model.manifest.v1+json"
    found = {
        item["annotations"]["ingot.target"]: item.get("platform")
        for item in value["manifests"]
    }
    assert found == {
        "aarch64": {"architecture": "arm64", "os": "linux", "variant": "v8"},
        "vulkan": None,
        "x86_64": {"architecture": "amd64", "os": "linux", "variant": "v3"},
        "x86_64-v4": {"architecture": "amd64", "os": "linux", "variant": "v4"},
    }


def test_layers_have_the_media_types_of_modelpack(
    images: Callable[[str], ModelImage],
) -> None:
    content = images("1.4.0").targets[0].manifest.content
    value = json.loads(content)
    kinds = {
        layer["annotations"]["org.cncf.model.filepath"]: layer["mediaType"]
        for layer in value["layers"]
    }
    prefix = "application/vnd.cncf.model."
    assert kinds == {
        "LICENSE": f"{prefix}doc.v1.raw",
        "bundle.json": f"{prefix}weight.config.v1.raw",
        "check.json": f"{prefix}doc.v1.raw",
        "golden.json": f"{prefix}doc.v1.raw",
        "model.irpa": f"{prefix}weight.v1.raw",
        "model.vmfb": f"{prefix}code.v1.raw",
        "tokenizer.json": f"{prefix}weight.config.v1.raw",
    }
    config = json.loads(images("1.4.0").targets[0].blobs[0][1])  # type: ignore[arg-type]
    assert config["descriptor"] == {
        "name": "tiny",
        "version": "1.4.0",
        "licenses": ["Apache-2.0"],
    }
    assert config["config"]["paramSize"] == "2.6K"
    diffs = [layer["digest"] for layer in value["layers"]]
    assert config["modelfs"] == {"type": "layers", "diffIds": diffs}
    assert [parameter_size(x) for x in (999, 134_515_008, 7_240_000_000)] == [
        "1.0K",
        "134.5M",
        "7.2B",
    ]


def test_a_version_never_changes(
    there: Repository, images: Callable[[str], ModelImage], tmp_path: Path
) -> None:
    publish(there, images("1.4.0"), "dev")
    other = model_image([written(tmp_path / "other")], "1.4.0")
    message = refusal(lambda: publish(there, other, "dev"))
    assert ":1.4.0 is there, and is another release; expected sha256:" in message
    assert message.endswith("a version never changes: release the next one")


def test_promoting_and_rolling_back_move_no_bytes(
    server: RegistryServer, there: Repository, images: Callable[[str], ModelImage]
) -> None:
    old, new = images("1.3.0"), images("1.4.0")
    publish(there, old, "dev")
    publish(there, new, "dev")
    server.asked.clear()
    assert promote(there, "dev", "release") == new.index.digest
    assert promote(there, "1.3.0", "release") == old.index.digest
    assert dict(server.asked) == {"GET manifests": 2, "PUT manifests": 2}
    assert read_document(there, "release") == old.index
    message = refusal(lambda: promote(there, "1.5.0", "release"))
    tags = "tags that are there: 1.3.0, 1.4.0, dev, release"
    assert message == f"{there.name}: there is no '1.5.0'\n  {tags}"
    message = refusal(lambda: promote(there, "dev", "1.4.0"))
    assert message.startswith("1.4.0 is a version, and a version never changes")
    manifest = new.targets[0].manifest.digest
    assert refusal(lambda: promote(there, manifest, "release")).endswith(
        "is no release"
    )


def test_pruning_keeps_the_newest_and_what_a_channel_names(
    place: Repository, images: Callable[[str], ModelImage]
) -> None:
    versions = ("1.0.0", "1.2.0-rc.1", "1.2.0", "1.10.0", "1.9.0")
    for version in versions:
        publish(place, images(version), "dev")
    publish(place, images("1.0.0"), "release")
    evidence = manifest(
        "application/x",
        described(EMPTY_CONFIG, b"{}"),
        (),
        {},
        images("1.2.0").targets[0].descriptor,
    )
    place.put_blob(described(EMPTY_CONFIG, b"{}"), b"{}")
    place.put_document(evidence)
    said: list[str] = []
    prune(place, 1, True, said.append)
    assert set(versions) < set(place.tags())
    assert said[-1] == f"{place.name}: would remove 2 versions of 5"
    said.clear()
    prune(place, 1, False, said.append)
    assert said == [
        "  kept 1.10.0",
        "  kept 1.9.0 (dev)",
        "  removed 1.2.0",
        "  removed 1.2.0-rc.1",
        "  kept 1.0.0 (release)",
        f"{place.name}: removed 2 versions of 5",
    ]
    known = {tag for tag in place.tags() if not tag.startswith("sha256-")}
    assert known == {"1.10.0", "1.9.0", "dev", "1.0.0", "release"}
    assert place.get_document(evidence.digest) is None
    for kept in ("1.10.0", "dev", "release"):
        assert pull.find(place, kept, "vulkan").target == "vulkan"


def test_a_folder_frees_blobs_that_no_release_needs(
    images: Callable[[str], ModelImage], tmp_path: Path
) -> None:
    place = locations.open_repository(str(tmp_path / "layout"))
    for version in ("1.0.0", "1.1.0"):
        publish(place, images(version), "dev")
    blobs = tmp_path / "layout/blobs/sha256"
    before = len(list(blobs.iterdir()))
    prune(place, 1, False, lambda line: None)
    # Four configurations, four manifests and an index.
    assert len(list(blobs.iterdir())) == before - 9
    for path in blobs.iterdir():
        assert hashlib.sha256(path.read_bytes()).hexdigest() == path.name
    assert json.loads((tmp_path / "layout/oci-layout").read_text()) == {
        "imageLayoutVersion": "1.0.0"
    }


def test_versions_are_ordered_as_semver_says() -> None:
    ordered = ["0.9.0", "1.0.0-1", "1.0.0-2", "1.0.0-10", "1.0.0-rc", "1.0.0", "1.0.10"]
    assert sorted(set(ordered), key=version_order) == ordered


def test_an_interrupted_pull_goes_on_where_it_stopped(
    server: RegistryServer,
    there: Repository,
    images: Callable[[str], ModelImage],
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    publish(there, images("1.4.0"), "dev")
    found = pull.find(there, "1.4.0", "x86_64")
    monkeypatch.setattr(pull, "TRIES", 1)
    server.fault = "stops"
    message = refusal(lambda: pull.fetch_bundle(there, found, tmp_path / "x"))
    assert server.ranges == []
    monkeypatch.undo()
    server.faults_left = 1
    pull.fetch_bundle(there, found, tmp_path / "x")
    # What the first command had is not fetched again; nor is it after the next stop.
    assert len(server.ranges) == 2
    assert all(x != "bytes=0-" for x in server.ranges)
    assert (tmp_path / "x/model.irpa").read_bytes() == WEIGHTS
    assert not list((tmp_path / "x").glob("*.partial"))
    assert "127.0.0.1" in message


def test_a_registry_without_ranges_sends_all_again(
    server: RegistryServer,
    there: Repository,
    images: Callable[[str], ModelImage],
    tmp_path: Path,
) -> None:
    publish(there, images("1.4.0"), "dev")
    found = pull.find(there, "1.4.0", "x86_64")
    (tmp_path / "model.irpa.partial").write_bytes(WEIGHTS[:100])
    server.fault = "knows no ranges"
    assert pull.fetch_bundle(there, found, tmp_path) > len(WEIGHTS)
    assert (tmp_path / "model.irpa").read_bytes() == WEIGHTS


def test_a_damaged_partial_file_is_fetched_again(
    there: Repository, images: Callable[[str], ModelImage], tmp_path: Path
) -> None:
    publish(there, images("1.4.0"), "dev")
    found = pull.find(there, "1.4.0", "x86_64")
    (tmp_path / "model.irpa.partial").write_bytes(b"rotten")
    message = refusal(lambda: pull.fetch_bundle(there, found, tmp_path))
    assert "model.irpa: it sent other bytes than those of sha256:" in message
    assert not (tmp_path / "model.irpa.partial").exists()
    pull.fetch_bundle(there, found, tmp_path)
    assert (tmp_path / "model.irpa").read_bytes() == WEIGHTS


LIES = {
    "lies": "it sent other bytes than those of sha256:",
    "sends more": "it sent other bytes than those of sha256:",
    "other document": "it sent another document than it was asked for; expected",
    "no document": "not JSON",
    "endless document": "it sent more than 4194304 bytes in place of a document",
    "refuses": "failed with 403 (DENIED: not for you[31m)\n  `docker login` writes",
}


@pytest.mark.parametrize("fault", LIES)
def test_what_a_bad_registry_sends_is_rejected(
    fault: str,
    server: RegistryServer,
    there: Repository,
    images: Callable[[str], ModelImage],
    tmp_path: Path,
) -> None:
    publish(there, images("1.4.0"), "dev")
    server.fault = fault

    def fetch() -> None:
        found = pull.find(there, "1.4.0", "x86_64")
        pull.fetch_bundle(there, found, tmp_path / "x")

    assert LIES[fault] in refusal(fetch)
    assert not list(tmp_path.glob("x/*irpa*"))


FAULTS = {
    "stores another": "it stored another document than it was sent; expected sha256:",
    "sends away": "it names no address for an upload",
    "refuses": "failed with 403 (DENIED: not for you[31m)",
}


@pytest.mark.parametrize("fault", FAULTS)
def test_a_registry_that_takes_a_release_wrongly_is_an_error(
    fault: str,
    server: RegistryServer,
    there: Repository,
    images: Callable[[str], ModelImage],
) -> None:
    server.fault = fault
    assert FAULTS[fault] in refusal(lambda: publish(there, images("1.4.0"), "dev"))
    assert "1.4.0" not in server.manifests or fault == "stores another"


@pytest.mark.parametrize("fault", ["is busy", "breaks an upload"])
def test_a_short_failure_of_a_registry_is_tried_again(
    fault: str,
    server: RegistryServer,
    there: Repository,
    images: Callable[[str], ModelImage],
) -> None:
    server.fault = fault
    publish(there, images("1.4.0"), "dev")
    assert server.faults_left == 0
    assert read_document(there, "1.4.0") == images("1.4.0").index


def test_a_registry_that_deletes_nothing_says_how_it_would(
    server: RegistryServer, there: Repository, images: Callable[[str], ModelImage]
) -> None:
    for version in ("1.0.0", "1.1.0"):
        publish(there, images(version), "dev")
    server.fault = "keeps all"
    message = refusal(lambda: prune(there, 1, False, lambda line: None))
    assert "failed with 405" in message
    assert message.endswith("storage.delete.enabled")


def test_a_server_that_is_not_there_is_an_error(
    monkeypatch: pytest.MonkeyPatch, images: Callable[[str], ModelImage]
) -> None:
    monkeypatch.setattr(oci_registry, "TRIES", 0)
    nobody = oci_registry.Registry("http://127.0.0.1:9", "x", "", Timeouts(0.2, 0.2))
    message = refusal(lambda: publish(nobody, images("1.4.0"), "dev"))
    assert message == "oci://127.0.0.1:9/x: GET failed: Connection refused"


@pytest.mark.parametrize("login", ["basic", "bearer"])
def test_a_registry_knows_the_user_of_docker_login(
    login: str,
    server: RegistryServer,
    images: Callable[[str], ModelImage],
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    server.login = login
    monkeypatch.setenv("DOCKER_CONFIG", str(tmp_path))
    stranger = locations.open_repository(server.address)
    message = refusal(lambda: publish(stranger, images("1.4.0"), "dev"))
    assert "failed with 401" in message
    assert message.endswith(
        "`docker login` writes the user and password that are used here"
    )
    host = f"127.0.0.1:{server.server_port}"
    auths = {"auths": {host: {"auth": BASIC.removeprefix("Basic ")}}}
    (tmp_path / "config.json").write_text(json.dumps(auths))
    publish(locations.open_repository(server.address), images("1.4.0"), "dev")
    assert "1.4.0" in server.manifests


@pytest.mark.parametrize(
    ("address", "place", "reference"),
    [
        ("oci://host:5000/a/b:1.4.0", "oci://host:5000/a/b", "1.4.0"),
        ("oci://host:5000/a/b", "oci://host:5000/a/b", ""),
        (f"oci://host/a@sha256:{'0' * 64}", "oci://host/a", f"sha256:{'0' * 64}"),
        ("releases/tiny:dev", "releases/tiny", "dev"),
        ("releases/tiny", "releases/tiny", ""),
        ("s3://bucket/tiny:dev", "s3://bucket/tiny", "dev"),
        ("s3://bucket", "s3://bucket", ""),
    ],
)
def test_an_address_has_a_place_and_a_tag_or_a_digest(
    address: str, place: str, reference: str
) -> None:
    assert locations.parse(address) == locations.Location(place, reference)


@pytest.mark.parametrize(
    ("address", "message"),
    [
        ("oci://host/a@sha256:12", "not a digest; expected sha256:<64 hex digits>"),
        ("oci://host/a:b c", "not a tag: 'b c'"),
        ("oci://host/A", "oci://host/A: not a repository of a registry"),
        ("oci://host", "oci://host: not a repository of a registry"),
        ("oci://host/a/../b", "not a repository of a registry"),
        ("ftp://host/a", "ftp://host/a: no kind of place named 'ftp'"),
    ],
)
def test_what_is_no_address_is_an_error(address: str, message: str) -> None:
    def use() -> None:
        locations.open_repository(locations.parse(address).place)

    assert message in refusal(use)


def test_a_layout_is_told_from_a_bundle(
    images: Callable[[str], ModelImage],
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.chdir(tmp_path)
    publish(locations.open_repository("layout"), images("1.4.0"), "dev")
    Path("a: bundle.tar").touch()
    digest = images("1.4.0").index.digest
    for text in ("layout", "layout:dev", f"layout@{digest}", "oci://host/a", "s3://a"):
        assert locations.is_release(text), text
    for text in ("a: bundle.tar", "none:dev", "a bundle", str(tmp_path)):
        assert not locations.is_release(text), text


def test_only_loopback_is_asked_without_tls() -> None:
    for address, base in {
        "oci://127.0.0.1:5000/a": "http://127.0.0.1:5000",
        "oci://localhost/a": "http://localhost",
        "oci://[::1]:5000/a": "http://[::1]:5000",
        "oci+http://host/a": "http://host",
        "oci://host/a": "https://host",
        "oci://localhost.host/a": "https://localhost.host",
    }.items():
        registry = locations.open_repository(address)
        assert isinstance(registry, oci_registry.Registry)
        assert registry._base == base


def test_weights_that_must_not_be_given_away_are_not_released(tmp_path: Path) -> None:
    bundle = written(tmp_path / "b", redistribution="no", licence="LicenseRef-X")
    message = refusal(lambda: model_image([bundle], "1.0.0"))
    assert message.startswith("tiny@x86_64: LicenseRef-X does not let you give these")


def test_a_pull_says_which_targets_there_are(
    there: Repository, images: Callable[[str], ModelImage], tmp_path: Path
) -> None:
    publish(there, images("1.4.0"), "dev")
    message = refusal(lambda: pull.find(there, "1.4.0", ""))
    assert message == (
        f"{there.name}: 1.4.0: it has several targets\n"
        "  name one: target=aarch64, vulkan, x86_64, x86_64-v4"
    )
    assert "it has no target 'mips'" in refusal(lambda: pull.find(there, "dev", "mips"))
    (tmp_path / "other").touch()
    found = pull.find(there, "1.4.0", "x86_64")
    message = refusal(lambda: pull.fetch_bundle(there, found, tmp_path))
    assert message.endswith("not a file of this release\n  pull into an empty folder")


@pytest.mark.parametrize("name", ["../x", "", "a/b", ".hidden", "model.irpa"])
def test_a_layer_cannot_be_written_elsewhere(
    name: str, there: Repository, images: Callable[[str], ModelImage]
) -> None:
    publish(there, images("1.4.0"), "dev")
    found = pull.find(there, "1.4.0", "x86_64")
    value = json.loads(found.manifest.content)
    value["layers"][0]["annotations"]["org.opencontainers.image.title"] = name
    content = json.dumps(value).encode()
    wrong = replace(found, manifest=replace(found.manifest, content=content))
    assert refusal(wrong.files).startswith("the manifest: layers: not a name of a file")


@pytest.mark.registry
def test_oras_pulls_what_is_released(
    images: Callable[[str], ModelImage], tmp_path: Path
) -> None:
    with docker_registry(tmp_path / "registry") as address:
        there = locations.open_repository(address)
        image = images("1.4.0")
        publish(there, image, "dev")
        plain = address.removeprefix("oci://")
        client = OrasClient(insecure=True)
        manifest = image.targets[2].manifest
        client.pull(f"{plain}@{manifest.digest}", outdir=str(tmp_path / "oras"))
        found = pull.find(there, "1.4.0", "x86_64")
        pull.fetch_bundle(there, found, tmp_path / "own")
        for path in (tmp_path / "own").iterdir():
            assert (tmp_path / "oras" / path.name).read_bytes() == path.read_bytes()
        assert len(list((tmp_path / "oras").iterdir())) == 7


def test_a_bucket_keeps_releases(
    images: Callable[[str], ModelImage],
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    with serving_bucket() as bucket:
        for name, value in {
            "AWS_ENDPOINT_URL": bucket.url,
            "AWS_ACCESS_KEY_ID": "key",
            "AWS_SECRET_ACCESS_KEY": "s3cret",
            "AWS_REGION": "eu-central-1",
        }.items():
            monkeypatch.setenv(name, value)
        place = locations.open_repository("s3://bucket/tiny")
        publish(place, images("1.4.0"), "dev")
        found = pull.find(place, "dev", "aarch64")
        (tmp_path / "model.irpa.partial").write_bytes(WEIGHTS[:100])
        pull.fetch_bundle(place, found, tmp_path)
        assert (tmp_path / "model.irpa").read_bytes() == WEIGHTS
        assert "/bucket/tiny/oci-layout" in bucket.objects
        bucket.refuses = 403
        message = refusal(lambda: publish(place, images("1.5.0"), "dev"))
    assert message.startswith("s3://bucket/tiny: HEAD index.json failed: Permission")
