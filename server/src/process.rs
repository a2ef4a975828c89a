//! Settings of this process, made before any thread starts.

/// Blocks of at least this size come from the system one by one, and go back to it as soon as they are freed.
#[cfg(target_env = "gnu")]
const LARGE: i32 = 1 << 20;

/// How much unused memory an arena keeps at its end.
#[cfg(target_env = "gnu")]
const KEPT: i32 = 4 << 20;

/// One arena for each upload that may be decoded at a time.
#[cfg(target_env = "gnu")]
const ARENAS: i32 = 2;

/// Limits the unused memory that glibc keeps.
///
/// By default, glibc keeps all memory that an arena has once used, and there are up to eight arenas for each core.
/// After a large block is freed, glibc also takes later blocks of that size from the arenas. Uploads are decoded on
/// many threads, one after the other, so the kept memory would add up: to 470 MB where 200 MB are enough.
#[cfg(target_env = "gnu")]
#[allow(unsafe_code, reason = "the standard library has no call for it")]
pub(crate) fn limit_unused_memory() {
    for (setting, value) in
        [(libc::M_MMAP_THRESHOLD, LARGE), (libc::M_TRIM_THRESHOLD, KEPT), (libc::M_ARENA_MAX, ARENAS)]
    {
        // SAFETY: the call takes two numbers and changes only settings of the allocator. If it fails, the settings stay
        // as they were.
        unsafe { libc::mallopt(setting, value) };
    }
}

#[cfg(not(target_env = "gnu"))]
pub(crate) fn limit_unused_memory() {}

/// Lets this process have as many files open as the system allows it. Each connection is one, and the usual limit of 1,024
/// is for programs that use `select`.
#[allow(unsafe_code, reason = "the standard library has no call for it")]
pub(crate) fn allow_many_files() {
    let mut limit = libc::rlimit { rlim_cur: 0, rlim_max: 0 };
    // SAFETY: both calls take a pointer to a value that outlives them. If one fails, the limit stays as it was.
    unsafe {
        if libc::getrlimit(libc::RLIMIT_NOFILE, &raw mut limit) == 0 {
            limit.rlim_cur = limit.rlim_max;
            libc::setrlimit(libc::RLIMIT_NOFILE, &raw const limit);
        }
    }
}

/// From now on, only their owner may read the files that this process makes. The database has addresses, and
/// digests of passwords and tokens.
#[allow(unsafe_code, reason = "the standard library has no call for it")]
pub(crate) fn keep_files_private() {
    // SAFETY: the call changes a setting of this process and cannot fail. No other thread runs yet.
    unsafe { libc::umask(0o077) };
}
