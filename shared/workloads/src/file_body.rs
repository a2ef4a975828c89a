//! What a file of tuned configs holds: a config for each of some batch sizes.
