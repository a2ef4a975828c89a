"""What a problem's launches read and write: operands on the GPU, the launch of a config, references and untuned rivals."""

import torch

from cubins import up
from device import L2, SMS, Operand, Table

TYPES = {"fp8": torch.float8_e4m3fn, "bf16": torch.bfloat16, "int8": torch.int8}
ROUTINGS = 8


def copies_for(touched):
    """So many that five L2s of other memory lie between two uses of a copy."""
    return max(1, min(192, up(5 * L2, touched)))


class Scaled:
    """One `scaled_mm`."""

    def __init__(self, device, kind, problem):
        self.device, self.scaling = device, kind.split("_")[2]
        (self.n, self.k), self.m = problem["stages"][0], problem["m"]
        m, n, k = self.m, self.n, self.k
        self.touched = m * k + n * k + 2 * m * n
        self.operations = 2 * m * n * k
        copies = copies_for(self.touched)
        pools, fp8, fp32 = device.pools, TYPES["fp8"], torch.float32
        shapes = {"tensor": ((1,), (1,)), "row": ((m,), (n,)), "block": ((m, up(k, 128)), (up(n, 128), up(k, 128)))}[self.scaling]
        self.a = Operand(pools["rows"], fp8, (m, k), copies)
        self.b = Operand(pools["weights"], fp8, (n, k), copies)
        self.c = Operand(pools["output"], torch.bfloat16, (m, n), copies)
        self.sa, self.sb = (Operand(pools["scales"], fp32, shape, copies) for shape in shapes)

    def launch(self, handle, about, tile, group):
        rows, columns = tile[1:3]
        tiles = up(self.m, rows) * up(self.n, columns)
        strides = [up(self.k, 128)] * 2 if self.scaling == "block" else [0, 0]
        arguments = [self.a, self.b, self.sa, self.sb, self.c, self.m, self.n, self.k, self.k, self.k, self.n, *strides, group]
        return self.device.launch(handle, about, arguments, min(tiles, SMS) if tile[0].endswith("tma") else tiles)

    def reference(self):
        a, b, sa, sb = self.a.tensor().float(), self.b.tensor().float(), self.sa.tensor(), self.sb.tensor()
        if self.scaling == "tensor":
            return (a @ b.T) * sa * sb
        if self.scaling == "row":
            return (a @ b.T) * sa[:, None] * sb[None, :]
        a = a * sa.repeat_interleave(128, 1)[:, : self.k]
        b = b * sb.repeat_interleave(128, 0)[: self.n].repeat_interleave(128, 1)[:, : self.k]
        return a @ b.T

    def rivals(self):
        """What torch runs, by name: functions of the turn."""

        def call(fast):
            def run(turn):
                a, b, c = self.a.tensor(turn), self.b.tensor(turn).T, self.c.tensor(turn)
                sa, sb = self.sa.tensor(turn), self.sb.tensor(turn)
                if self.scaling == "tensor":
                    sa, sb = sa[0], sb[0]
                elif self.scaling == "row":
                    sa, sb = sa[:, None], sb[None, :]
                else:  # The same numbers in the order that cuBLASLt wants; values differ, times don't.
                    sa, sb = sa.view(sa.shape[1], sa.shape[0]).T, sb.T
                torch._scaled_mm(a, b, sa, sb, out_dtype=torch.bfloat16, use_fast_accum=fast, out=c)

            return run

        if self.scaling == "block":
            return {"torch._scaled_mm": call(False)}
        return {"torch._scaled_mm": call(True), "torch._scaled_mm slow accumulation": call(False)}


def routed(problem, seed):
    """Top-k experts of each token, uniformly random without repeats: (routings, tokens · top-k)."""
    generator = torch.Generator(device="cuda").manual_seed(seed)
    tokens, experts, top_k = problem["m"], problem["experts"], problem["top_k"]
    found = []
    for _ in range(ROUTINGS):
        scores = torch.rand(tokens, experts, device="cuda", generator=generator)
        found.append(scores.topk(top_k, dim=1).indices.flatten())
    return torch.stack(found)


class Grouped:
    """One `grouped_mm`: rows sorted by expert beforehand."""

    def __init__(self, device, kind, problem):
        self.device = device
        (self.n, self.k), self.groups = problem["stages"][0], problem["experts"]
        self.rows = problem["m"] * problem["top_k"]
        choice = routed(problem, 1)
        counts = torch.zeros(ROUTINGS, self.groups, dtype=torch.int64, device="cuda")
        counts.scatter_add_(1, choice, torch.ones_like(choice))
        ends = torch.zeros(ROUTINGS, up(self.groups, 32) * 32, dtype=torch.int32, device="cuda")
        ends[:, : self.groups] = counts.cumsum(1)
        self.ends = Table(ends)
        self.distinct_of = (counts > 0).sum(1).tolist()
        self.distinct = sum(self.distinct_of) / ROUTINGS
        self.touched = int(2 * (self.rows * (self.k + self.n) + self.distinct * self.n * self.k))
        self.operations = 2 * self.rows * self.n * self.k
        copies, bf16 = copies_for(self.touched), torch.bfloat16
        self.a = Operand(device.pools["rows"], bf16, (self.rows, self.k), copies)
        self.b = Operand(device.pools["weights"], bf16, (self.groups, self.n, self.k), copies)
        self.c = Operand(device.pools["output"], bf16, (self.rows, self.n), copies)

    def launch(self, handle, about, tile, group):
        strides = [self.k, self.k, self.n, self.n * self.k, group]
        return self.device.launch(handle, about, [self.a, self.b, self.c, self.ends, self.groups, self.n, self.k, *strides], SMS)

    def reference(self):
        out, first = torch.empty(self.rows, self.n, device="cuda"), 0
        for group, end in enumerate(self.ends.pool[0, : self.groups].tolist()):
            out[first:end] = self.a.tensor()[first:end].float() @ self.b.tensor()[group].float().T
            first = end
        return out

    def rivals(self):
        def run(turn):
            ends = self.ends.pool[turn % ROUTINGS, : self.groups]
            torch._grouped_mm(self.a.tensor(turn), self.b.tensor(turn).transpose(1, 2), offs=ends)

        return {"torch._grouped_mm": run}


class Experts:
    """One of the two launches of a layer of experts. Both share the sorted lists, one for each height of tiles."""

    def __init__(self, device, kind, problem, stage, sorted_lists=None):
        self.device, self.stage = device, stage
        operand, self.scaling = (
            kind.removesuffix("_early").removeprefix("fused_moe_").split("_") if "_" in kind[10:] else (kind[10:], "none")
        )
        self.m, self.experts, self.top_k = problem["m"], problem["experts"], problem["top_k"]
        (self.n, self.k), self.pairs = problem["stages"][stage], self.m * self.top_k
        self.choice, self.lists = sorted_lists or (routed(problem, 1), {})
        rows = self.pairs if stage else self.m
        self.distinct_of = [len(one.unique()) for one in self.choice]
        self.distinct = sum(self.distinct_of) / ROUTINGS
        size = TYPES[operand].itemsize
        self.touched = int(rows * self.k * size + self.distinct * self.n * self.k * size + 2 * self.pairs * self.n)
        self.operations = 2 * self.pairs * self.n * self.k
        copies, pools, of_k, of_n = copies_for(self.touched), device.pools, up(self.k, 128), up(self.n, 128)
        shapes = {"none": ((1,), (1,)), "row": ((rows,), (self.experts, self.n)),
                  "block": ((rows, of_k), (self.experts, of_n, of_k))}[self.scaling]  # fmt: skip
        self.strides = {"none": [0, 0, 0], "row": [1, self.n, 0], "block": [of_k, of_n * of_k, of_k]}[self.scaling]
        self.a = Operand(pools["rows"], TYPES[operand], (rows, self.k), copies)
        self.b = Operand(pools["weights"], TYPES[operand], (self.experts, self.n, self.k), copies)
        self.c = Operand(pools["output"], torch.bfloat16, (self.pairs, self.n), copies)
        self.sa, self.sb = (Operand(pools["scales"], torch.float32, shape, copies) for shape in shapes)
        self.weights = Operand(pools["scales"], torch.float32, (self.pairs,), 1)

    def sorted(self, rows):
        """vLLM's sorted lists for tiles of so many rows: pairs, experts of blocks, length in use, and the launch's length."""
        if rows in self.lists:
            return self.lists[rows]
        pairs, experts, naive = self.pairs, self.experts, 4 * self.pairs <= self.experts
        length = min(pairs + experts * (rows - 1), pairs * rows) if pairs < experts else pairs + experts * (rows - 1)
        length = pairs * rows if naive else length
        wide, blocks = up(length, 256) * 256 + rows, up(length, rows)
        ids = torch.full((ROUTINGS, wide), pairs, dtype=torch.int32, device="cuda")
        of_block = torch.full((ROUTINGS, up(blocks, 32) * 32), -1, dtype=torch.int32, device="cuda")
        used = torch.zeros(ROUTINGS, 32, dtype=torch.int32, device="cuda")
        if naive:  # One pair in each block, unsorted.
            ids[:, : pairs * rows : rows] = torch.arange(pairs, dtype=torch.int32, device="cuda")
            of_block[:, :pairs] = self.choice
            used[:, 0] = pairs * rows
        else:
            by_expert, order = self.choice.sort(dim=1, stable=True)
            counts = torch.zeros(ROUTINGS, experts, dtype=torch.int64, device="cuda")
            counts.scatter_add_(1, self.choice, torch.ones_like(self.choice))
            padded = (counts + rows - 1) // rows * rows
            starts, first = padded.cumsum(1) - padded, counts.cumsum(1) - counts
            at = torch.arange(pairs, device="cuda") - first.gather(1, by_expert) + starts.gather(1, by_expert)
            ids.scatter_(1, at, order.to(torch.int32))
            ends = padded.cumsum(1)
            used[:, 0] = ends[:, -1]
            first_rows = (torch.arange(blocks, device="cuda") * rows).expand(ROUTINGS, blocks).contiguous()
            found = torch.searchsorted(ends, first_rows, right=True).to(torch.int32)
            of_block[:, :blocks] = torch.where(first_rows < ends[:, -1:], found, -1)
        self.lists[rows] = (Table(ids), Table(of_block), Table(used), length)
        return self.lists[rows]

    def launch(self, handle, about, tile, group):
        rows, columns = tile[1:3]
        ids, of_block, used, length = self.sorted(rows)
        of_a, top_k = (self.pairs, 1) if self.stage else (self.m, self.top_k)
        if of_a < rows:
            length = min(length, of_a * top_k * rows)
        blocks = up(length, rows)
        arguments = [self.a, self.b, self.sa, self.sb, self.c, ids, of_block, used, self.weights, self.n, self.k, blocks, self.pairs,
                     self.k, self.k, self.n, self.n * self.k, *self.strides, top_k, self.stage, group]  # fmt: skip
        return self.device.launch(handle, about, arguments, blocks * up(self.n, columns))

    def reference(self):
        out = torch.empty(self.pairs, self.n, device="cuda")
        a, b = self.a.tensor().float(), self.b.tensor()
        if self.scaling == "row":
            a = a * self.sa.tensor()[:, None]
        if self.scaling == "block":
            a = a * self.sa.tensor().repeat_interleave(128, 1)[:, : self.k]
        for expert in self.choice[0].unique().tolist():
            pairs = (self.choice[0] == expert).nonzero().flatten()
            weight = b[expert].float()
            if self.scaling == "row":
                weight = weight * self.sb.tensor()[expert][:, None]
            if self.scaling == "block":
                scale = self.sb.tensor()[expert].repeat_interleave(128, 0)[: self.n].repeat_interleave(128, 1)[:, : self.k]
                weight = weight * scale
            out[pairs] = a[pairs if self.stage else pairs // self.top_k] @ weight.T
        return out * self.weights.tensor()[:, None] if self.stage else out

    def rivals(self):
        return {}


def stages(device, kind, problem):
    if kind.startswith("scaled"):
        return [Scaled(device, kind, problem)]
    if kind == "grouped_mm":
        return [Grouped(device, kind, problem)]
    first = Experts(device, kind, problem, 0)
    return [first, Experts(device, kind, problem, 1, (first.choice, first.lists))]
