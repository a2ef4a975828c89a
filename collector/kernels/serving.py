"""The multiplications that language models are served with: scaled, grouped, and by experts.

A is row-major and a weight is stored as (N, K), so both run along K. C is row-major. Sizes, strides and the width of a
group of row blocks are arguments: one binary serves every problem of its variant.

Every kernel has the same arguments, so that one launch fits all, and does not look at those that it has no use for:
pointers A, B, their scales, C; the routing (`pairs`, `experts`, `ends`, `weights`, see each kernel); sizes M, N, K; the
distance between rows of A, weights and C; between weights of groups; between rows of the scales of A, and between
groups and rows of those of weights; how many groups there are and how many of them each token has; whether rows are
multiplied by `weights`; how many row blocks the launch has; how many row blocks a group is wide.
"""

# ruff: noqa: RET505 (Triton compiles the branch not taken if it does not stand in an `else`.)

import triton
import triton.language as tl

SCALE_BLOCK = tl.constexpr(128)  # Scales by block: A has one for 128 columns of a row, a weight one for 128 by 128.


@triton.jit
def place(pid, blocks_m, blocks_n, group_m):
    """The tile of a program: down `group_m` tiles, then one column to the right."""
    width = group_m * blocks_n
    group = pid // width
    height = min(blocks_m - group * group_m, group_m)
    block_m = group * group_m + (pid % width) % height
    block_n = (pid % width) // height
    return block_m, block_n


@triton.jit
def zeros(BLOCK_M: tl.constexpr, BLOCK_N: tl.constexpr, SWAP: tl.constexpr):
    if SWAP:
        return tl.zeros((BLOCK_N, BLOCK_M), tl.float32)
    else:
        return tl.zeros((BLOCK_M, BLOCK_N), tl.float32)


@triton.jit
def multiplied(a, b, acc, FAST: tl.constexpr, SWAP: tl.constexpr):
    """One step. SWAP multiplies the transposes: the 64 rows of a wgmma are then columns of the weight."""
    if SWAP:
        return tl.dot(tl.trans(b), tl.trans(a), acc) if FAST else acc + tl.dot(tl.trans(b), tl.trans(a))
    else:
        return tl.dot(a, b, acc) if FAST else acc + tl.dot(a, b)


@triton.jit
def scaled_step(a, b, acc, of_rows, of_columns, SWAP: tl.constexpr):
    """One step whose product has scales of its own."""
    if SWAP:
        return acc + tl.dot(tl.trans(b), tl.trans(a)) * of_rows[None, :] * of_columns[:, None]
    else:
        return acc + tl.dot(a, b) * of_rows[:, None] * of_columns[None, :]


@triton.jit
def scaled_mm(
    A,
    B,
    a_scales,
    b_scales,
    C,
    pairs,
    experts,
    ends,
    weights,
    M,
    N,
    K,
    lda,
    ldb,
    ldc,
    b_group,
    a_scale_row,
    b_scale_group,
    b_scale_row,
    groups,
    top_k,
    weighted,
    blocks_m,
    group_m,
    BLOCK_M: tl.constexpr,
    BLOCK_N: tl.constexpr,
    BLOCK_K: tl.constexpr,
    EVEN_K: tl.constexpr,
    SCALING: tl.constexpr,
    FAST: tl.constexpr,
    SWAP: tl.constexpr,
):
    """C = (A · Bᵀ) scaled by "tensor", "row" (of A and of B) or "block"."""
    block_m, block_n = place(tl.program_id(0), tl.cdiv(M, BLOCK_M), tl.cdiv(N, BLOCK_N), group_m)
    row = (block_m * BLOCK_M + tl.arange(0, BLOCK_M)) % M
    column = (block_n * BLOCK_N + tl.arange(0, BLOCK_N)) % N
    depth = tl.arange(0, BLOCK_K)
    a_at = A + row[:, None] * lda + depth[None, :]
    b_at = B + column[None, :] * ldb + depth[:, None]
    acc = zeros(BLOCK_M, BLOCK_N, SWAP)
    for k in range(0, K, BLOCK_K):
        if EVEN_K:
            a = tl.load(a_at)
            b = tl.load(b_at)
        else:
            a = tl.load(a_at, mask=depth[None, :] < K - k, other=0.0)
            b = tl.load(b_at, mask=depth[:, None] < K - k, other=0.0)
        if SCALING == "block":
            at = k // SCALE_BLOCK
            of_rows = tl.load(a_scales + row * a_scale_row + at)
            if BLOCK_N <= SCALE_BLOCK:
                # All columns of the tile have one scale.
                scale = of_rows * tl.load(b_scales + (block_n * BLOCK_N // SCALE_BLOCK) * b_scale_row + at)
                if SWAP:
                    acc += tl.dot(tl.trans(b), tl.trans(a)) * scale[None, :]
                else:
                    acc += tl.dot(a, b) * scale[:, None]
            else:
                of_columns = tl.load(b_scales + (column // SCALE_BLOCK) * b_scale_row + at)
                acc = scaled_step(a, b, acc, of_rows, of_columns, SWAP)
        else:
            acc = multiplied(a, b, acc, FAST, SWAP)
        a_at += BLOCK_K
        b_at += BLOCK_K
    if SWAP:
        acc = tl.trans(acc)
    stored_row = block_m * BLOCK_M + tl.arange(0, BLOCK_M)
    stored_column = block_n * BLOCK_N + tl.arange(0, BLOCK_N)
    if SCALING == "tensor":
        acc *= tl.load(a_scales) * tl.load(b_scales)
    if SCALING == "row":
        of_rows = tl.load(a_scales + stored_row, stored_row < M)
        of_columns = tl.load(b_scales + stored_column, stored_column < N)
        acc = acc * of_rows[:, None] * of_columns[None, :]
    mask = (stored_row < M)[:, None] & (stored_column < N)[None, :]
    tl.store(C + stored_row[:, None] * ldc + stored_column[None, :], acc.to(C.dtype.element_ty), mask)


@triton.jit
def scaled_mm_tma(
    A,
    B,
    a_scales,
    b_scales,
    C,
    pairs,
    experts,
    ends,
    weights,
    M,
    N,
    K,
    lda,
    ldb,
    ldc,
    b_group,
    a_scale_row,
    b_scale_group,
    b_scale_row,
    groups,
    top_k,
    weighted,
    blocks_m,
    group_m,
    BLOCK_M: tl.constexpr,
    BLOCK_N: tl.constexpr,
    BLOCK_K: tl.constexpr,
    EVEN_K: tl.constexpr,
    SCALING: tl.constexpr,
    FAST: tl.constexpr,
    SWAP: tl.constexpr,
):
    """The same by row or tensor, persistent, through the copy engine: no addresses in registers, so large tiles don't spill."""
    rows = tl.cdiv(M, BLOCK_M)
    columns = tl.cdiv(N, BLOCK_N)
    a_tiles = tl.make_tensor_descriptor(A, [M, K], [lda, 1], [BLOCK_M, BLOCK_K])
    b_tiles = tl.make_tensor_descriptor(B, [N, K], [ldb, 1], [BLOCK_N, BLOCK_K])
    c_tiles = tl.make_tensor_descriptor(C, [M, N], [ldc, 1], [BLOCK_M, BLOCK_N])
    for tile in tl.range(tl.program_id(0), rows * columns, tl.num_programs(0), flatten=True):
        block_m, block_n = place(tile, rows, columns, group_m)
        acc = tl.zeros((BLOCK_M, BLOCK_N), tl.float32)
        for k in range(0, K, BLOCK_K):
            a = a_tiles.load([block_m * BLOCK_M, k])
            b = b_tiles.load([block_n * BLOCK_N, k])
            acc = multiplied(a, b.T, acc, FAST, False)
        row = block_m * BLOCK_M + tl.arange(0, BLOCK_M)
        column = block_n * BLOCK_N + tl.arange(0, BLOCK_N)
        if SCALING == "tensor":
            acc *= tl.load(a_scales) * tl.load(b_scales)
        if SCALING == "row":
            of_rows = tl.load(a_scales + row, row < M)
            of_columns = tl.load(b_scales + column, column < N)
            acc = acc * of_rows[:, None] * of_columns[None, :]
        c_tiles.store([block_m * BLOCK_M, block_n * BLOCK_N], acc.to(C.dtype.element_ty))


@triton.jit
def grouped_mm(
    A,
    B,
    a_scales,
    b_scales,
    C,
    pairs,
    experts,
    ends,
    weights,
    M,
    N,
    K,
    lda,
    ldb,
    ldc,
    b_group,
    a_scale_row,
    b_scale_group,
    b_scale_row,
    groups,
    top_k,
    weighted,
    blocks_m,
    group_m,
    BLOCK_M: tl.constexpr,
    BLOCK_N: tl.constexpr,
    BLOCK_K: tl.constexpr,
    EVEN_K: tl.constexpr,
    SCALING: tl.constexpr,
    FAST: tl.constexpr,
    TMA: tl.constexpr,
):
    """Ragged groups of rows of A, each by its own weight. Persistent: a program walks the groups and takes every n-th tile.

    `ends` holds the row after the last of each group. Inside a group rows run fastest, as in Inductor's template.
    """
    programs = tl.num_programs(0)
    mine = tl.program_id(0)
    columns = tl.cdiv(N, BLOCK_N)
    depth = tl.arange(0, BLOCK_K)
    first = 0
    done = 0
    weight = B
    scales = b_scales
    if TMA:
        a_tiles = tl.make_tensor_descriptor(A, [M, K], [lda, 1], [BLOCK_M, BLOCK_K])
        b_tiles = tl.make_tensor_descriptor(B, [groups * N, K], [ldb, 1], [BLOCK_N, BLOCK_K])
    for group in range(groups):
        end = tl.load(ends + group)
        size = end - first
        if size > 0:
            rows = tl.cdiv(size, BLOCK_M)
            tiles = rows * columns
            while mine < done + tiles:
                tile = mine - done
                row = first + (tile % rows) * BLOCK_M
                column = (tile // rows) * BLOCK_N
                rows_at = row + tl.arange(0, BLOCK_M)
                columns_at = column + tl.arange(0, BLOCK_N)
                acc = tl.zeros((BLOCK_M, BLOCK_N), tl.float32)
                if TMA:
                    for k in range(0, K, BLOCK_K):
                        a = a_tiles.load([row, k])
                        b = b_tiles.load([group * N + column, k])
                        acc = multiplied(a, b.T, acc, FAST, False)
                else:
                    of_row = tl.minimum(rows_at, end - 1)
                    of_column = columns_at % N
                    a_at = A + of_row[:, None] * lda + depth[None, :]
                    b_at = weight + of_column[None, :] * ldb + depth[:, None]
                    for k in range(0, K, BLOCK_K):
                        if EVEN_K:
                            a = tl.load(a_at)
                            b = tl.load(b_at)
                        else:
                            a = tl.load(a_at, mask=depth[None, :] < K - k, other=0.0)
                            b = tl.load(b_at, mask=depth[:, None] < K - k, other=0.0)
                        if SCALING == "block":
                            at = k // SCALE_BLOCK
                            of_rows = tl.load(a_scales + of_row * a_scale_row + at)
                            of_columns = tl.load(scales + (of_column // SCALE_BLOCK) * b_scale_row + at)
                            acc = scaled_step(a, b, acc, of_rows, of_columns, False)
                        else:
                            acc = multiplied(a, b, acc, FAST, False)
                        a_at += BLOCK_K
                        b_at += BLOCK_K
                if SCALING == "tensor":
                    acc *= tl.load(a_scales) * tl.load(scales)
                if SCALING == "row":
                    of_rows = tl.load(a_scales + rows_at, rows_at < end)
                    of_columns = tl.load(scales + columns_at, columns_at < N)
                    acc = acc * of_rows[:, None] * of_columns[None, :]
                mask = (rows_at < end)[:, None] & (columns_at < N)[None, :]
                tl.store(C + rows_at[:, None] * ldc + columns_at[None, :], acc.to(C.dtype.element_ty), mask)
                mine += programs
            done += tiles
        first = end
        weight += b_group
        scales += b_scale_group


@triton.jit
def fused_moe(
    A,
    B,
    a_scales,
    b_scales,
    C,
    pairs,
    experts,
    ends,
    weights,
    M,
    N,
    K,
    lda,
    ldb,
    ldc,
    b_group,
    a_scale_row,
    b_scale_group,
    b_scale_row,
    groups,
    top_k,
    weighted,
    blocks_m,
    group_m,
    BLOCK_M: tl.constexpr,
    BLOCK_N: tl.constexpr,
    BLOCK_K: tl.constexpr,
    EVEN_K: tl.constexpr,
    SCALING: tl.constexpr,
    FAST: tl.constexpr,
    SWAP: tl.constexpr,
):
    """One launch of a layer of experts, as vLLM and SGLang launch it. M is the number of pairs.

    `pairs` lists pairs (token · top-k + slot) sorted by expert and padded to whole blocks with M. `experts` has the expert
    of each block, or -1: zeros are written. `ends` holds the length in use. The row of A is pair // top_k: `top_k` is 1
    in the second launch (down), whose rows are pairs already. There, rows are multiplied by their routing weight.
    """
    block_m, block_n = place(tl.program_id(0), blocks_m, tl.cdiv(N, BLOCK_N), group_m)
    if block_m * BLOCK_M >= tl.load(ends):
        return
    pair = tl.load(pairs + block_m * BLOCK_M + tl.arange(0, BLOCK_M))
    real = pair < M
    row = (pair // top_k).to(tl.int64)
    pair = pair.to(tl.int64)
    expert = tl.load(experts + block_m).to(tl.int64)
    stored_column = block_n * BLOCK_N + tl.arange(0, BLOCK_N)
    c_at = C + pair[:, None] * ldc + stored_column[None, :]
    mask = real[:, None] & (stored_column < N)[None, :]
    if expert == -1:
        tl.store(c_at, tl.zeros((BLOCK_M, BLOCK_N), C.dtype.element_ty), mask)
        return
    column = (block_n * BLOCK_N + tl.arange(0, BLOCK_N).to(tl.int64)) % N
    depth = tl.arange(0, BLOCK_K)
    a_at = A + row[:, None] * lda + depth[None, :]
    b_at = B + expert * b_group + column[None, :] * ldb + depth[:, None]
    acc = zeros(BLOCK_M, BLOCK_N, SWAP)
    for k in range(0, K, BLOCK_K):
        a = tl.load(a_at, mask=real[:, None] & (depth[None, :] < K - k), other=0.0)
        b = tl.load(b_at, mask=depth[:, None] < K - k, other=0.0)
        if SCALING == "block":
            at = k // SCALE_BLOCK
            of_rows = tl.load(a_scales + row * a_scale_row + at, mask=real, other=0.0)
            of_columns = tl.load(b_scales + expert * b_scale_group + (column // SCALE_BLOCK) * b_scale_row + at)
            acc = scaled_step(a, b, acc, of_rows, of_columns, SWAP)
        else:
            acc = multiplied(a, b, acc, FAST, SWAP)
        a_at += BLOCK_K
        b_at += BLOCK_K
    if SWAP:
        acc = tl.trans(acc)
    if SCALING == "row":
        of_columns = tl.load(b_scales + expert * b_scale_group + column)
        acc = acc * tl.load(a_scales + row, mask=real, other=0.0)[:, None] * of_columns[None, :]
    if SCALING == "tensor":
        acc *= tl.load(a_scales) * tl.load(b_scales + expert)
    acc *= tl.load(weights + pair, mask=real & (weighted != 0), other=1.0)[:, None]
    tl.store(c_at, acc.to(C.dtype.element_ty), mask)
