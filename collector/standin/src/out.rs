//! Writes values for the caller.

use std::ffi::{CString, c_char, c_int};

/// Writes through a pointer that the caller gave.
pub(crate) fn put<T>(pointer: *mut T, value: T) {
    assert!(!pointer.is_null(), "a result is to go to a null pointer");
    // SAFETY: the caller of a C function gives a pointer to a value that the function may write.
    unsafe { pointer.write(value) }
}

/// Writes a text that ends with a zero byte, cut to `room` bytes.
pub(crate) fn put_text(pointer: *mut c_char, room: c_int, text: &str) {
    let bytes = CString::new(text).unwrap_or_default().into_bytes_with_nul();
    for (at, byte) in bytes.iter().take(room.max(0) as usize).enumerate() {
        // SAFETY: the caller gives room for this many bytes.
        put(unsafe { pointer.add(at) }, *byte as c_char);
    }
}
