"""Run the model of this bundle; README.md shows how.

It needs iree-base-runtime and numpy; a text also needs the packages of bundle.json's
`text`. Everything about the model is read from bundle.json.
"""

import argparse
import importlib.metadata
import json
import platform
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import iree.runtime as rt
import numpy as np

HERE = Path(__file__).resolve().parent
CONTRACT = json.loads((HERE / "bundle.json").read_text(encoding="utf-8"))
ENTRIES = {entry["name"]: entry for entry in CONTRACT["entry_points"]}
GENERATION, DIMS = CONTRACT["generation"] or {}, CONTRACT["dynamic_dims"]
DTYPES = {"f64": "f8", "f32": "f4", "f16": "f2", "i64": "i8", "i32": "i4", "i8": "i1"}


def check_machine() -> None:
    """Stop if this processor or this runtime is none that the bundle is for."""
    target, runtime = CONTRACT["target"], CONTRACT["runtime"]
    if target["machine"] not in (None, platform.machine()):
        sys.exit(f"the bundle is for {target['machine']}, this is {platform.machine()}")
    cpu = Path("/proc/cpuinfo")
    found = cpu.read_text().split() if cpu.exists() else target["cpu_features"]
    if lacks := [name for name in target["cpu_features"] if name not in found]:
        sys.exit(f"this processor lacks {', '.join(lacks)}, which the bundle needs")
    version = importlib.metadata.version(runtime["package"])
    if version != runtime["version"]:
        wanted = f"{runtime['package']}=={runtime['version']}"
        sys.exit(f"expected {wanted}, found {version}\n  pip install {wanted}")


class Model:
    """The loaded module, with its parameters mapped from their file."""

    def __init__(self) -> None:
        """Load it; nothing is compiled or copied."""
        given, index = CONTRACT["parameters"], rt.ParameterIndex()
        driver = CONTRACT["target"]["device"].replace("local", "local-task")
        self.config = rt.Config(driver)
        index.load(str(HERE / given["archive"]), mmap=True)
        instance, code = self.config.vm_instance, (HERE / "model.vmfb").read_bytes()
        scope = index.create_provider(scope=given["scope"])
        parameters = rt.create_io_parameters_module(instance, scope)
        module = rt.VmModule.copy_buffer(instance, code)
        context = rt.SystemContext((parameters, module), self.config)
        self.module = context.modules[module.name]

    def call(self, entry: dict[str, Any], given: dict[str, Any]) -> dict[str, Any]:
        """Return the results, by name and by role; inputs are given in the same way."""
        tensors = []
        for port in entry["inputs"]:
            value = given.get(port["name"], given.get(port["role"]))
            is_list = isinstance(value, list)
            dtype = DTYPES.get(port["element"])
            tensors.append(np.array(value, dtype) if is_list else value)
        made = self.module[entry["name"]](*tensors)
        made = made if isinstance(made, tuple) else (made,)
        pairs = zip(entry["outputs"], made, strict=True)
        return {key: x for port, x in pairs for key in (port["name"], port["role"])}

    def zeros(self, port: dict[str, Any], sizes: dict[str, int]) -> Any:
        """Return a tensor on the device, for the module to overwrite."""
        shape = [sizes.get(dim, dim) for dim in port["shape"]]
        empty = np.zeros(shape, DTYPES[port["element"]])
        return rt.asdevicearray(self.config.device, empty)

    def array(self, tensor: Any) -> Any:
        """Return a copy of a tensor, through memory that any device can write."""
        device, source = self.config.device, tensor._buffer_view.get_buffer()
        target = device.allocator.allocate_buffer(
            memory_type=rt.MemoryType.HOST_LOCAL | rt.MemoryType.DEVICE_VISIBLE,
            allowed_usage=rt.BufferUsage.TRANSFER_TARGET
            | rt.BufferUsage.MAPPING_SCOPED,
            allocation_size=source.byte_length(),
        )
        times = device.create_semaphore(0)
        before, after = (rt.HalFence.create_at(times, value) for value in (0, 1))
        device.queue_copy(
            source, target, wait_semaphores=before, signal_semaphores=after
        )
        after.wait()
        return target.map().asarray(tensor.shape, tensor.dtype).copy()


def generate(model: Model, ids: list[int], count: int) -> Iterator[int]:
    """Yield the most likely next tokens: prefill in parts, then decode one by one."""
    caches = [x for x in ENTRIES["prefill"]["inputs"] if x["role"] == "cache"]
    # A paged cache is a pool of blocks, and block 0 belongs to no sequence.
    pools = [x["shape"][2] for x in caches if x["shape"][1] == "n_block"]
    block, limit = (pools[0], DIMS["n_block_seq"]) if pools else (1, DIMS["ctx"])
    n_ctx = limit["max"] * block
    if not 0 < len(ids) <= n_ctx:
        sys.exit(f"expected 1 to {n_ctx} tokens, found {len(ids)}")
    ctx = min(n_ctx, max(limit["min"] * block, (len(ids) + count + 31) // 32 * 32))
    blocks = -(-ctx // block)
    sizes = {"batch": 1, "ctx": ctx, "n_block_seq": blocks, "n_block": blocks + 1}
    held = {port["name"]: model.zeros(port, sizes) for port in caches}
    held["block_table"] = [[*range(1, blocks + 1)]]

    def advance(entry: dict[str, Any], tokens: list[int], start: int) -> int:
        given = {"tokens": [tokens], "start": [start], "last_index": [len(tokens) - 1]}
        made = model.call(entry, held | given)
        # The results are the caches' own memory, overwritten.
        held.update({x["input"]: made[x["output"]] for x in entry["in_place"]})
        logits = model.array(made["logits"])[0, -1]
        for first, last in GENERATION["unused"]:
            logits[first : last + 1] = -np.inf
        return int(logits.argmax())

    for start in range(0, len(ids), DIMS["seq"]["max"]):
        part = ids[start : start + DIMS["seq"]["max"]]
        token = advance(ENTRIES["prefill"], part, start)
    for place in range(len(ids), min(len(ids) + count, n_ctx + 1)):
        if token in GENERATION["end_tokens"]:
            return
        yield token
        if place < min(len(ids) + count - 1, n_ctx):
            token = advance(ENTRIES["decode"], [token], place)


def embed(model: Model, ids: list[int]) -> list[float]:
    """Return the vector of the tokens of one sentence."""
    outputs = {x["role"]: entry for entry in ENTRIES.values() for x in entry["outputs"]}
    if "embedding" not in outputs:
        sys.exit(f"no entry point takes token ids; --npy calls {', '.join(ENTRIES)}")
    ones, zeros = [[1] * len(ids)], [[0] * len(ids)]
    given = {"tokens": [ids], "mask": ones, "token_types": zeros}
    made = model.call(outputs["embedding"], given)
    numbers: list[float] = model.array(made["embedding"])[0].tolist()
    return numbers


def main() -> None:
    """Run what the command line asks for."""
    parser = argparse.ArgumentParser(description=f"Run {CONTRACT['model']}.")
    parser.add_argument("--ids", help="token ids, with commas between")
    parser.add_argument("--text", help="a text, if bundle.json states `text`")
    parser.add_argument("--plain", action="store_true", help="without chat template")
    parser.add_argument("--tokens", type=int, default=32, help="at most, to generate")
    parser.add_argument("--entry", choices=ENTRIES, help="the function of --npy")
    parser.add_argument("--npy", nargs="+", help="its inputs, a file for each")
    parser.add_argument("--out", default=".", help="the folder for NAME.npy of results")
    given = parser.parse_args()
    check_machine()
    model = Model()
    if given.npy:
        entry = ENTRIES[given.entry or next(iter(ENTRIES))]
        names = [port["name"] for port in entry["inputs"]]
        arrays = dict(zip(names, map(np.load, given.npy), strict=True))
        made = model.call(entry, arrays)
        for port in entry["outputs"]:
            np.save(Path(given.out) / port["name"], model.array(made[port["name"]]))
    elif given.text is not None:
        if CONTRACT["text"] is None:
            parser.error("the bundle has no tokenizer; give --ids")
        import run_text

        run_text.answer(model, given.text, given.tokens, given.plain)
    elif given.ids is None:
        parser.error("expected --ids, --text or --npy")
    elif CONTRACT["generation"]:
        ids = [int(word) for word in given.ids.split(",")]
        print(",".join(map(str, generate(model, ids, given.tokens))))
    else:
        print(json.dumps(embed(model, [int(x) for x in given.ids.split(",")])))


if __name__ == "__main__":
    main()
