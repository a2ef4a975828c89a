//! Who may read what this process writes.

/// Keeps the files that are made from now on for their owner alone: the database holds digests of passwords and
/// tokens, and addresses.
#[allow(unsafe_code, reason = "the standard library has no call for it")]
pub(crate) fn keep() {
    // SAFETY: it changes a number of this process and cannot fail. No other thread runs yet.
    unsafe { libc::umask(0o077) };
}
