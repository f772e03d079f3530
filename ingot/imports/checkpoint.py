"""Write the manifest of a checkpoint for `doit import`, and explain each decision.

It reports all errors at once, and writes nothing if there is one.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from tempfile import TemporaryDirectory

from ingot.errors import IngotError, counted
from ingot.imports.checkpoint_facts import Fact, Stated, Survey
from ingot.imports.checkpoint_licence import choose_licence, own_text
from ingot.imports.encoders import SENTENCES, check_pooling, longest_sentence
from ingot.imports.families import POSITIONS
from ingot.imports.gguf_metadata import survey_gguf
from ingot.imports.hf_config import survey_directory
from ingot.imports.hub import Repository, fetch_description, is_hub_name
from ingot.imports.hyperparameters import check_rules, read_ends, read_numbers
from ingot.imports.known_keys import check_keys
from ingot.imports.layer_kinds import read_layers
from ingot.imports.manifest_writer import Decision, manifest, number, relative
from ingot.imports.stored_types import StoredTypes, choose_types
from ingot.imports.tensor_checks import Comparison, compare
from ingot.imports.text_checks import read_generation
from ingot.model.architecture import FOLDER, read_architecture
from ingot.model.architecture_schema import ArchitectureSection
from ingot.model.judge import judge_name
from ingot.model.library import find
from ingot.model.manifest import read_manifest
from ingot.model.name_patterns import KEBAB
from ingot.model.yaml_nodes import format_errors
from ingot.weights.element_types import PROJECT

N_CTX_LIMIT = 2048
"""The default maximum of positions, because caches grow with them."""


NO_JUDGE = """\
      no independent judge: it compares with the project's own oracles, which share
      what was read here; transformers judges it too after
      pip install 'ingot-build[golden]'"""
"""What the check of an imported model may lack."""


@dataclass(frozen=True, slots=True)
class Imported:
    """A manifest that was written, and what to report about it."""

    path: str  # "models/toy.yaml"
    decision: Decision
    notes: tuple[str, ...]
    judge: str | None  # what computes the golden outputs of its check

    def __str__(self) -> str:
        """Return the report for the user."""
        rows = _rows(self.decision)
        width, middle = (max(len(row[i]) for row in rows) for i in (0, 1))
        lines = [f"{self.path} written"]
        lines += [f"  {a:<{width}}  {b:<{middle}}  {c}".rstrip() for a, b, c in rows]
        lines += [f"note: {note}" for note in self.notes]
        command = f"doit check model={self.decision.model}"
        judged = f"      judged by {self.judge}" if self.judge else NO_JUDGE
        return "\n".join([*lines, f"next: {command}", judged])


def import_checkpoint(
    root: Path,
    source: str,
    *,
    model: str | None = None,
    licence: str | None = None,
    n_ctx: int | None = None,
    ignored: tuple[str, ...] = (),
    stored: str | None = None,
) -> Imported:
    """Write the manifest of the checkpoint at `source`, a path or `hf:OWNER/NAME`.

    `model` is the manifest's name, `licence` its SPDX id, `n_ctx` its context length;
    what is None comes from the checkpoint. `ignored` are keys that the import does not
    know, and of which the user knows that they change nothing. `stored` is the type of
    its matrices. It reads the manifest back, as every command will.

    Raises: IngotError with all errors; nothing is written then.
    """
    options = _Options(model, licence, n_ctx, ignored, stored)
    if not is_hub_name(source):
        return _import(root, _source(source), None, options)
    with TemporaryDirectory(prefix="ingot-import-") as folder:
        path, repository = fetch_description(source, Path(folder))
        return _import(root, path, repository, options)


@dataclass(frozen=True, slots=True)
class _Options:
    """What the user says about an import."""

    model: str | None
    licence: str | None
    n_ctx: int | None
    ignored: tuple[str, ...]
    stored: str | None


def _import(
    root: Path, path: Path, repository: Repository | None, options: _Options
) -> Imported:
    """Write the manifest of the checkpoint in a folder, or in a GGUF file."""
    model, licence, n_ctx = options.model, options.licence, options.n_ctx
    ignored, stored = options.ignored, options.stored
    errors: list[IngotError] = []
    survey = (survey_directory if path.is_dir() else survey_gguf)(path, errors)
    name = _name(model, path, root, errors)
    own = own_text(path, name)
    chosen_licence = choose_licence(licence, survey.licence, own, root, errors)
    if survey.family is None:
        raise _together(errors)
    errors += check_rules(survey, survey.family)
    errors += check_keys(survey, survey.family, ignored)
    n_seq = None
    if survey.family.is_encoder:
        errors += check_pooling(path)
        n_seq = longest_sentence(path, errors)
    facts, ends = read_numbers(survey, errors), read_ends(survey, errors)
    text = _text(survey, facts, ends, errors)
    _add_context(facts, n_ctx, errors)
    _fit_blocks(facts)
    architecture = _architecture(survey.family.architecture, root)
    dims = architecture.dims
    layers = read_layers(survey, survey.family, architecture, facts, errors)
    scaling = _scaling(survey, errors)
    compared = Comparison((), (), (), ())
    if (survey.tensors or not errors) and all(dim in facts for dim in dims):
        compared = compare(survey, architecture, facts)
    errors += compared.errors
    types = StoredTypes((), (), ())
    if all(dim in facts for dim in dims):
        try:
            types = choose_types(survey, architecture, facts, compared.tied, stored)
        except IngotError as error:
            errors.append(error)
    if errors:
        raise _together(errors)
    assert chosen_licence is not None
    decision = Decision(
        model=name,
        survey=survey,
        licence=chosen_licence,
        dims={dim: facts[dim] for dim in dims},
        hyperparameters={name: facts[name] for name in architecture.hyperparameters},
        tied=compared.tied,
        ignored=compared.ignored,
        generation=text,
        source=_element(survey),
        types=types,
        unknown=ignored,
        n_seq=n_seq,
        layers=layers,
        scaling=scaling,
        repository=repository,
    )
    is_own = own is not None and chosen_licence.value == own.name
    added = own.write(root) if own and is_own else None
    try:
        written, judge = _write(decision, root)
    except IngotError:
        if added:
            added.unlink()
        raise
    notes = (*compared.notes, *survey.rope.notes, *types.notes)
    return Imported(written, decision, notes, judge)


def _source(text: str) -> Path:
    # A shell does not expand the ~ of source=~/model.
    path = Path(text).expanduser().absolute()
    if not path.exists():
        is_name = re.fullmatch(r"[\w.-]+/[\w.-]+", text)
        hint = f"if it is a name of Hugging Face's hub: source=hf:{text}"
        message = f"source={text}: no such file or folder"
        raise IngotError(message, hint if is_name else "")
    if not path.is_dir() and not (path.is_file() and path.suffix == ".gguf"):
        hint = ""
        if (path.parent / "config.json").is_file():
            hint = f"name the checkpoint's folder: source={path.parent}"
        raise IngotError(
            f"source={text}: expected a checkpoint's folder or a .gguf file, found"
            f" '{path.name}'",
            hint,
        )
    return path


def _name(given: str | None, path: Path, root: Path, errors: list[IngotError]) -> str:
    """Return the model's name: the given one, or one derived from the checkpoint's."""
    name = given if given is not None else _derived_name(path)
    # `model=all` means every model.
    if not re.fullmatch(KEBAB.pattern, name) or name == "all":
        errors.append(
            IngotError(
                f"model={name}: expected {KEBAB.what}, found '{name}'",
                "such as model=smollm2-135m",
            )
        )
    elif (root / "models" / f"{name}.yaml").exists():
        errors.append(
            IngotError(
                f"models/{name}.yaml: already exists",
                "choose another name with model=NAME, or remove the file",
            )
        )
    return name


def _derived_name(path: Path) -> str:
    name = path.stem if path.is_file() else path.name
    if path.parent.name == "snapshots":
        # A download cache: models--owner--name/snapshots/<commit>.
        name = path.parent.parent.name.rpartition("--")[2]
    words = re.findall(r"[a-z0-9]+(?:\.[a-z0-9]+)*", name.lower())
    return "-".join(words)


def _add_context(
    facts: dict[str, Fact], given: int | None, errors: list[IngotError]
) -> None:
    """Add n_ctx: the requested number, or the trained number up to the limit."""
    most = facts.get(POSITIONS)
    if given is None:
        if most is not None:
            value = min(int(most.value), N_CTX_LIMIT)
            origin = most.origin
            if value < most.value:
                origin += f" is {most.value}; more: n_ctx="
            facts["n_ctx"] = Fact(value, origin)
        return
    if given < 1:
        message = "expected an integer, 1 or more"
        errors.append(IngotError(f"n_ctx={given}: {message}, found '{given}'"))
    elif most is not None and given > most.value:
        errors.append(
            IngotError(
                f"n_ctx={given}: more than the model was trained for; expected at most"
                f" {most.value} ({most.origin})"
            )
        )
    else:
        facts["n_ctx"] = Fact(given, "n_ctx=")


def _text(
    survey: Survey,
    facts: dict[str, Fact],
    ends: dict[int, str],
    errors: list[IngotError],
) -> dict[str, Stated]:
    """Return how texts begin, end and are drawn; add what is wrong."""
    n_vocab = facts.get("n_vocab")
    if n_vocab is None:
        return {}
    return read_generation(survey, int(n_vocab.value), ends, errors)


def _fit_blocks(facts: dict[str, Fact]) -> None:
    """Limit the size of cache blocks to the context."""
    block, context = facts.get("block_size"), facts.get("n_ctx")
    if block and context and block.value > context.value:
        facts["block_size"] = Fact(context.value, "as n_ctx")


def _scaling(survey: Survey, errors: list[IngotError]) -> dict[str, Stated]:
    """Return how each table of rope angles is scaled; add what cannot be."""
    assert survey.family
    tables = dict(survey.family.tables)
    found: dict[str, Stated] = {}
    for kind, stated in survey.rope.scaling.items():
        if kind in tables:
            found[tables[kind]] = stated
        else:
            message = f"{stated.origin}: not supported; expected no scaling"
            hint = "the architecture does not scale these positions"
            errors.append(IngotError(message, hint))
    return found


def _architecture(name: str, root: Path) -> ArchitectureSection:
    try:
        return read_architecture(find(root, f"{FOLDER}/{name}.yaml"), root).declared
    except ExceptionGroup as group:
        raise IngotError(format_errors(group)) from None


def _element(survey: Survey) -> str | None:
    """Return the type of all tensors, or None for GGUF, whose files mix types."""
    elements = {tensor.element for tensor in survey.tensors}
    if survey.kind == "gguf" or len(elements) != 1:
        return None
    return PROJECT[elements.pop()]


def _together(errors: list[IngotError]) -> IngotError:
    """Return all errors as one, which says that no file was written."""
    text = "\n".join(str(error) for error in errors)
    count = counted(len(errors), "error")
    return IngotError(f"{text}\nfound {count}; nothing was written")


def _write(decision: Decision, root: Path) -> tuple[str, str | None]:
    """Write the manifest, read it as every command will, and return its judge."""
    folder = root / "models"
    path = folder / f"{decision.model}.yaml"
    text = manifest(decision, folder)
    try:
        with path.open("x", encoding="utf-8") as file:
            file.write(text)
    except OSError as error:
        if not isinstance(error, FileExistsError):
            path.unlink(missing_ok=True)
        raise IngotError(
            f"models/{path.name}: cannot be written: {error.strerror}"
        ) from error
    try:
        judge = judge_name(read_manifest(path, root))
    except ExceptionGroup as group:
        path.unlink()
        # Every mistake that a user can make was reported before.
        raise AssertionError(
            f"the imported manifest is invalid:\n{format_errors(group)}\n{text}"
        ) from None
    return f"models/{path.name}", judge


def _rows(decision: Decision) -> list[tuple[str, str, str]]:
    """Return each decision with its origin."""
    survey, family = decision.survey, decision.survey.family
    assert family
    key = "general.architecture" if survey.kind == "gguf" else family.hf_class
    numbers = {**decision.dims, **decision.hyperparameters}
    types = sorted({tensor.element for tensor in survey.tensors})
    size = sum(tensor.size_bytes for tensor in survey.tensors)
    rows = [
        ("architecture", family.architecture, f"{survey.file}: {key}"),
        *((name, number(fact.value), fact.origin) for name, fact in numbers.items()),
        (
            "weights",
            f"{', '.join(types)} -> {_stored_types(decision)}",
            f"{len(survey.tensors)} tensors, {size / 1e6:.1f} MB; stored="
            f" {', '.join(decision.types.offered)}",
        ),
        ("tied", *_tied_row(decision)),
        ("licence", str(decision.licence.value), decision.licence.origin),
        ("tokenizer", *_tokenizer_row(survey)),
    ]
    return [*rows, *_layer_rows(decision), *_text_rows(decision)]


def _layer_rows(decision: Decision) -> Iterator[tuple[str, str, str]]:
    """Yield how layers and angles differ from those of the architecture."""
    if decision.layers:
        shown = ", ".join(decision.layers)
        yield "layers", shown, f"{decision.survey.file}; over and over"
    for name, stated in decision.scaling.items():
        yield name, f"scaled, {stated.value['kind']}", stated.origin


def _stored_types(decision: Decision) -> str:
    return ", ".join(sorted({rule.stored for rule in decision.types.rules}))


def _tied_row(decision: Decision) -> tuple[str, str]:
    if decision.tied:
        return ", ".join(decision.tied), "the checkpoint has no such tensor"
    return "none", "every parameter has a tensor"


def _text_rows(decision: Decision) -> Iterator[tuple[str, str, str]]:
    family = decision.survey.family
    if family and family.is_encoder:
        yield "longest", *_length_row(decision)
    elif "end_tokens" not in decision.generation:
        yield "end_tokens", "none", "the checkpoint names none"
    for name, stated in decision.generation.items():
        value = stated.value
        shown = ", ".join(map(str, value)) if isinstance(value, list) else str(value)
        if name == "chat_template":
            shown = f"{len(value)} characters"
        yield name, shown, stated.origin


def _length_row(decision: Decision) -> tuple[str, str]:
    if decision.n_seq is None:
        return str(decision.dims["n_ctx"].value), "tokens of a sentence; as n_ctx"
    return str(decision.n_seq), f"tokens of a sentence; {SENTENCES}: max_seq_length"


def _tokenizer_row(survey: Survey) -> tuple[str, str]:
    if survey.tokenizer is None and survey.vocabulary:
        return "gguf", f"{survey.file}: its own vocabulary"
    if survey.tokenizer is None:
        return "none", "no tokenizer.json: `doit generate` needs one"
    return survey.tokenizer.name, relative(survey.tokenizer, Path.cwd())
