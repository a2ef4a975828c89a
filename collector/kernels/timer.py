"""Times the kernels that read tuned configs: vLLM's and SGLang's from their installed packages, or ours.

Answers lines of JSON on stdin with lines of JSON on stdout. Needs torch with CUDA and Triton; of vLLM and SGLang, only
the kernels' source is read, so neither is imported. Kernels are compiled by many processes while others are timed.

Operands rotate through copies with several L2s of other memory between two uses, tokens go to uniformly random experts
without repeats (eight routings by turns), and each time is that of a CUDA graph of many launches, less what a graph
takes to start. Rounds go through the configs in random order.
"""

import ast
import contextlib
import ctypes
import hashlib
import importlib.metadata
import importlib.util
import json
import multiprocessing
import os
import random
import re
import signal
import statistics
import sys
import time
from pathlib import Path
from typing import Any

# Line tables would double the size of the binaries and change nothing that runs.
os.environ["TRITON_DISABLE_LINE_INFO"] = "1"

try:
    import torch
    import triton
except ImportError as missing:
    MISSING = str(missing)
else:
    MISSING = ""

REPLIES = sys.stdout
DEVICE = "cuda"
L2 = 64 << 20
ROUTINGS = 8
SCRATCH = 16 << 20
# Bytes of weights, rows and outputs that operands rotate through at most, if the GPU has them.
POOLS = {"weights": 6 << 30, "rows": 2 << 30, "output": 2 << 30, "scales": 256 << 20}
BLOCK = 128
# Where releases of both projects have the kernels that read tuned configs, the newest first.
SOURCES = {
    ("vllm", "experts"): [("vllm/model_executor/layers/fused_moe/fused_moe.py", "fused_moe_kernel")],
    ("sglang", "experts"): [
        ("sglang/kernels/ops/moe/fused_moe_triton_kernels.py", "fused_moe_kernel"),
        ("sglang/srt/layers/moe/moe_runner/triton_utils/fused_moe_triton_kernels.py", "fused_moe_kernel"),
        ("sglang/srt/layers/moe/fused_moe_triton/fused_moe_triton_kernels.py", "fused_moe_kernel"),
    ],
    ("sglang", "dense"): [
        ("sglang/kernels/ops/gemm/fp8_kernel.py", "_w8a8_block_fp8_matmul"),
        ("sglang/srt/layers/quantization/fp8_kernel.py", "_w8a8_block_fp8_matmul"),
    ],
    ("diode", "experts"): [("serving.py", "fused_moe")],
    ("diode", "dense"): [("serving.py", "scaled_mm")],
}


def up(a, b):
    return -(-a // b)


def say(**answer):
    print(json.dumps(answer), file=REPLIES, flush=True)


class Refused(Exception):
    """A problem that the user can do something about."""


# Kernels


class Source:
    """A kernel's source, copied out of the package that has it."""

    def __init__(self, consumer, kind, folder):
        self.consumer = consumer
        self.version: str | None = None
        self.package: str | None = None
        roots = [Path(folder)] if consumer == "diode" else package_roots(consumer)
        places = [(root, path, name) for path, name in SOURCES.get((consumer, kind), []) for root in roots]
        root, path, self.kernel = next(
            ((root, path, name) for root, path, name in places if (root / path).is_file()), (None, "", "")
        )
        if root is None:
            raise LookupError(f"no {consumer} with a kernel for {kind}")
        if consumer == "diode":
            self.module = str(root / path)
            return
        self.package = str(root / consumer)
        with contextlib.suppress(importlib.metadata.PackageNotFoundError):
            self.version = importlib.metadata.version(consumer)
        text = alone((root / path).read_text(), self.kernel)
        self.module = str(Path(folder) / f"{consumer}_{hashlib.sha256(text.encode()).hexdigest()[:16]}.py")
        if not Path(self.module).exists():
            new = Path(f"{self.module}.{os.getpid()}")
            new.write_text(text)
            new.rename(self.module)


def package_roots(name):
    """The folders that hold the package, which is found without running any of it."""
    spec = importlib.util.find_spec(name)
    return [Path(place).parent for place in (spec and spec.submodule_search_locations) or []]


def alone(text, name):
    """The kernel and the functions of its file that it calls, as a module that needs Triton only."""
    functions = {one.name: one for one in ast.parse(text).body if isinstance(one, ast.FunctionDef)}
    wanted, waiting = [], [name]
    while waiting:
        one = waiting.pop()
        if one in functions and one not in wanted:
            wanted.append(one)
            waiting += [node.id for node in ast.walk(functions[one]) if isinstance(node, ast.Name)]
    parts = [f"@triton.jit\n{ast.get_source_segment(text, functions[one])}" for one in reversed(wanted)]
    return "import triton\nimport triton.language as tl\n\n\n" + "\n\n\n".join(parts) + "\n"


def module_of(path):
    name = re.sub(r"\W", "_", path)
    if name not in sys.modules:
        spec = importlib.util.spec_from_file_location(name, path)
        assert spec is not None and spec.loader is not None
        sys.modules[name] = importlib.util.module_from_spec(spec)
        spec.loader.exec_module(sys.modules[name])
    return sys.modules[name]


def alone_with_parent():
    """Ends this process when its parent ends, and leaves Ctrl-C to the parent."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    if sys.platform == "linux":
        ctypes.CDLL(None).prctl(1, signal.SIGKILL)


def build(job):
    """Compiles one kernel, in a process of its own."""
    from triton.backends.compiler import GPUTarget
    from triton.compiler import ASTSource

    try:
        function = getattr(module_of(job["module"]), job["kernel"])
        constants = {
            name: triton.language.dtype(value[3:]) if str(value).startswith("tl.") else value
            for name, value in job["constants"].items()
        }
        attributes = {(function.arg_names.index(name),): [["tt.divisibility", 16]] for name in job["divisible"]}
        source = ASTSource(function, job["signature"], constexprs=constants, attrs=attributes)
        compiled = triton.compile(source, target=GPUTarget("cuda", job["capability"], 32), options=job["options"])
        metadata = compiled.metadata
        about = {"symbol": metadata.name, "shared": metadata.shared, "threads": 32 * metadata.num_warps}
        return {"binary": compiled.asm["cubin"], **about}
    except Exception as error:  # Whatever the compiler raises is this kernel's result.
        return {"failed": f"{type(error).__name__}: {' '.join(str(error).split())[-300:]}"}


# Operands


class Rotating:
    """An operand with copies in a pool: each launch takes the next one."""

    def __init__(self, pool, dtype, shape, touched):
        count = 1
        for size in shape:
            count *= size
        self.dtype, self.shape, self.count, self.pool = dtype, shape, count, pool
        self.step = up(count * dtype.itemsize, 1024) * 1024
        apart = max(1, min(192, up(5 * L2, max(1, touched))))
        self.copies = max(1, min(apart, pool.numel() // self.step))

    def at(self, turn):
        return self.pool.data_ptr() + self.step * (turn % self.copies)

    def first(self):
        return self.pool[: self.count * self.dtype.itemsize].view(self.dtype).view(self.shape)


class Table:
    """A row for each routing."""

    def __init__(self, rows):
        self.rows, self.step = rows, rows.stride(0) * rows.element_size()

    def at(self, turn):
        return self.rows.data_ptr() + self.step * (turn % len(self.rows))


class Batch:
    """The routings of a batch, and their sorted lists for each height of tiles."""

    def __init__(self, layer, request):
        self.tokens, self.top_k, self.experts = request["tokens"], request["top_k"], layer["experts"]
        self.pairs, self.lists, self.reader = self.tokens * self.top_k, {}, layer["reader"]
        # Where experts are spread over GPUs, vLLM sorts always.
        self.unsorted = self.reader == "vllm" and not layer["spread"] and 4 * self.pairs <= self.experts
        generator = torch.Generator(device=DEVICE).manual_seed(1)
        routed = []
        for _ in range(ROUTINGS):
            scores = torch.rand(self.tokens, self.experts, device=DEVICE, generator=generator)
            routed.append(scores.topk(self.top_k, dim=1).indices.flatten())
        self.choice = torch.stack(routed)
        self.distinct = sum(len(one.unique()) for one in self.choice) / ROUTINGS

    def length(self, rows):
        """The length of the sorted list as the server makes it. Few pairs have a block of their own each in vLLM."""
        pairs, experts = self.pairs, self.experts
        if self.unsorted:
            return pairs * rows
        if self.reader == "sglang":
            length = pairs * rows if pairs < experts + 1 else pairs + (experts + 1) * (rows - 1)
            return up(length, 4) * 4
        length = pairs + experts * (rows - 1)
        return min(length, pairs * rows) if pairs < experts else length

    def sorted(self, rows):
        """Pairs sorted by expert and padded to whole blocks, the expert of each block, and the length in use."""
        if rows in self.lists:
            return self.lists[rows]
        pairs, experts, length = self.pairs, self.experts, self.length(rows)
        wide, blocks = up(length, 256) * 256 + rows, up(length, rows)
        ids = torch.full((ROUTINGS, wide), pairs, dtype=torch.int32, device=DEVICE)
        of_block = torch.full((ROUTINGS, up(blocks, 32) * 32), -1, dtype=torch.int32, device=DEVICE)
        used = torch.zeros(ROUTINGS, 32, dtype=torch.int32, device=DEVICE)
        if self.unsorted:
            ids[:, : pairs * rows : rows] = torch.arange(pairs, dtype=torch.int32, device=DEVICE)
            of_block[:, :pairs] = self.choice
            used[:, 0] = pairs * rows
        else:
            by_expert, order = self.choice.sort(dim=1, stable=True)
            counts = torch.zeros(ROUTINGS, experts, dtype=torch.int64, device=DEVICE)
            counts.scatter_add_(1, self.choice, torch.ones_like(self.choice))
            padded = (counts + rows - 1) // rows * rows
            starts, first = padded.cumsum(1) - padded, counts.cumsum(1) - counts
            at = torch.arange(pairs, device=DEVICE) - first.gather(1, by_expert) + starts.gather(1, by_expert)
            ids.scatter_(1, at, order.to(torch.int32))
            ends = padded.cumsum(1)
            used[:, 0] = ends[:, -1]
            first_rows = (torch.arange(blocks, device=DEVICE) * rows).expand(ROUTINGS, blocks).contiguous()
            found = torch.searchsorted(ends, first_rows, right=True).to(torch.int32)
            of_block[:, :blocks] = torch.where(first_rows < ends[:, -1:], found, -1)
        self.lists[rows] = Table(ids), Table(of_block), Table(used)
        return self.lists[rows]


class Stage:
    """One launch of a batch: what it reads and writes, by the names that the kernels' arguments have."""

    def __init__(self, layer, request, down, batch, pools):
        self.layer, self.down, self.batch = layer, down, batch
        self.n, self.k = request["stages"][down]
        self.tokens = request["tokens"]
        experts = layer["experts"] if batch else 1
        self.pairs = batch.pairs if batch else self.tokens
        self.rows = self.pairs if down else self.tokens
        self.top_k = request["top_k"] if batch and not down else 1
        size = 1 if layer["operand"] == "fp8" else 2
        weights = (batch.distinct if batch else 1) * self.n * self.k * size
        touched = int(self.rows * self.k * size + weights + 2 * self.pairs * self.n)
        if pools is None:
            self.needs = {"weights": (experts * self.n * self.k * size, touched), "rows": (self.rows * self.k * size, touched),
                          "output": (2 * self.pairs * self.n, touched)}  # fmt: skip
            return
        operand = torch.float8_e4m3fn if size == 1 else torch.bfloat16
        self.a = Rotating(pools["rows"], operand, (self.rows, self.k), touched)
        self.b = Rotating(pools["weights"], operand, (experts, self.n, self.k), touched)
        self.c = Rotating(pools["output"], torch.bfloat16, (self.pairs, self.n), touched)
        block_n, block_k = layer["block"] or (self.n, self.k)
        self.of_n, self.of_k = up(self.n, block_n), up(self.k, block_k)
        shapes = {"none": ((1,), (1,)), "row": ((self.rows,), (experts, self.n)),
                  "block": ((self.rows, self.of_k), (experts, self.of_n, self.of_k))}[layer["scaling"]]  # fmt: skip
        self.sa, self.sb = (Rotating(pools["scales"], torch.float32, shape, touched) for shape in shapes)
        self.weights = Rotating(pools["scales"], torch.float32, (self.pairs,), 5 * L2)

    def launch(self, source, config):
        """(arguments by name, programs) of a config."""
        layer, batch = self.layer, self.batch
        rows, columns, depth = config["block_m"], config["block_n"], config["block_k"]
        scaling, (of_k, of_n) = layer["scaling"], (self.of_k, self.of_n)
        if batch is None:
            programs = up(self.tokens, rows) * up(self.n, columns)
            lists, length = (None, None, None), 0
        else:
            lists, length = batch.sorted(rows), batch.length(rows)
            if batch.reader == "vllm" and self.rows < rows:
                length = min(length, self.rows * self.top_k * rows)
            programs = up(length, rows) * up(self.n, columns)
        if source.consumer == "diode":
            if scaling == "block" and layer["block"] != [BLOCK, BLOCK]:
                raise Refused(f"scales of blocks of {layer['block']}; our kernel has 128×128 only")
            pairs, experts, used = lists
            strides = {"none": (0, 0, 0), "row": (1, self.n, 0), "block": (of_k, of_n * of_k, of_k)}[scaling]
            arguments = {"A": self.a, "B": self.b, "a_scales": self.sa, "b_scales": self.sb, "C": self.c, "pairs": pairs or self.a,
                         "experts": experts or self.a, "ends": used or self.a, "weights": self.weights, "M": self.pairs, "N": self.n,
                         "K": self.k, "lda": self.k, "ldb": self.k, "ldc": self.n, "b_group": self.n * self.k, "a_scale_row": strides[0],
                         "b_scale_group": strides[1], "b_scale_row": strides[2], "groups": layer["experts"], "top_k": self.top_k,
                         "weighted": int(self.down), "blocks_m": up(length, rows) if batch else up(self.tokens, rows),
                         "group_m": config["group_m"], "BLOCK_M": rows, "BLOCK_N": columns, "BLOCK_K": depth,
                         "EVEN_K": bool(batch is None and self.k % depth == 0), "SCALING": scaling, "FAST": True,
                         "SWAP": config["swap"]}  # fmt: skip
            return arguments, programs
        tiles = {"BLOCK_SIZE_M": rows, "BLOCK_SIZE_N": columns, "BLOCK_SIZE_K": depth, "GROUP_SIZE_M": config["group_m"]}
        group_n, group_k = layer["block"] or (0, 0)
        if batch is None:
            return {**tiles, "A": self.a, "B": self.b, "C": self.c, "As": self.sa, "Bs": self.sb, "M": self.tokens, "N": self.n,
                    "K": self.k, "group_n": group_n, "group_k": group_k, "stride_am": self.k, "stride_ak": 1, "stride_bk": 1,
                    "stride_bn": self.k, "stride_cm": self.n, "stride_cn": 1, "stride_As_m": of_k, "stride_As_k": 1,
                    "stride_Bs_k": 1, "stride_Bs_n": of_k, "needs_masking": self.k % depth != 0}, programs  # fmt: skip
        scaled = scaling != "none"
        ids, of_block, used = lists
        unsorted = batch.unsorted and source.consumer == "vllm"
        scales = {"none": (0, 0, 0, 0, 0), "row": (1, 1, self.n, 1, 1), "block": (of_k, 1, of_n * of_k, 1, of_k)}[scaling]
        asm, ask, bse, bsk, bsn = scales
        return {**tiles, "a_ptr": self.a, "b_ptr": self.b, "c_ptr": self.c, "b_bias_ptr": None, "bias_ptr": None, "a_desc": None,
                "b_desc": None, "add_mask_ptr": None, "a_scale_ptr": self.sa if scaled else None,
                "b_scale_ptr": self.sb if scaled else None, "topk_weights_ptr": self.weights,
                "sorted_token_ids_ptr": None if unsorted else ids, "expert_ids_ptr": of_block, "num_tokens_post_padded_ptr": used,
                "N": self.n, "K": self.k, "EM": length, "num_valid_tokens": self.pairs, "stride_am": self.k, "stride_ak": 1,
                "stride_be": self.n * self.k, "stride_bk": 1, "stride_bn": self.k, "stride_cm": self.n, "stride_cn": 1,
                "stride_asm": asm, "stride_ask": ask, "stride_bse": bse, "stride_bsk": bsk, "stride_bsn": bsn, "stride_bbe": 0,
                "stride_bbn": 0, "stride_bias_e": 0, "stride_bias_n": 0, "group_n": group_n, "group_k": group_k,
                "naive_block_assignment": unsorted, "SPLIT_K": 1, "MUL_ROUTED_WEIGHT": self.down == 1, "top_k": self.top_k,
                "ROUTER_TOPK": batch.top_k, "compute_type": "tl.bf16", "use_fp8_w8a8": layer["operand"] == "fp8",
                "use_int8_w8a8": False, "use_int8_w8a16": False, "per_channel_quant": scaling == "row", "HAS_BIAS": False,
                "SWAP_AB": config["swap"], "swap_ab": config["swap"], "USE_TD": False, "even_Ks": self.k % depth == 0,
                "c_sorted": False, "filter_expert": layer["spread"], "FUSE_ADD_TO_OUTPUT": False, "MASK_OUTPUT": False,
                "FUSE_SUM_ALL_REDUCE": False, "LORA_PRESERVE_BASE": False}, programs  # fmt: skip


def pointed(value):
    """The type of a pointer as Triton writes it."""
    if isinstance(value, Table):
        return "*i32"
    return {torch.bfloat16: "*bf16", torch.float32: "*fp32"}.get(value.dtype, "*fp8e4nv")


def job_of(source, arguments, config, capability):
    """What to compile, specialised as Triton does it, and the arguments that are passed, in their order."""
    function = getattr(module_of(source.module), source.kernel)
    signature, constants, divisible, passed = {}, {}, [], []
    for parameter in function.params:
        name = parameter.name
        if name not in arguments:
            if parameter.has_default:
                signature[name], constants[name] = "constexpr", parameter.default
                continue
            raise Refused(f"the kernel of this release has an argument that is not known here: {name}")
        value = arguments[name]
        if parameter.is_constexpr or value is None or (isinstance(value, int) and value == 1):
            signature[name], constants[name] = "constexpr", value
            continue
        passed.append(value)
        if isinstance(value, int):
            signature[name] = "i32" if value < 1 << 31 else "i64"
        else:
            signature[name] = pointed(value)
        if not isinstance(value, int) or value % 16 == 0:
            divisible.append(name)
    options = {"num_warps": config["num_warps"], "num_stages": config["num_stages"]}
    job = {"module": source.module, "kernel": source.kernel, "signature": signature, "constants": constants,
           "divisible": divisible, "options": options, "capability": capability}  # fmt: skip
    return job, passed


# Times


class Device:
    def __init__(self):
        torch.cuda.init()
        self.stream = torch.cuda.Stream()
        torch.cuda.set_stream(self.stream)
        self.driver = ctypes.CDLL("libcuda.so.1")
        self.scratch = torch.zeros(SCRATCH, dtype=torch.uint8, device=DEVICE)
        self.graphs = torch.cuda.graph_pool_handle()
        self.loaded, self.turn, self.pools, self.kept = {}, 0, {}, None
        small = torch.zeros(1024, device=DEVICE)
        one, many = ([self.graph(lambda turn: small.add_(1), count)] for count in (1, 33))
        one, many = (statistics.median(self.rounds(graph, 20)[0]) for graph in (one, many))
        self.start_us = max(0.0, one - (many - one) / 32)

    def done(self, result, what):
        if result:
            raise RuntimeError(f"{what}: CUDA error {result}")

    def function(self, key, built):
        if key not in self.loaded:
            module, function = ctypes.c_void_p(), ctypes.c_void_p()
            self.done(self.driver.cuModuleLoadData(ctypes.byref(module), built["binary"]), "load")
            self.done(self.driver.cuModuleGetFunction(ctypes.byref(function), module, built["symbol"].encode()), "find")
            if built["shared"] > 48 << 10:
                self.done(self.driver.cuFuncSetAttribute(function, 8, built["shared"]), "shared memory")
            self.loaded[key] = function
        return self.loaded[key]

    def call(self, key, built, passed, programs):
        """A function of the turn that launches a kernel."""
        function, stream = self.function(key, built), ctypes.c_void_p(self.stream.cuda_stream)

        def launch(turn):
            values: list[Any] = []
            for value in passed:
                if not isinstance(value, int):
                    values.append(ctypes.c_uint64(value.at(turn)))
                else:
                    values.append(ctypes.c_int32(value) if value < 1 << 31 else ctypes.c_int64(value))
            # Triton's kernels have up to two pointers more, to scratch memory.
            values += [ctypes.c_uint64(self.scratch.data_ptr()), ctypes.c_uint64(0)]
            array = (ctypes.c_void_p * len(values))(*[ctypes.addressof(value) for value in values])
            threads = built["threads"]
            result = self.driver.cuLaunchKernel(function, programs, 1, 1, threads, 1, 1, built["shared"], stream, array, None)
            self.done(result, "launch")

        return launch

    def graph(self, call, count):
        call(self.turn)
        self.stream.synchronize()
        graph = torch.cuda.CUDAGraph()
        graph.capture_begin(pool=self.graphs, capture_error_mode="relaxed")
        try:
            for turn in range(count):
                call(self.turn + turn)
        finally:
            graph.capture_end()
        self.turn += count
        self.kept = self.kept or graph  # The pool ends with the last graph that uses it.
        return graph

    def rounds(self, graphs, rounds):
        """µs of each graph in each round, after one that does not count. A round has its own order."""
        events, order = [], list(range(len(graphs)))
        shuffled = random.Random(1)
        for _ in range(rounds + 1):
            shuffled.shuffle(order)
            pairs = {}
            for at in order:
                pairs[at] = before, after = torch.cuda.Event(enable_timing=True), torch.cuda.Event(enable_timing=True)
                before.record(self.stream)
                graphs[at].replay()
                after.record(self.stream)
            events.append(pairs)
        self.stream.synchronize()
        times = [{at: 1000 * before.elapsed_time(after) for at, (before, after) in pairs.items()} for pairs in events[1:]]
        return [[one[at] for one in times] for at in range(len(graphs))]

    def reserve(self, needs, operand):
        """Pools for the operands of a layer, filled with random numbers."""
        self.pools.clear()
        torch.cuda.empty_cache()
        free = torch.cuda.mem_get_info()[0]
        share = min(1.0, 0.85 * free / sum(POOLS.values()))
        for name, most in POOLS.items():
            least = max((need[name][0] for need in needs if name in need), default=0)
            wanted = (need[name] for need in needs if name in need)
            copies = max((min(192, up(5 * L2, touched)) * up(one, 1024) * 1024 for one, touched in wanted), default=most)
            size = max(up(least, 1024) * 1024, int(min(copies, most * share))) + 1024
            try:
                self.pools[name] = torch.empty(up(size, 1024) * 1024, dtype=torch.uint8, device=DEVICE)
            except torch.cuda.OutOfMemoryError:
                have = f"{free >> 30} GiB free"
                raise Refused(f"the layer's {name} need {least >> 20} MiB of GPU memory, and there are {have}") from None
        torch.manual_seed(1)
        chunk = torch.randn(32 << 20, device=DEVICE)
        scales = (chunk.abs() * 0.1 + 0.5).view(torch.uint8)
        values = chunk.to(torch.float8_e4m3fn if operand == "fp8" else torch.bfloat16).view(torch.uint8)
        for name, numbers in (("scales", scales), ("weights", values), ("rows", values)):
            for part in self.pools[name].split(numbers.numel()):
                part.copy_(numbers[: part.numel()])
        self.stream.synchronize()


def time_stage(device, stage, wanted, built, rounds, seconds):
    """Times of each launch, or why there are none. `wanted` has (key, arguments passed, programs) of each."""
    results: list[Any] = [None] * len(wanted)
    calls, reference = {}, None
    out = stage.c.first()
    for at, (key, passed, programs) in enumerate(wanted):
        if "failed" in built[key]:
            results[at] = {"failed": built[key]["failed"]}
            continue
        call = device.call(key, built[key], passed, programs)
        out.fill_(float("nan"))
        call(0)
        device.stream.synchronize()
        sums = out[:: max(1, len(out) >> 12)].float()
        reference = sums if reference is None else reference
        error = float((sums - reference).norm() / reference.norm())
        if not error < 0.02:
            results[at] = {"failed": f"other sums than the first config: {error:.2g} of their norm"}
            continue
        calls[at] = call
    if not calls:
        return results
    before, after = torch.cuda.Event(enable_timing=True), torch.cuda.Event(enable_timing=True)
    graphs, counts, expected = {}, {}, {}
    for at, call in calls.items():
        before.record(device.stream)
        for turn in range(3):
            call(device.turn + turn)
        after.record(device.stream)
        device.stream.synchronize()
        expected[at] = max(2.0, 1000 * before.elapsed_time(after) / 3)
    best = min(expected.values())
    # Of slow launches fewer, but each of the routings at least once.
    count = max(1, min(32, round(200 / best)), min(ROUTINGS, round(1600 / best)))
    for at, call in calls.items():
        graphs[at], counts[at] = device.graph(call, count), count
    each = sum(min(expected[at], 8 * best) * counts[at] for at in calls) / 1e6
    rounds = max(8, min(rounds, int(seconds / max(each, 1e-6))))
    for at, times in zip(graphs, device.rounds(list(graphs.values()), rounds), strict=True):
        results[at] = {"us": [round((one - device.start_us) / counts[at], 4) for one in times]}
    return results


def measure(device, pool, folder, layer, capability):
    source = Source(layer["consumer"], layer["kind"], folder)
    until = time.monotonic() + layer["budget"]
    of_experts = layer["kind"] == "experts"
    batches, needs = {}, []
    for request in layer["batches"]:
        batch = Batch(layer, request) if of_experts else None
        batches[request["batch"]] = batch
        needs += [Stage(layer, request, down, batch, None).needs for down in range(len(request["stages"]))]
    device.reserve(needs, layer["operand"])
    jobs, prepared = {}, []
    for request in layer["batches"]:
        batch = batches[request["batch"]]
        stages = [Stage(layer, request, down, batch, device.pools) for down in range(len(request["stages"]))]
        launches = []
        for one in request["launches"]:
            arguments, programs = stages[one["stage"]].launch(source, one["config"])
            job, passed = job_of(source, arguments, one["config"], capability)
            key = json.dumps(job, sort_keys=True)
            if key not in jobs:
                jobs[key] = pool.apply_async(build, (job,))
            launches.append((one["stage"], key, passed, programs))
        prepared.append((request, stages, launches))
    say(compiled=[0, len(jobs)])
    for request, stages, launches in prepared:
        keys = {key for _, key, _, _ in launches}
        while not all(jobs[key].ready() for key in keys):
            if time.monotonic() > until:
                break
            time.sleep(0.05)
            if int(time.monotonic() * 20) % 20 == 0:
                say(compiled=[sum(job.ready() for job in jobs.values()), len(jobs)])
        if time.monotonic() > until:
            break
        built = {key: jobs[key].get() for key in keys}
        results: list[Any] = [None] * len(launches)
        for number, stage in enumerate(stages):
            wanted = [(at, one) for at, one in enumerate(launches) if one[0] == number]
            found = time_stage(device, stage, [one[1:] for _, one in wanted], built, layer["rounds"], layer["seconds"])
            for (at, _), result in zip(wanted, found, strict=True):
                results[at] = result
        batches[request["batch"]] = None
        say(timed={"batch": request["batch"], "launches": results})
    say(done={})


def main():
    global REPLIES, L2
    REPLIES, sys.stdout = sys.stdout, sys.stderr
    alone_with_parent()
    order = json.loads(sys.stdin.readline())
    try:
        if MISSING:
            raise Refused(MISSING)
        sources = {}
        folder = order["folder"]
        for consumer in order["consumers"]:
            with contextlib.suppress(LookupError):
                source = Source(consumer, order["kind"], folder)
                sources[consumer] = {"version": source.version, "package": source.package}
        # Processes are made before this one uses the GPU.
        cores = len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1
        pool = multiprocessing.get_context("fork").Pool(cores, alone_with_parent)
        if not torch.cuda.is_available() or torch.version.hip:
            raise Refused(f"torch {torch.__version__} sees no NVIDIA GPU")
        about = torch.cuda.get_device_properties(0)
        L2 = getattr(about, "L2_cache_size", 0) or 64 << 20
        capability = 10 * about.major + about.minor
        device = Device()
    except Refused as error:
        say(refused=str(error))
        return
    versions = {"torch": torch.__version__, "triton": triton.__version__, "cuda": torch.version.cuda}
    say(ready={"gpu": about.name, "versions": versions, "kernels": sources})
    for line in sys.stdin:
        try:
            measure(device, pool, order["folder"], json.loads(line), capability)
        except Refused as error:
            say(refused=str(error))
        except Exception as error:  # The cause is told to the user.
            say(refused=f"{type(error).__name__}: {' '.join(str(error).split())[-400:]}")
    pool.terminate()


if __name__ == "__main__":
    if len(sys.argv) > 1:
        raise SystemExit(f"expected no arguments, got {sys.argv[1:]}")
    main()
