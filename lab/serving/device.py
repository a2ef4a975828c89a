"""The GPU: memory that operands rotate through, kernels, and times. Needs torch, gcc and a Hopper GPU."""

import ctypes
import json
import subprocess
import tempfile
from pathlib import Path

import torch
import triton

from cubins import name_of

L2 = 60 << 20
SMS = 132
POOLS = {"weights": 7 << 30, "rows": 3 << 30, "output": 3 << 30, "sums": 1 << 30, "scales": 256 << 20}


class Launch(ctypes.Structure):
    _fields_ = [("function", ctypes.c_void_p), ("columns", ctypes.c_uint), ("rows", ctypes.c_uint), ("threads", ctypes.c_uint),
                ("shared", ctypes.c_uint), ("count", ctypes.c_uint), ("base", ctypes.c_longlong * 32),
                ("step", ctypes.c_longlong * 32), ("copies", ctypes.c_int * 32), ("restarts", ctypes.c_int * 32)]  # fmt: skip


class Operand:
    """An argument with copies in a pool: each launch takes the next, so what it reads is not in the L2."""

    def __init__(self, pool, dtype, shape, copies, restarts=False):
        self.dtype, self.shape, self.restarts = dtype, shape, restarts
        count = 1
        for size in shape:
            count *= size
        self.elements = count
        self.step = -(-count * dtype.itemsize // 1024) * 1024
        self.copies = max(1, min(copies, pool.numel() // self.step))
        if self.step > pool.numel():
            raise MemoryError(f"{shape} of {dtype} does not fit")
        self.pool = pool

    def tensor(self, turn=0):
        at = self.step * (turn % self.copies)
        return self.pool[at : at + self.elements * self.dtype.itemsize].view(self.dtype).view(self.shape)


class Table:
    """A small tensor made for one problem, with a row for each launch of a batch: the routing."""

    def __init__(self, tensor):
        self.pool, self.step, self.copies, self.restarts = tensor, tensor.stride(0) * tensor.element_size(), len(tensor), True


class Device:
    def __init__(self):
        torch.cuda.init()
        self.stream = torch.cuda.Stream()
        torch.cuda.set_stream(self.stream)
        self.driver = ctypes.CDLL("libcuda.so.1", ctypes.RTLD_GLOBAL)
        folder = tempfile.mkdtemp()
        include = Path(triton.__file__).parent / "backends/nvidia/include"
        source = Path(__file__).parent / "launch.c"
        subprocess.run(["gcc", "-O2", "-shared", "-fPIC", f"-I{include}", source, "-o", f"{folder}/launch.so"], check=True)
        self.library = ctypes.CDLL(f"{folder}/launch.so")
        self.functions, self.abouts = {}, {}
        self.pools = {name: torch.empty(size, dtype=torch.uint8, device="cuda") for name, size in POOLS.items()}
        self.scratch = torch.empty(16 << 20, dtype=torch.uint8, device="cuda")
        self.graph_pool, self.kept = torch.cuda.graph_pool_handle(), None
        self.events, self.turn, self.filled = [], 0, None

    def fill(self, operand):
        """Normally distributed operands of a type, and scales around 1."""
        if self.filled == operand:
            return
        torch.manual_seed(1)
        chunk = torch.randn(64 << 20, device="cuda")
        self.pools["scales"].view(torch.float32).copy_(chunk.abs() * 0.1 + 0.5)
        chunk = {"fp8": lambda: chunk.to(torch.float8_e4m3fn), "bf16": lambda: chunk.to(torch.bfloat16),
                 "int8": lambda: (chunk * 40).clamp(-127, 127).to(torch.int8)}[operand]().view(torch.uint8)  # fmt: skip
        for name in ("weights", "rows"):
            pool = self.pools[name]
            for at in range(0, pool.numel(), chunk.numel()):
                part = pool[at : at + chunk.numel()]
                part.copy_(chunk[: part.numel()])
        self.pools["output"].zero_()
        torch.cuda.synchronize()
        self.filled = operand

    def function(self, folder, one):
        """(handle, facts) of a compiled variant, or None and why there is none."""
        name = name_of(one)
        if name in self.functions:
            return self.functions[name], self.abouts[name]
        path = Path(folder) / (name + ".json")
        about = json.loads(path.read_text()) if path.exists() else {"failed": "not compiled"}
        handle = None
        if "failed" not in about:
            module, function = ctypes.c_void_p(), ctypes.c_void_p()
            image = path.with_suffix(".cubin").read_bytes()
            result = self.driver.cuModuleLoadData(ctypes.byref(module), image)
            result = result or self.driver.cuModuleGetFunction(ctypes.byref(function), module, about["symbol"].encode())
            if not result and about["shared"] > 48 << 10:
                result = self.driver.cuFuncSetAttribute(function, 8, about["shared"])
            if result:
                about["failed"] = f"not loaded: {result}"
            else:
                handle = function.value
        self.functions[name], self.abouts[name] = handle, about
        return handle, about

    def launch(self, handle, about, arguments, columns, rows=1):
        """A launch with Operands, Tables and integers, in the kernel's order."""
        one = Launch(handle, columns, rows, about["threads"], about["shared"], len(arguments) + 2)
        for at, value in enumerate([*arguments, self.scratch.data_ptr(), 0]):
            if isinstance(value, int):
                one.base[at], one.step[at], one.copies[at] = value, 0, 1
            else:
                one.base[at], one.step[at], one.copies[at] = value.pool.data_ptr(), value.step, value.copies
                one.restarts[at] = value.restarts
        return (Launch * 1)(one)

    def event(self):
        made = ctypes.c_void_p()
        self._done(self.driver.cuEventCreate(ctypes.byref(made), 0))
        return made

    def event_pair(self, at):
        while len(self.events) <= at:
            self.events.append((self.event(), self.event()))
        return self.events[at]

    def between(self, at):
        found = ctypes.c_float()
        self._done(self.driver.cuEventElapsedTime(ctypes.byref(found), *self.events[at]))
        return found.value * 1000.0

    def _done(self, result):
        if result:
            raise RuntimeError(f"CUDA error {result}")

    def once(self, launches):
        """One launch with the first copies, awaited."""
        self._done(self.library.batch(launches, len(launches), ctypes.c_void_p(self.stream.cuda_stream), ctypes.c_longlong(0), 1))
        self.stream.synchronize()

    def look(self, all_launches, times):
        """µs per launch of each, from one batch each, queued one after the other."""
        stream = ctypes.c_void_p(self.stream.cuda_stream)
        for at, launches in enumerate(all_launches):
            before, after = self.event_pair(at)
            self._done(self.library.timed(launches, len(launches), stream, ctypes.c_longlong(self.turn), times, before, after))
            self.turn += times
        self.stream.synchronize()
        return [self.between(at) / times for at in range(len(all_launches))]

    def graph(self, launches, times):
        found = ctypes.c_void_p()
        stream = ctypes.c_void_p(self.stream.cuda_stream)
        self._done(
            self.library.captured(launches, len(launches), stream, ctypes.c_longlong(self.turn), times, ctypes.byref(found))
        )
        self.turn += times
        return found

    def replay(self, graphs, rounds):
        """Times in µs of whole graphs: a list of rounds for each. Graphs take turns. A graph may be torch's."""
        stream = ctypes.c_void_p(self.stream.cuda_stream)
        for turn in range(rounds):
            for at, graph in enumerate(graphs):
                before, after = self.event_pair(turn * len(graphs) + at)
                if isinstance(graph, torch.cuda.CUDAGraph):
                    self._done(self.driver.cuEventRecord(before, stream))
                    with torch.cuda.stream(self.stream):
                        graph.replay()
                    self._done(self.driver.cuEventRecord(after, stream))
                else:
                    self._done(self.library.replayed(graph, stream, before, after))
        self.stream.synchronize()
        return [[self.between(turn * len(graphs) + at) for turn in range(rounds)] for at in range(len(graphs))]

    def free(self, graph):
        if not isinstance(graph, torch.cuda.CUDAGraph):
            self._done(self.driver.cuGraphExecDestroy(graph))

    def torch_graph(self, call, times):
        """`call(turn)` captured `times` times, after a call outside that makes handles and workspaces."""
        with torch.cuda.stream(self.stream):
            call(0)
        self.stream.synchronize()
        graph = torch.cuda.CUDAGraph()
        with torch.cuda.stream(self.stream):
            graph.capture_begin(pool=self.graph_pool, capture_error_mode="relaxed")
            try:
                for turn in range(times):
                    call(self.turn + turn)
            finally:
                graph.capture_end()
        self.turn += times
        self.kept = self.kept or graph  # A pool ends with the last graph that uses it.
        return graph

    def facts(self):
        from importlib.metadata import version

        found = {
            "gpu": torch.cuda.get_device_name(),
            "torch": torch.__version__,
            "triton": version("triton"),
            "cuda": torch.version.cuda,
        }
        query = ["nvidia-smi", "--query-gpu=driver_version,clocks.max.sm,power.limit", "--format=csv,noheader"]
        found["nvidia-smi"] = subprocess.run(query, capture_output=True, text=True, check=False).stdout.strip()
        return found
