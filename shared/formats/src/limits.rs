//! What the decoders hold at most. Each limit is far above anything real, and keeps a
//! small hostile file from taking much memory.

/// Bytes that a compressed file may unpack to: 18 times the largest known dataset, and
/// little enough for a small server.
pub const MAX_UNPACKED: u64 = 1 << 30;

/// How many times larger than itself a compressed file may unpack, beyond
/// [`FREE_UNPACKED`]. Real JSON datasets reach about 110.
pub const MAX_EXPANSION: u64 = 500;

/// Bytes that any compressed file may unpack to, however small it is.
pub const FREE_UNPACKED: u64 = 1 << 20;

/// Logarithm of the bytes that unpacking keeps in memory to look back on: 32 MiB.
/// zstd needs 8 MiB up to level 19, and more only with `--ultra` or `--long`.
pub const MAX_WINDOW_LOG: u32 = 25;

/// Bytes of a shape set or a list of reference configs, unpacked: 100 times the largest known.
pub const MAX_DOCUMENT: u64 = 1 << 26;

/// Bytes of one record of a CSV file; real ones take 300.
pub const MAX_RECORD: usize = 1 << 16;

/// Nested maps and arrays in MessagePack, where even skipping recurses. A dataset has 10 levels.
pub const MAX_DEPTH: usize = 32;

/// Kinds of hardware in one file. One upload describes one node, an export a fleet.
pub const MAX_DATASETS: usize = 256;

/// Distinct configs in one dataset. Inductor's exhaustive space has 1,875 per dtype.
pub const MAX_CONFIGS: usize = 1 << 17;

/// Distinct configs of all datasets of one file.
pub const MAX_CONFIGS_PER_FILE: usize = 4 * MAX_CONFIGS;

/// Problems of one file. In memory each takes up to a kilobyte, however few timings it has. The largest known
/// list of real shapes has 1,577.
pub const MAX_PROBLEMS_PER_FILE: usize = 1 << 17;

/// Shapes of one list without timings, repeats included.
pub const MAX_SHAPES: usize = 1 << 18;

/// Timings, and likewise failures, of one problem: ten repeats of [`MAX_CONFIGS`] at most.
pub const MAX_TIMINGS_PER_PROBLEM: usize = 1 << 20;

/// Timings and failures of one file. In memory each takes 8 to 32 bytes.
pub const MAX_TIMINGS_PER_FILE: usize = 1 << 26;

/// Timings and failures that any file may hold, however small it is.
pub const FREE_TIMINGS: usize = 1 << 20;

/// Timings and failures per byte of a file, beyond [`FREE_TIMINGS`]. The columnar
/// format reaches 0.7 with real times; forged columns of one repeated value could hold any number.
pub const MAX_TIMINGS_PER_BYTE: usize = 16;

/// Bytes of one object of a columnar file: a problem of [`MAX_TIMINGS_PER_PROBLEM`] with every column takes 24 MiB.
pub const MAX_OBJECT: u64 = 1 << 25;

/// Bytes of one text in JSON, unknown fields included. A config as text takes 250.
pub const MAX_JSON_TEXT: usize = 1 << 20;

/// Blanks between two parts of a JSON dataset. The deepest line is indented by some twenty.
pub const MAX_JSON_BLANKS: usize = 1 << 16;

/// Rows that any Parquet file may hold, however small it is.
pub const FREE_PARQUET_ROWS: u64 = 1 << 16;

/// Rows per byte of a Parquet file, beyond [`FREE_PARQUET_ROWS`]. Ours reach 0.5; a
/// forged run of equal rows takes almost no bytes.
pub const MAX_PARQUET_ROWS_PER_BYTE: u64 = 16;

/// Bytes of a Parquet file's metadata. They grow with the row groups: some 4 kB each.
pub const MAX_PARQUET_METADATA: u64 = 1 << 24;

/// Bytes of one column in one row group, unpacked: a million times of eight bytes, eight times over.
pub const MAX_PARQUET_CHUNK: i64 = 1 << 26;

/// Bytes of a problem's key in torch-diode's files; real ones take 180.
pub const MAX_PROBLEM_KEY: usize = 4096;

/// Bytes of one config in torch-diode's MessagePack, unknown fields included; real ones take 165.
pub const MAX_CONFIG_BYTES: usize = 1 << 16;

/// Bytes of one text in the provenance, its keys included.
pub const MAX_TEXT: usize = 4096;

/// Facts of the node in the provenance.
pub const MAX_NODE_FACTS: usize = 256;

/// Bytes of a kernel pack's index, packed and unpacked: 300 bytes for each of [`MAX_PACK_KERNELS`].
pub const MAX_PACK_INDEX: u64 = 64 << 20;

/// Kernels in one pack: every variant of the exhaustive space is about 70,000.
pub const MAX_PACK_KERNELS: usize = 200_000;

/// Chunks in one pack; each holds some 100 kernels.
pub const MAX_PACK_CHUNKS: usize = 1 << 16;

/// Bytes of one chunk, packed or unpacked. The writer closes them at 2 MiB; a single kernel may be larger.
pub const MAX_PACK_CHUNK: u64 = 64 << 20;

/// Bytes of a torch checkpoint: 48 times the largest of torch-diode's.
pub const MAX_CHECKPOINT: usize = 1 << 26;

/// Entries of a checkpoint's archive: one per tensor and a few more; torch-diode's deepest network has 150.
pub const MAX_CHECKPOINT_ENTRIES: usize = 1 << 12;

/// Values of all tensors of a checkpoint: those of a file of [`MAX_CHECKPOINT`].
pub const MAX_CHECKPOINT_VALUES: usize = MAX_CHECKPOINT / 4;

/// Bytes of the pickle in a checkpoint; torch-diode's take 6 to 20 kB.
pub const MAX_PICKLE: usize = 1 << 20;

/// Values that a pickle may make; real ones make a fifth as many as they have bytes.
pub const MAX_PICKLE_VALUES: usize = 1 << 17;

/// Dimensions of a tensor in a checkpoint; weights have two.
pub const MAX_TENSOR_DIMS: usize = 4;

/// The error for a file with more timings than its size allows.
pub(crate) fn too_many_timings(limit: usize) -> String {
    format!(
        "more than {limit} timings and failures, the most accepted from a file of its size; split the file"
    )
}

/// The error for a file with more parts of a kind than any file may have.
pub(crate) fn too_many(parts: &str, limit: usize) -> String {
    format!("more than {limit} {parts}, the most accepted in one file; split the file")
}
