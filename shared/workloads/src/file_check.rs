//! Findings about files of tuned configs.
