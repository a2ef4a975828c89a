//! How much memory glibc keeps that is not used any more.
//!
//! By default it keeps what each of up to eight arenas a core has once used, and after a large block was freed it takes
//! blocks of that size from the arenas, too. Uploads are decoded on many threads, one after the other, so what they take
//! would add up: to 470 MB where 200 suffice.

/// Blocks from this size on come from the system one by one, and go back to it at once.
#[cfg(target_env = "gnu")]
const LARGE: i32 = 1 << 20;

/// What an arena keeps at its end.
#[cfg(target_env = "gnu")]
const KEPT: i32 = 4 << 20;

/// As many as there are uploads that are decoded at a time.
#[cfg(target_env = "gnu")]
const ARENAS: i32 = 2;

/// To be called before there are threads.
#[cfg(target_env = "gnu")]
#[allow(unsafe_code, reason = "the standard library has no call for it")]
pub(crate) fn limit_unused() {
    for (setting, value) in
        [(libc::M_MMAP_THRESHOLD, LARGE), (libc::M_TRIM_THRESHOLD, KEPT), (libc::M_ARENA_MAX, ARENAS)]
    {
        // SAFETY: it takes two numbers and changes nothing but settings of the allocator. Where it fails, these stay as
        // they were.
        unsafe { libc::mallopt(setting, value) };
    }
}

#[cfg(not(target_env = "gnu"))]
pub(crate) fn limit_unused() {}
