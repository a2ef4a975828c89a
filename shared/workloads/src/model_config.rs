//! A model's sizes from its `config.json`.
