"""Build llama.cpp, write models for it, and measure its speed.

The source is in the sdist of llama-cpp-python. Weights are random, because speed does
not depend on them. Norms and biases are f32 in every file, as llama.cpp's own converter
writes them.
"""

from __future__ import annotations

import hashlib
import json
import os
import shutil
import subprocess
import sys
import tarfile
from pathlib import Path
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from ingot.model.manifest import Manifest

SDIST = "llama-cpp-python==0.3.36"
SHA256 = "832db0699007f1be95a7e41ef12e88926b02ba836461e36a36372db2760c1a2e"
OPTIONS = (
    "-DCMAKE_BUILD_TYPE=Release",
    "-DGGML_NATIVE=ON",
    "-DLLAMA_BUILD_TESTS=OFF",
    "-DLLAMA_BUILD_EXAMPLES=OFF",
    "-DLLAMA_BUILD_SERVER=OFF",
    "-DLLAMA_BUILD_UI=OFF",
    "-DLLAMA_OPENSSL=OFF",
)
# GGUF's names of the stored types of matrices.
TYPES = {
    "f32": "ALL_F32",
    "bf16": "MOSTLY_BF16",
    "q8_0": "MOSTLY_Q8_0",
    "q4_0": "MOSTLY_Q4_0",
}

Speeds = dict[tuple[str, int], float]
"""Tokens/s by phase and number of tokens: ("prefill", 128), ("decode", 512)."""


def built(folder: Path) -> Path:
    """Return llama-bench, built below the folder if it is not there yet."""
    program = folder / "build/bin/llama-bench"
    if program.exists():
        return program
    folder.mkdir(parents=True, exist_ok=True)
    pip = [
        sys.executable,
        "-m",
        "pip",
        "download",
        "--no-deps",
        "--no-binary",
        "llama-cpp-python",
    ]
    subprocess.run([*pip, SDIST, "--dest", str(folder)], check=True)
    (sdist,) = folder.glob("llama_cpp_python-*.tar.gz")
    if hashlib.sha256(sdist.read_bytes()).hexdigest() != SHA256:
        raise SystemExit(f"{sdist}: not the file that was tested; expected {SHA256}")
    with tarfile.open(sdist) as archive:
        archive.extractall(folder, filter="data")
    source = folder / sdist.name.removesuffix(".tar.gz") / "vendor/llama.cpp"
    # First look next to the interpreter, where the `bench` extra puts it.
    path = f"{Path(sys.executable).parent}{os.pathsep}{os.environ['PATH']}"
    cmake = shutil.which("cmake", path=path)
    if cmake is None:
        raise SystemExit("no cmake; install the extra: pip install -e '.[bench]'")
    build = str(folder / "build")
    subprocess.run([cmake, "-S", str(source), "-B", build, *OPTIONS], check=True)
    jobs = str(os.cpu_count() or 1)
    argv = [cmake, "--build", build, "--target", "llama-bench", "-j", jobs]
    subprocess.run(argv, check=True)
    return program


def model(manifest: Manifest, source: Path, element: str, path: Path) -> Path:
    """Return the path of a GGUF file with the manifest's dims and random weights.

    An existing file is reused, unless the manifest's `source` is newer.
    """
    newest = max(source.stat().st_mtime, Path(__file__).stat().st_mtime)
    if path.exists() and path.stat().st_mtime > newest:
        return path
    part = path.with_suffix(".part")
    write(manifest, element, part)
    part.rename(path)
    return path


def write(manifest: Manifest, element: str, path: Path) -> None:
    """Write the file; the parameters have GGUF's names already; tables are left out."""
    import gguf
    import numpy as np

    writer = gguf.GGUFWriter(path, manifest.architecture)
    writer.add_file_type(gguf.LlamaFileType[TYPES[element]])
    _declare(writer, manifest)
    kind = gguf.GGMLQuantizationType[element.upper()]
    rng = np.random.default_rng(0)
    for parameter in manifest.graph.parameters:
        if parameter.table is not None:
            continue
        shape = tuple(map(int, parameter.type.shape))
        values = rng.standard_normal(shape, dtype=np.float32) * np.float32(0.02)
        if len(shape) < 2 or element == "f32":
            writer.add_tensor(parameter.name, values)
        else:
            packed = gguf.quants.quantize(values, kind)
            writer.add_tensor(parameter.name, packed, raw_dtype=kind)
    writer.write_header_to_file()
    writer.write_kv_data_to_file()
    writer.write_tensors_to_file()
    writer.close()


def _declare(writer: Any, manifest: Manifest) -> None:
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


def speeds(
    program: Path, model: Path, threads: int, contexts: tuple[int, ...], tokens: int
) -> Speeds:
    """Return one repetition of each phase, after llama-bench's own warm-up.

    The times are those of the calls alone, without the process's start and the loading.
    """
    sizes = ",".join(map(str, contexts))
    found: Speeds = {}
    for phase in (
        ("-p", sizes, "-n", "0"),
        ("-p", "0", "-n", str(tokens), "-d", sizes),
    ):
        done = subprocess.run(
            [*command(program, model, threads), *phase, "-r", "1", "-o", "jsonl"],
            check=True,
            stdout=subprocess.PIPE,
            stderr=subprocess.DEVNULL,
            text=True,
        )
        for line in done.stdout.splitlines():
            run = json.loads(line)
            prompt = run["n_prompt"]
            key = ("prefill", prompt) if prompt else ("decode", run["n_depth"])
            found[key] = run["samples_ts"][0]
    return found


def command(program: Path, model: Path, threads: int) -> list[str]:
    """Return the start of a command line."""
    return [str(program), "-m", str(model), "-t", str(threads)]
