//! Who may read the files of this process.

/// From now on, only their owner may read the files that this process makes. The database has addresses, and
/// digests of passwords and tokens.
#[allow(unsafe_code, reason = "the standard library has no call for it")]
pub(crate) fn keep() {
    // SAFETY: the call changes a setting of this process and cannot fail. No other thread runs yet.
    unsafe { libc::umask(0o077) };
}
