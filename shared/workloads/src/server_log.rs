//! Lines in which vLLM and SGLang name the files they looked for.
