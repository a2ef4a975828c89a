"""Matrix multiplication kernels that take sizes and strides as arguments.

They follow the algorithms of Inductor's `triton::mm` and `triton::bmm`, which
bake sizes into the source; here one binary serves every problem of its variant.
What the baked numbers told the compiler (vector loads, asynchronous copies) it
learns from the divisibility of the arguments, see `compile.py`.

Every kernel has the same arguments, so that one launch fits all:
pointers A, B, bias, C; sizes M, N, K; the distance between rows (or columns,
where they are contiguous the other way) of A, B and C; and between batches.
Kernels of known sizes have them too, and do not look at them: their code is to be
Inductor's, instruction by instruction, and so is the order in which they are written.
"""

import triton
import triton.language as tl


@triton.jit
def place(M, N, BLOCK_M: tl.constexpr, BLOCK_N: tl.constexpr, GROUP_M: tl.constexpr):
    """The output tile of this program: down GROUP_M tiles, then to the next column."""
    pid = tl.program_id(0)
    grid_m = (M + BLOCK_M - 1) // BLOCK_M
    grid_n = (N + BLOCK_N - 1) // BLOCK_N
    width = GROUP_M * grid_n
    group = pid // width
    group_size = min(grid_m - group * GROUP_M, GROUP_M)
    pid_m = group * GROUP_M + (pid % group_size)
    pid_n = (pid % width) // group_size
    tl.assume(pid_m >= 0)
    tl.assume(pid_n >= 0)
    return pid_m, pid_n


@triton.jit
def wrapped(at, size, BLOCK: tl.constexpr, CONTIGUOUS: tl.constexpr):
    """The rows or columns of a tile. Wrapped instead of masked: lanes past the end compute what is never stored."""
    at = at % size
    if CONTIGUOUS:
        # Inductor promises this for `mm` if the matrix is no smaller than the tile. Without the promise, rows without
        # known divisors are read along their columns, one element of each row. The promise is not true past the end
        # of the matrix, but no load reaches past it, because no load is wider than the sizes' divisors allow.
        at = tl.max_contiguous(tl.multiple_of(at, BLOCK), BLOCK)
    return at


@triton.jit
def finish(acc, bias, C, M, N, ldc, pid_m, pid_n,
           BLOCK_M: tl.constexpr, BLOCK_N: tl.constexpr, BIAS: tl.constexpr):
    """Adds the bias in fp32 and stores what lies inside the output."""
    row = (pid_m * BLOCK_M + tl.arange(0, BLOCK_M))[:, None]
    column = (pid_n * BLOCK_N + tl.arange(0, BLOCK_N))[None, :]
    mask = (row < M) & (column < N)
    if BIAS == "vector":
        acc += tl.load(bias + tl.broadcast_to(column, mask.shape), mask).to(tl.float32)
    if BIAS == "matrix":
        acc += tl.load(bias + (column + ldc * row), mask).to(tl.float32)
    tl.store(C + (column + ldc * row), acc.to(C.dtype.element_ty), mask)


@triton.jit
def finish_known(acc, bias, C, M: tl.constexpr, N: tl.constexpr, pid_m, pid_n, batch,
                 BLOCK_M: tl.constexpr, BLOCK_N: tl.constexpr, BIAS: tl.constexpr, BATCHED: tl.constexpr):
    """The same in Inductor's order, which leaves out what a size of 1 makes 0."""
    row = (pid_m * BLOCK_M + tl.arange(0, BLOCK_M))[:, None]
    column = (pid_n * BLOCK_N + tl.arange(0, BLOCK_N))[None, :]
    mask = (row < M) & (column < N)
    at = column if M == 1 else row if N == 1 else column + N * row
    if BATCHED:
        at = at + M * N * batch
    at = tl.broadcast_to(at, mask.shape)
    if BIAS == "vector":
        acc += tl.load(bias + tl.broadcast_to(column, mask.shape), mask, eviction_policy="evict_last").to(tl.float32)
    if BIAS == "matrix":
        acc += tl.load(bias + at, mask, eviction_policy="evict_last").to(tl.float32)
    tl.store(C + at, acc.to(C.dtype.element_ty), mask)


@triton.jit
def mm(A, B, bias, C, M, N, K, lda, ldb, ldc, batch_a, batch_b, batch_c,
       BLOCK_M: tl.constexpr, BLOCK_N: tl.constexpr, BLOCK_K: tl.constexpr, GROUP_M: tl.constexpr,
       EVEN_K: tl.constexpr, A_ROW: tl.constexpr, B_ROW: tl.constexpr, BIAS: tl.constexpr,
       PRECISION: tl.constexpr, A_CONTIGUOUS: tl.constexpr, B_CONTIGUOUS: tl.constexpr, ANEW: tl.constexpr):
    pid_m, pid_n = place(M, N, BLOCK_M, BLOCK_N, GROUP_M)
    row = wrapped(pid_m * BLOCK_M + tl.arange(0, BLOCK_M), M, BLOCK_M, A_CONTIGUOUS)[:, None]
    column = wrapped(pid_n * BLOCK_N + tl.arange(0, BLOCK_N), N, BLOCK_N, B_CONTIGUOUS)[None, :]
    depth = tl.arange(0, BLOCK_K)
    ka = depth[None, :]
    kb = depth[:, None]
    acc = tl.zeros((BLOCK_M, BLOCK_N), tl.float32)
    # Inductor computes each address anew, which becomes additions if strides are known. Here they are arguments. So
    # without ANEW the base moves on, but then all offsets stay in registers: too many where copies are narrow.
    a_at = ka + lda * row if A_ROW else row + lda * ka
    b_at = column + ldb * kb if B_ROW else kb + ldb * column
    for step in range(0, (K + BLOCK_K - 1) // BLOCK_K):
        if ANEW:
            first = step * BLOCK_K
            a_at = (ka + first) + lda * row if A_ROW else row + lda * (ka + first)
            b_at = column + ldb * (kb + first) if B_ROW else (kb + first) + ldb * column
        if EVEN_K:
            a = tl.load(A + a_at)
            b = tl.load(B + b_at)
        else:
            left = K - step * BLOCK_K
            a = tl.load(A + a_at, mask=ka < left, other=0.0)
            b = tl.load(B + b_at, mask=kb < left, other=0.0)
        acc += tl.dot(a, b, input_precision=PRECISION)
        if not ANEW:
            A += BLOCK_K if A_ROW else BLOCK_K * lda
            B += BLOCK_K * ldb if B_ROW else BLOCK_K
    finish(acc, bias, C, M, N, ldc, pid_m, pid_n, BLOCK_M, BLOCK_N, BIAS)


@triton.jit
def mm_known(A, B, bias, C, M, N, K, lda, ldb, ldc, batch_a, batch_b, batch_c,
             BLOCK_M: tl.constexpr, BLOCK_N: tl.constexpr, BLOCK_K: tl.constexpr, GROUP_M: tl.constexpr,
             EVEN_K: tl.constexpr, A_ROW: tl.constexpr, B_ROW: tl.constexpr, BIAS: tl.constexpr,
             PRECISION: tl.constexpr, A_CONTIGUOUS: tl.constexpr, B_CONTIGUOUS: tl.constexpr,
             KNOWN_M: tl.constexpr, KNOWN_N: tl.constexpr, KNOWN_K: tl.constexpr):
    pid_m, pid_n = place(KNOWN_M, KNOWN_N, BLOCK_M, BLOCK_N, GROUP_M)
    row = pid_m * BLOCK_M + tl.arange(0, BLOCK_M)
    column = pid_n * BLOCK_N + tl.arange(0, BLOCK_N)
    row = wrapped(row, KNOWN_M, BLOCK_M, A_CONTIGUOUS)
    column = wrapped(column, KNOWN_N, BLOCK_N, B_CONTIGUOUS)
    depth = tl.arange(0, BLOCK_K)
    acc = tl.zeros((BLOCK_M, BLOCK_N), tl.float32)
    for step in range(0, tl.cdiv(KNOWN_K, BLOCK_K)):
        if not EVEN_K:
            a_inside = depth[None, :] < KNOWN_K - step * BLOCK_K
            b_inside = depth[:, None] < KNOWN_K - step * BLOCK_K
        ka = depth[None, :] + step * BLOCK_K
        kb = depth[:, None] + step * BLOCK_K
        a_at = ka + KNOWN_K * row[:, None] if A_ROW else row[:, None] + KNOWN_M * ka
        if KNOWN_M == 1:
            a_at = tl.broadcast_to(ka, (BLOCK_M, BLOCK_K))
        a = tl.load(A + a_at) if EVEN_K else tl.load(A + a_at, mask=a_inside, other=0.0)
        b_at = column[None, :] + KNOWN_N * kb if B_ROW else kb + KNOWN_K * column[None, :]
        if KNOWN_N == 1:
            b_at = tl.broadcast_to(kb, (BLOCK_K, BLOCK_N))
        b = tl.load(B + b_at) if EVEN_K else tl.load(B + b_at, mask=b_inside, other=0.0)
        acc += tl.dot(a, b, input_precision=PRECISION)
    finish_known(acc, bias, C, KNOWN_M, KNOWN_N, pid_m, pid_n, 0, BLOCK_M, BLOCK_N, BIAS, False)


@triton.jit
def bmm(A, B, bias, C, M, N, K, lda, ldb, ldc, batch_a, batch_b, batch_c,
        BLOCK_M: tl.constexpr, BLOCK_N: tl.constexpr, BLOCK_K: tl.constexpr, GROUP_M: tl.constexpr,
        EVEN_K: tl.constexpr, A_ROW: tl.constexpr, B_ROW: tl.constexpr, BIAS: tl.constexpr,
        PRECISION: tl.constexpr, A_CONTIGUOUS: tl.constexpr, B_CONTIGUOUS: tl.constexpr):
    pid_m, pid_n = place(M, N, BLOCK_M, BLOCK_N, GROUP_M)
    batch = tl.program_id(1)
    row = wrapped(pid_m * BLOCK_M + tl.arange(0, BLOCK_M), M, BLOCK_M, A_CONTIGUOUS)[:, None]
    column = wrapped(pid_n * BLOCK_N + tl.arange(0, BLOCK_N), N, BLOCK_N, B_CONTIGUOUS)[None, :]
    depth = tl.arange(0, BLOCK_K)
    ka = depth[None, :]
    kb = depth[:, None]
    a_at = A + (ka + lda * row if A_ROW else row + lda * ka) + batch * batch_a
    b_at = B + (column + ldb * kb if B_ROW else kb + ldb * column) + batch * batch_b
    a_step = BLOCK_K if A_ROW else BLOCK_K * lda
    b_step = BLOCK_K * ldb if B_ROW else BLOCK_K
    acc = tl.zeros((BLOCK_M, BLOCK_N), tl.float32)
    for left in range(K, 0, -BLOCK_K):
        if EVEN_K:
            a = tl.load(a_at)
            b = tl.load(b_at)
        else:
            a = tl.load(a_at, mask=ka < left, other=0.0)
            b = tl.load(b_at, mask=kb < left, other=0.0)
        acc += tl.dot(a, b, input_precision=PRECISION)
        a_at += a_step
        b_at += b_step
    # A matrix bias has one matrix for each matrix of the batch. One vector serves the whole batch.
    bias_at = bias + batch * batch_c if BIAS == "matrix" else bias
    finish(acc, bias_at, C + batch * batch_c, M, N, ldc, pid_m, pid_n, BLOCK_M, BLOCK_N, BIAS)


@triton.jit
def bmm_known(A, B, bias, C, M, N, K, lda, ldb, ldc, batch_a, batch_b, batch_c,
              BLOCK_M: tl.constexpr, BLOCK_N: tl.constexpr, BLOCK_K: tl.constexpr, GROUP_M: tl.constexpr,
              EVEN_K: tl.constexpr, A_ROW: tl.constexpr, B_ROW: tl.constexpr, BIAS: tl.constexpr,
              PRECISION: tl.constexpr, A_CONTIGUOUS: tl.constexpr, B_CONTIGUOUS: tl.constexpr,
              KNOWN_M: tl.constexpr, KNOWN_N: tl.constexpr, KNOWN_K: tl.constexpr):
    pid_m, pid_n = place(KNOWN_M, KNOWN_N, BLOCK_M, BLOCK_N, GROUP_M)
    row = pid_m * BLOCK_M + tl.arange(0, BLOCK_M)
    column = pid_n * BLOCK_N + tl.arange(0, BLOCK_N)
    row = wrapped(row, KNOWN_M, BLOCK_M, A_CONTIGUOUS)[:, None]
    column = wrapped(column, KNOWN_N, BLOCK_N, B_CONTIGUOUS)[None, :]
    depth = tl.arange(0, BLOCK_K)
    batch = tl.program_id(1)
    a_row: tl.constexpr = KNOWN_K if A_ROW else 1
    a_depth: tl.constexpr = 1 if A_ROW else KNOWN_M
    b_depth: tl.constexpr = KNOWN_N if B_ROW else 1
    b_column: tl.constexpr = 1 if B_ROW else KNOWN_K
    a_at = A + (row * a_row + depth[None, :] * a_depth + batch * (KNOWN_M * KNOWN_K))
    b_at = B + (depth[:, None] * b_depth + column * b_column + batch * (KNOWN_K * KNOWN_N))
    acc = tl.zeros((BLOCK_M, BLOCK_N), tl.float32)
    for left in range(KNOWN_K, 0, -BLOCK_K):
        if EVEN_K:
            a = tl.load(a_at)
            b = tl.load(b_at)
        else:
            a = tl.load(a_at, mask=depth[None, :] < left, other=0.0)
            b = tl.load(b_at, mask=depth[:, None] < left, other=0.0)
        acc += tl.dot(a, b, input_precision=PRECISION)
        a_at += BLOCK_K * a_depth
        b_at += BLOCK_K * b_depth
    finish_known(acc, bias, C, KNOWN_M, KNOWN_N, pid_m, pid_n, batch, BLOCK_M, BLOCK_N, BIAS, True)
