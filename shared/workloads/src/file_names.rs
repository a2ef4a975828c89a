//! Names of files of tuned configs, and where vLLM and SGLang look for them.
