//! Models by name, with the facts of their public configs.
