"""Write a GGUF file of f32 as the checkpoint that other engines' converters read.

    PYTHON hf_checkpoint.py GGUF FOLDER

transformers reads the file, so it runs where transformers is installed. The folder gets
what converters ask for besides: keys of older versions of transformers in config.json,
and a tokenizer, which no benchmark uses.
"""

from __future__ import annotations

import json
import shutil
import sys
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parent.parent


def main(gguf: Path, folder: Path) -> None:
    """Write the checkpoint."""
    import torch
    import transformers

    model = transformers.AutoModelForCausalLM.from_pretrained(
        gguf.parent, gguf_file=gguf.name, dtype=torch.float32
    )
    # A note of where these plain f32 weights came from keeps them from being saved.
    model.hf_quantizer = None
    del model.config.quantization_config
    model.save_pretrained(folder)
    config = folder / "config.json"
    values = json.loads(config.read_text("utf-8"))
    config.write_text(json.dumps({**values, **older_keys(values)}), encoding="utf-8")
    shutil.copy(ROOT / "models/tokenizers/bytes.json", folder / "tokenizer.json")
    tokenizer = json.dumps({"tokenizer_class": "PreTrainedTokenizerFast"})
    (folder / "tokenizer_config.json").write_text(tokenizer, encoding="utf-8")


def older_keys(config: dict[str, Any]) -> dict[str, Any]:
    """Return what transformers 4 and ONNX Runtime GenAI read instead of newer keys."""
    rope = config["rope_parameters"]
    found: dict[str, Any] = {"bos_token_id": 0, "eos_token_id": 0, "pad_token_id": 0}
    if "full_attention" in rope:
        every = {"rope_local_base_freq": rope["sliding_attention"]["rope_theta"]}
        found |= {"sliding_window_pattern": 6, **every}
        # The builder of ONNX Runtime GenAI reads what is the same for all layers.
        found["rope_parameters"] = {**rope["full_attention"], **rope}
        rope = rope["full_attention"]
    return {**found, "rope_theta": rope["rope_theta"]}


if __name__ == "__main__":
    main(Path(sys.argv[1]), Path(sys.argv[2]))
