"""Write a GGUF file with a manifest's synthetic weights in one type.

    python gguf_file.py MODEL TYPE PATH

Norms and biases are f32 in every file, as llama.cpp's own converter writes them.
"""

from __future__ import annotations

import sys
from pathlib import Path

import gguf
import numpy as np

from ingot.model.graph import Parameter
from ingot.model.manifest import Manifest, read_manifest
from ingot.weights.convert import CHUNK_BYTES
from ingot.weights.synthetic import synthetic_chunks

ROOT = Path(__file__).resolve().parent.parent
# GGUF's names of the stored types of matrices.
TYPES = {
    "f32": "ALL_F32",
    "bf16": "MOSTLY_BF16",
    "q8_0": "MOSTLY_Q8_0",
    "q4_0": "MOSTLY_Q4_0",
}


def write(manifest: Manifest, element: str, path: Path) -> None:
    """Write the file; the parameters have GGUF's names already; tables are left out."""
    writer = gguf.GGUFWriter(path, manifest.architecture)
    writer.add_file_type(gguf.LlamaFileType[TYPES[element]])
    _declare(writer, manifest)
    kind = gguf.GGMLQuantizationType[element.upper()]
    for parameter in manifest.graph.parameters:
        if parameter.table is not None:
            continue
        values = _values(parameter, manifest.weights.source.seed or 0)
        if values.ndim < 2 or element == "f32":
            writer.add_tensor(parameter.name, values)
        else:
            packed = gguf.quants.quantize(values, kind)
            writer.add_tensor(parameter.name, packed, raw_dtype=kind)
    writer.write_header_to_file()
    writer.write_kv_data_to_file()
    writer.write_tensors_to_file()
    writer.close()


def _values(parameter: Parameter, seed: int) -> np.ndarray:
    shape = tuple(map(int, parameter.type.shape))
    chunks = synthetic_chunks(parameter.name, shape, seed, CHUNK_BYTES)
    return np.concatenate(list(chunks)).reshape(shape)


def _declare(writer: gguf.GGUFWriter, manifest: Manifest) -> None:
    """Write the dims and hyperparameters, without a tokenizer."""
    dims, numbers = dict(manifest.dims), dict(manifest.hyperparameters)
    writer.add_name(f"{manifest.model}, random weights")
    writer.add_context_length(dims["n_ctx"])
    writer.add_embedding_length(dims["n_embd"])
    writer.add_block_count(dims["n_layer"])
    writer.add_feed_forward_length(dims["n_ff"])
    writer.add_head_count(dims["n_head"])
    writer.add_head_count_kv(dims["n_head_kv"])
    writer.add_key_length(dims["head_dim"])
    writer.add_value_length(dims["head_dim"])
    writer.add_layer_norm_rms_eps(numbers["rms_norm_eps"])
    writer.add_rope_freq_base(float(numbers["rope_freq_base"]))
    if "rope_freq_base_swa" in numbers:
        writer.add_rope_freq_base_swa(float(numbers["rope_freq_base_swa"]))
    if "n_swa" in dims:
        writer.add_sliding_window(dims["n_swa"])
    writer.add_vocab_size(dims["n_vocab"])
    writer.add_tokenizer_model("none")


if __name__ == "__main__":
    model, element, path = sys.argv[1:]
    read = read_manifest(ROOT / "models" / f"{model}.yaml", ROOT)
    write(read, element, Path(path))
