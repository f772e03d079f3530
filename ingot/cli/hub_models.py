"""Find the model that `model=hf:OWNER/NAME@REVISION` means; import it if need be."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

from ingot.imports.checkpoint import import_checkpoint
from ingot.imports.hub import current_commit, is_hub_name, parse_hub_name
from ingot.model.yaml_nodes import Node, load


def imported_names(root: Path, words: str) -> str:
    """Return names of models, separated by commas, without names of the hub.

    Raises: IngotError if a repository cannot be imported.
    """
    return ",".join(
        _imported(root, word.strip()) if is_hub_name(word.strip()) else word
        for word in words.split(",")
    )


def _imported(root: Path, name: str) -> str:
    """Return the model of a repository, which is imported if there is none.

    A name without a revision means the commit that a manifest pins already.
    """
    repo, revision = parse_hub_name(name)
    known = dict(_manifests(root, repo))
    if "@" not in name and known:
        return next(iter(known.values()))
    if known and revision not in known:
        revision = current_commit(repo, revision)
    if revision in known:
        return known[revision]
    imported = import_checkpoint(root, f"hf:{repo}@{revision}")
    print(imported)
    return imported.decision.model


def _manifests(root: Path, repo: str) -> Iterator[tuple[str, str]]:
    """Yield commit and model of the manifests whose weights are in the repository."""
    for path in sorted((root / "models").glob("*.yaml")):
        if repo not in path.read_text(encoding="utf-8", errors="replace"):
            continue
        source = _part(_part(load(path, root), "weights"), "source")
        named, commit = _part(source, "repo"), _part(source, "revision")
        if named and commit and named.text == repo:
            yield commit.text, path.stem


def _part(node: Node | None, key: str) -> Node | None:
    return node.get(key) if node and isinstance(node.value, dict) else None
