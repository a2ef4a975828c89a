//! Limits of the decoders. Each is far above what real files need. They keep a small hostile file from
//! taking much memory.

/// Bytes to which a compressed file may unpack. This is 18 times what 320,606 timings take in torch-diode's
/// MessagePack, and still fits into a small server's memory.
pub const MAX_UNPACKED: u64 = 1 << 30;

/// How many times its own size a compressed file may unpack to, beyond [`FREE_UNPACKED`]. Real JSON datasets
/// reach about 110 times.
pub const MAX_EXPANSION: u64 = 500;

/// Bytes to which any compressed file may unpack, however small it is.
pub const FREE_UNPACKED: u64 = 1 << 20;

/// The base-2 logarithm of how many bytes unpacking may look back: 32 MiB. zstd needs 8 MiB up to level 19,
/// and more only with `--ultra` or `--long`.
pub const MAX_WINDOW_LOG: u32 = 25;

/// Bytes of a shape set or a list of reference configs, unpacked. This is 100 times the largest known file.
pub const MAX_DOCUMENT: u64 = 1 << 26;

/// Bytes of one record of a CSV file. Real records take 300 bytes.
pub const MAX_RECORD: usize = 1 << 16;

/// Levels of nested maps and arrays in MessagePack. Even a reader that skips them needs memory for each
/// level. A dataset has 10 levels.
pub const MAX_DEPTH: usize = 32;

/// Kinds of hardware in one file. An upload describes one node, an export a whole fleet.
pub const MAX_DATASETS: usize = 256;

/// Distinct configs in one dataset. Inductor's exhaustive space has 1,875 per input type.
pub const MAX_CONFIGS: usize = 1 << 17;

/// Distinct configs of all datasets of one file.
pub const MAX_CONFIGS_PER_FILE: usize = 4 * MAX_CONFIGS;

/// Problems in one file. A problem takes up to a kilobyte in memory, even without timings. The largest known
/// list of real shapes has 1,577 problems.
pub const MAX_PROBLEMS_PER_FILE: usize = 1 << 17;

/// Shapes of one list without timings, repeats included.
pub const MAX_SHAPES: usize = 1 << 18;

/// Timings of one problem, and also failures of one problem: room for eight repeats of each of
/// [`MAX_CONFIGS`] configs.
pub const MAX_TIMINGS_PER_PROBLEM: usize = 1 << 20;

/// Timings and failures in one file. Each takes 8 to 32 bytes in memory.
pub const MAX_TIMINGS_PER_FILE: usize = 1 << 26;

/// Timings and failures that any file may hold, however small it is.
pub const FREE_TIMINGS: usize = 1 << 20;

/// Timings and failures per byte of a file, beyond [`FREE_TIMINGS`]. The columnar format reaches 0.7 timings
/// with real times; a forged column that repeats one value could claim any number.
pub const MAX_TIMINGS_PER_BYTE: usize = 16;

/// Bytes of one object of a columnar file: a problem of [`MAX_TIMINGS_PER_PROBLEM`] with every column takes 24 MiB.
pub const MAX_OBJECT: u64 = 1 << 25;

/// Bytes of one text in JSON, also in unknown fields. A config as text takes 250 bytes.
pub const MAX_JSON_TEXT: usize = 1 << 20;

/// Blanks between two parts of a JSON dataset. Its deepest lines begin with some twenty blanks.
pub const MAX_JSON_BLANKS: usize = 1 << 16;

/// Rows that any Parquet file may hold, however small it is.
pub const FREE_PARQUET_ROWS: u64 = 1 << 16;

/// Rows per byte of a Parquet file, beyond [`FREE_PARQUET_ROWS`]. Our files reach 0.5 rows; a forged run of
/// equal rows takes almost no bytes.
pub const MAX_PARQUET_ROWS_PER_BYTE: u64 = 16;

/// Bytes of a Parquet file's metadata. Each row group adds some 4 kB.
pub const MAX_PARQUET_METADATA: u64 = 1 << 24;

/// Bytes of one column in one row group, unpacked. This is eight times what a million values of eight bytes
/// take.
pub const MAX_PARQUET_CHUNK: i64 = 1 << 26;

/// Bytes of a problem's key in torch-diode's files. Real keys take 180 bytes.
pub const MAX_PROBLEM_KEY: usize = 4096;

/// Bytes of one config in torch-diode's MessagePack, with unknown fields. Real configs take 165 bytes.
pub const MAX_CONFIG_BYTES: usize = 1 << 16;

/// Bytes of one text in the provenance. The names of facts are texts, too.
pub const MAX_TEXT: usize = 4096;

/// Facts of the node in the provenance.
pub const MAX_NODE_FACTS: usize = 256;

/// Bytes of a kernel pack's index, both packed and unpacked: 300 bytes for each of [`MAX_PACK_KERNELS`].
pub const MAX_PACK_INDEX: u64 = 64 << 20;

/// Kernels in one pack. All variants of the exhaustive space are about 70,000 kernels.
pub const MAX_PACK_KERNELS: usize = 200_000;

/// Chunks in one pack. Each holds some 100 kernels.
pub const MAX_PACK_CHUNKS: usize = 1 << 16;

/// Bytes of one chunk, packed or unpacked. The writer ends chunks at 2 MiB, but a single kernel may be
/// larger.
pub const MAX_PACK_CHUNK: u64 = 64 << 20;

/// Bytes of a torch checkpoint. This is 48 times the size of torch-diode's largest checkpoint.
pub const MAX_CHECKPOINT: usize = 1 << 26;

/// Entries of a checkpoint's archive: one per tensor and a few more. torch-diode's deepest network has 150 entries.
pub const MAX_CHECKPOINT_ENTRIES: usize = 1 << 12;

/// Values in all tensors of a checkpoint: as many as a file of [`MAX_CHECKPOINT`] bytes can hold.
pub const MAX_CHECKPOINT_VALUES: usize = MAX_CHECKPOINT / 4;

/// Bytes of a checkpoint's pickle. Those of torch-diode's checkpoints have 6 to 20 kB.
pub const MAX_PICKLE: usize = 1 << 20;

/// Values that a pickle may make. Real pickles make one value for five bytes.
pub const MAX_PICKLE_VALUES: usize = 1 << 17;

/// Dimensions of a tensor in a checkpoint. Weights have two.
pub const MAX_TENSOR_DIMS: usize = 4;

/// The error for a file with more timings than its size allows.
pub fn too_many_timings(limit: usize) -> String {
    format!(
        "more than {limit} timings and failures, the most accepted from a file of its size; split the file"
    )
}

/// The error for a file with more of some part than any file may have.
pub fn too_many(parts: &str, limit: usize) -> String {
    format!("more than {limit} {parts}, the most accepted in one file; split the file")
}
