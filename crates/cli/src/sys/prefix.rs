//! The first bytes of a buffer: for transfers of changing length through one
//! buffer.

use iolane::{Buffer, IoBuf, IoBufMut};

/// A buffer of which a transfer uses the first bytes only.
#[derive(Debug)]
pub struct Prefix {
    buffer: Buffer,
    length: usize,
}

impl Prefix {
    /// All of it.
    pub fn new(buffer: Buffer) -> Self {
        Self {
            length: buffer.len(),
            buffer,
        }
    }

    /// How much of it the next transfer uses.
    ///
    /// # Panics
    /// When the buffer is shorter.
    pub fn set_length(&mut self, length: usize) {
        assert!(length <= self.buffer.len(), "a prefix of the buffer");
        self.length = length;
    }

    pub fn bytes(&self) -> &[u8] {
        &self.buffer[..self.length]
    }

    pub fn bytes_mut(&mut self) -> &mut [u8] {
        &mut self.buffer[..self.length]
    }
}

// SAFETY: the buffer's memory is owned, initialised and at a fixed address, and
// `length` is at most the buffer's and changes through `&mut` only.
unsafe impl IoBuf for Prefix {
    fn io_ptr(&self) -> *const u8 {
        self.buffer.as_ptr()
    }

    fn io_len(&self) -> usize {
        self.length
    }
}

// SAFETY: as above, and the memory is writable.
unsafe impl IoBufMut for Prefix {
    fn io_ptr_mut(&mut self) -> *mut u8 {
        self.buffer.as_mut_ptr()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn transfers_see_the_prefix_only() {
        let mut prefix = Prefix::new(Buffer::new(4096));
        assert_eq!(prefix.io_len(), 4096);
        prefix.set_length(512);
        assert_eq!((prefix.io_len(), prefix.bytes().len()), (512, 512));
        assert_eq!(prefix.io_ptr_mut().cast_const(), prefix.bytes().as_ptr());
    }
}
