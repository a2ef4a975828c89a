//! How large a dataset may be to fit in one file.

/// The most timings and failures in one Parquet file. Writing 317,363, a thirteenth, took 53 MB of memory.
pub const MAX_IN_PARQUET: u64 = 1 << 22;

/// The most timings and failures in CSV and torch-diode's formats, where each takes about 200 bytes.
pub const MAX_IN_OTHERS: u64 = 1 << 21;
