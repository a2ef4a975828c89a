//! The memory of a GPU. The host cannot use its addresses, so memory is read through the driver alone.

use std::collections::BTreeMap;
use std::ffi::{CString, c_char, c_int};

pub(crate) const OUT_OF_MEMORY: i32 = 2;
const INVALID: i32 = 1;

/// The address of the first allocation.
const FIRST: u64 = 0x7000_0000_0000;
/// Allocations begin at a multiple of this, and lie at least this far apart.
const GRANULE: u64 = 1 << 20;

#[derive(Debug)]
pub(crate) struct Memory {
    blocks: BTreeMap<u64, Block>,
    next: u64,
    pub(crate) used: u64,
}

#[derive(Debug)]
struct Block {
    bytes: u64,
    contents: Contents,
}

/// The contents of an allocation. An allocation that repeats one byte throughout takes no room on the
/// host.
#[derive(Debug)]
enum Contents {
    Filled(u8),
    Bytes(Vec<u8>),
}

/// A range that does not lie within one allocation.
#[derive(Debug)]
pub(crate) struct Outside(pub(crate) u64, pub(crate) u64);

impl std::fmt::Display for Outside {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let Self(address, bytes) = self;
        write!(f, "{bytes} bytes at {address:#x} lie in no allocation")
    }
}

impl Default for Memory {
    fn default() -> Self {
        Self { blocks: BTreeMap::new(), next: FIRST, used: 0 }
    }
}

impl Memory {
    pub(crate) fn allocate(&mut self, bytes: u64, free: u64) -> Result<u64, i32> {
        if bytes > free {
            return Err(OUT_OF_MEMORY);
        }
        let address = self.next;
        self.next += bytes.next_multiple_of(GRANULE) + GRANULE;
        self.used += bytes;
        // An allocation holds this byte until something is written to it.
        self.blocks.insert(address, Block { bytes, contents: Contents::Filled(0xa5) });
        Ok(address)
    }

    /// Frees an allocation. Returns how many bytes it had.
    pub(crate) fn free(&mut self, address: u64) -> Result<u64, i32> {
        let block = self.blocks.remove(&address).ok_or(INVALID)?;
        self.used -= block.bytes;
        Ok(block.bytes)
    }

    pub(crate) fn fill(&mut self, address: u64, byte: u8, bytes: u64) -> Result<(), Outside> {
        let (block, start) = self.block(address, bytes)?;
        if start == 0 && bytes == block.bytes {
            block.contents = Contents::Filled(byte);
        } else {
            self.bytes_mut(address, bytes)?.fill(byte);
        }
        Ok(())
    }

    /// Fails unless the whole range may be read and written.
    pub(crate) fn check(&mut self, address: u64, bytes: u64) -> Result<(), Outside> {
        self.block(address, bytes).map(drop)
    }

    pub(crate) fn bytes_mut(&mut self, address: u64, bytes: u64) -> Result<&mut [u8], Outside> {
        let (block, start) = self.block(address, bytes)?;
        if let Contents::Filled(byte) = block.contents {
            block.contents = Contents::Bytes(vec![byte; block.bytes as usize]);
        }
        match &mut block.contents {
            Contents::Bytes(all) => Ok(&mut all[start as usize..(start + bytes) as usize]),
            Contents::Filled(_) => Err(Outside(address, bytes)),
        }
    }

    fn block(&mut self, address: u64, bytes: u64) -> Result<(&mut Block, u64), Outside> {
        let outside = Outside(address, bytes);
        let (start, block) = self.blocks.range_mut(..=address).next_back().ok_or(Outside(address, bytes))?;
        let offset = address - start;
        let end = offset.checked_add(bytes).ok_or(Outside(address, bytes))?;
        if end > block.bytes { Err(outside) } else { Ok((block, offset)) }
    }
}

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
