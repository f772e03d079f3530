"""Read inputs that are nearly right: each is read, or rejected with an error.

The usual run tries a few hundred inputs for each reader, the same ones every time. The
nightly run tries a million, or as many as INGOT_FUZZ says, from number INGOT_FUZZ_FROM.
"""

from __future__ import annotations

import json
import os
import shutil
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from ingot import dsse
from ingot.bundles.contract import seal, unseal
from ingot.bundles.tarball import read_tar
from ingot.bundles.verify import verify
from ingot.codec import to_json
from ingot.engine.action_keys import encode_action
from ingot.engine.action_results import (
    decode_action,
    decode_result,
    encode_result,
    pack_texts,
    result_of,
    unpack_texts,
)
from ingot.engine.actions import (
    Action,
    ActionResult,
    InlineText,
    digest_of,
    resolve_action,
)
from ingot.engine.cache.build_hints import BuildHint, decode_hint, encode_hint
from ingot.engine.protobuf_wire import CorruptMessage
from ingot.engine.remote.request import (
    WorkRequest,
    WorkResponse,
    decode_request,
    decode_response,
)
from ingot.engine.signatures import sign, why_not
from ingot.engine.signed_statements import TrustedKey, result_statement
from ingot.errors import IngotError
from ingot.model.manifest import read_manifest
from ingot.project.pyproject import read_project
from ingot.runtime.tokenizer import load_tokenizer
from ingot.weights import gguf, safetensors
from ingot.weights.gguf_vocabulary import read_vocabulary, tokenizer_json
from ingot.weights.irpa import read_archive
from ingot.weights.shards import read_index
from tests.fuzzing import Reader, deadline, fuzz
from tests.gguf_cases import write_gguf
from tests.manifest_cases import GOOD, GOOD_DECODER, place
from tests.tiny_bundle import pack_whole
from tests.weights_cases import TWO, save, write

N = int(os.environ.get("INGOT_FUZZ", "0"))
FROM = int(os.environ.get("INGOT_FUZZ_FROM", "0"))
MILLION = 1_000_000

MESSAGES = (IngotError, CorruptMessage, ValueError)


def file_of(folder: Path, content: bytes, name: str = "input") -> Path:
    path = folder / name
    path.write_bytes(content)
    return path


def safetensors_seeds(folder: Path) -> list[bytes]:
    made = [
        write(folder / "a", TWO, bytes(16)),
        save(folder / "b", {"x": ("BF16", np.zeros((2, 3)))}),
    ]
    return [path.read_bytes() for path in made]


def gguf_seeds(folder: Path) -> list[bytes]:
    def add(writer: Any) -> None:
        writer.add_tokenizer_model("llama")
        writer.add_token_list(["<unk>", "<s>", "</s>", "▁a", "b", "<0x0A>"])
        writer.add_token_scores([0.0, 0.0, 0.0, -1.0, -2.0, 0.0])
        writer.add_token_types([2, 3, 3, 1, 1, 6])
        writer.add_bool("llama.flag", True)

    tensors = {
        "a": ("F32", np.zeros((2, 4), np.float32)),
        "b": ("Q8_0", np.zeros((2, 34), np.uint8)),
    }
    write_gguf(folder / "a.gguf", tensors)
    write_gguf(folder / "b.gguf", tensors, add)
    return [(folder / name).read_bytes() for name in ("a.gguf", "b.gguf")]


def read_gguf(content: bytes, folder: Path) -> None:
    path = file_of(folder, content)
    gguf.read_gguf(path, "x.gguf")
    if b"tokenizer.ggml" in content:
        tokenizer_json(read_vocabulary(path, "x.gguf"))


def manifest_seeds(folder: Path) -> list[bytes]:
    place(folder / "project", GOOD)
    place(folder / "decoder", GOOD_DECODER)
    made = [folder / f"project/models/{GOOD}.yaml"]
    return [path.read_bytes() for path in made]


def manifest(content: bytes, folder: Path) -> None:
    root = folder / "project"
    path = root / f"models/{GOOD}.yaml"
    path.write_bytes(content)
    read_manifest(path, root, readable=(root,))


def project_seeds(folder: Path) -> list[bytes]:
    return [Path(__file__).parent.parent.joinpath("pyproject.toml").read_bytes()]


def project(content: bytes, folder: Path) -> None:
    (folder / "pyproject.toml").write_bytes(content)
    read_project(folder)


def tokenizer_seeds(folder: Path) -> list[bytes]:
    root = Path(__file__).parent.parent
    return [(root / "models/tokenizers/bytes.json").read_bytes()]


def tokenizer(content: bytes, folder: Path) -> None:
    load_tokenizer(file_of(folder, content), 512).encode("a b\n")


def bundle_seeds(folder: Path) -> list[bytes]:
    bundle = pack_whole(folder / "made") / "bundle"
    shutil.copytree(bundle, folder / "bundle")
    return [json.dumps(unseal((bundle / "bundle.json").read_text())).encode()]


def bundle(content: bytes, folder: Path) -> None:
    """Read a bundle whose seal is right, whatever it seals."""
    try:
        value = json.loads(content)
        text = seal(value) if isinstance(value, dict) else content.decode()
        (folder / "bundle/bundle.json").write_text(text)
    except (ValueError, TypeError, RecursionError):
        (folder / "bundle/bundle.json").write_bytes(content)
    verify(folder / "bundle", runs=False)


def tar_seeds(folder: Path) -> list[bytes]:
    made = pack_whole(folder / "made")
    return [(made / "tiny-here.tar").read_bytes()]


def tar(content: bytes, folder: Path) -> None:
    to = folder / "to"
    to.mkdir()
    try:
        read_tar(file_of(folder, content), to)
    finally:
        outside = [path for path in folder.rglob("*") if path.is_symlink()]
        shutil.rmtree(to)
        assert not outside


KEY = dsse.generate("ed25519")
TRUSTED = (TrustedKey("ci", KEY.public.text, "2199-01-01"),)
ACTION = Action(
    task="upper:x",
    argv=("sh", "-c", "x"),
    inputs=(("a/in.txt", InlineText("abc")), ("a/spec.json", InlineText("{}"))),
    outputs=("out.txt",),
    tools=("python",),
)
RESOLVED = resolve_action(
    ACTION,
    tuple((path, digest_of(b"abc")) for path, _ in ACTION.inputs),
    (("sandbox", "bubblewrap"),),
)


def result_seeds(folder: Path) -> list[bytes]:
    encoded = encode_action(RESOLVED)
    out = digest_of(b"ABC")
    messages = encoded.messages + pack_texts(ACTION)
    made = ActionResult(
        outputs=(("out.txt", out),),
        log=digest_of(b"done"),
        task=ACTION.task,
        wall_ms=3.5,
        messages=messages,
        contents=((out, b"ABC"),),
        signature=b"",
    )
    statement = result_statement(encoded.key.hash, made)
    signed = encode_result(
        ActionResult(
            outputs=made.outputs,
            task=made.task,
            messages=messages,
            signature=sign(statement, KEY),
        )
    )
    hint = encode_hint(ACTION.task, BuildHint(messages, 1e9))
    return [encode_result(made), signed, hint]


def cached_result(content: bytes, folder: Path) -> None:
    """Read an entry of a cache as a build does, and as `doit why` does."""
    key = encode_action(RESOLVED).key.hash
    found = decode_result(content)
    hint = decode_hint(content, ACTION.task)
    if hint is not None:
        hint.statement("", ACTION.task)
    why_not(TRUSTED, "2026-01-01", found.signature, result_statement(key, found), "x")
    encode_result(found)
    unpack_texts(found.messages)
    if found.messages:
        decode_action(digest_of(found.messages[0]).hash, found.messages)
    result_of(key, content)


def message_seeds(folder: Path) -> list[bytes]:
    request = WorkRequest("upper:x", RESOLVED, ("python",), False)
    response = WorkResponse("w", (("out.txt", digest_of(b"ABC")),), 1.5)
    return [to_json(request).encode(), to_json(response).encode()]


def message(content: bytes, folder: Path) -> None:
    text = content.decode(errors="replace")
    for read in (decode_request, decode_response):
        try:
            read(text)
        except CorruptMessage:
            continue


def envelope_seeds(folder: Path) -> list[bytes]:
    return [dsse.encode_envelope(dsse.sign("application/x", b"payload", KEY))]


def envelope(content: bytes, folder: Path) -> None:
    dsse.decode_envelope(content).signed_by(KEY.public)


def archive_seeds(folder: Path) -> list[bytes]:
    bundle = pack_whole(folder / "made") / "bundle"
    return [(bundle / "model.irpa").read_bytes()]


READERS = (
    Reader(
        "safetensors",
        safetensors_seeds,
        lambda content, folder: safetensors.read_header(file_of(folder, content), "x"),
        (IngotError,),
        600,
    ),
    Reader("gguf", gguf_seeds, read_gguf, (IngotError,), 600),
    Reader(
        "manifest",
        manifest_seeds,
        manifest,
        (IngotError, ExceptionGroup),
        60,
        words=(b"&a ", b"*a", b"<<: ", b"!!python/x ", b"0x1", b"1e400", b".inf"),
    ),
    Reader("pyproject", project_seeds, project, (IngotError,), 100),
    Reader("tokenizer", tokenizer_seeds, tokenizer, (IngotError,), 60, True),
    Reader("bundle", bundle_seeds, bundle, (IngotError,), 100, True),
    Reader("tar", tar_seeds, tar, (IngotError,), 200),
    Reader("cached result", result_seeds, cached_result, MESSAGES, 600),
    Reader("message of a worker", message_seeds, message, (IngotError,), 400, True),
    Reader("envelope", envelope_seeds, envelope, (dsse.BadEnvelope,), 400, True),
    Reader(
        "archive",
        archive_seeds,
        lambda content, folder: read_archive(file_of(folder, content, "x.irpa")),
        (IngotError,),
        100,
    ),
    Reader(
        "index of shards",
        lambda folder: [b'{"metadata": {}, "weight_map": {"a": "b.safetensors"}}'],
        lambda content, folder: read_index(file_of(folder, content), "x"),
        (IngotError,),
        300,
        True,
    ),
)
NAMES = [reader.name for reader in READERS]


@pytest.mark.parametrize("reader", READERS, ids=NAMES)
def test_a_reader_reads_or_rejects_what_is_nearly_right(
    reader: Reader, tmp_path: Path
) -> None:
    wrong = fuzz(reader, tmp_path, range(FROM, FROM + (N or reader.count)))
    if wrong:
        pytest.fail(wrong, pytrace=False)


# Inputs on which readers crashed once.
CRASHED = {"archive": 0, "envelope": 91, "tokenizer": 2532}


@pytest.mark.parametrize("name", CRASHED)
def test_what_crashed_a_reader_once_is_rejected(name: str, tmp_path: Path) -> None:
    (reader,) = (item for item in READERS if item.name == name)
    number = CRASHED[name]
    assert fuzz(reader, tmp_path, range(number, number + 1)) == ""


@pytest.mark.nightly
@pytest.mark.parametrize("reader", READERS, ids=NAMES)
def test_a_reader_reads_or_rejects_a_million_inputs(
    reader: Reader, tmp_path: Path
) -> None:
    wrong = fuzz(reader, tmp_path, range(FROM, FROM + (N or MILLION)))
    if wrong:
        pytest.fail(wrong, pytrace=False)


def test_the_harness_finds_a_crash_and_a_hang(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def crashes(content: bytes, folder: Path) -> None:
        if content != b"seed" * 8:
            raise KeyError("x")

    def hangs(content: bytes, folder: Path) -> None:
        while content != b"seed" * 8:
            pass

    monkeypatch.setattr("tests.fuzzing.HANG_S", 0.2)
    for read, told in ((crashes, "KeyError: 'x'"), (hangs, "Hang: ")):
        reader = Reader("x", lambda _: [b"seed" * 8], read, (IngotError,), 1)
        text = fuzz(reader, tmp_path, range(5))
        assert text.startswith("x, input ")
        assert told in text
        assert "again: INGOT_FUZZ_FROM=" in text
    with deadline():
        pass
