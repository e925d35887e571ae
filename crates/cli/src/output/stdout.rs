//! Standard output that is an error where it was closed.

use std::io::{self, Write};

use crate::sys::standard::output_was_closed;

/// What is written into a closed one would be lost without a word.
pub struct Stdout<W> {
    writer: W,
    is_closed: bool,
}

impl Stdout<io::Stdout> {
    pub fn new() -> Self {
        Self {
            writer: io::stdout(),
            is_closed: output_was_closed(),
        }
    }

    pub fn lock(self) -> Stdout<io::StdoutLock<'static>> {
        Stdout {
            writer: self.writer.lock(),
            is_closed: self.is_closed,
        }
    }
}

impl Default for Stdout<io::Stdout> {
    fn default() -> Self {
        Self::new()
    }
}

impl<W: Write> Write for Stdout<W> {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        if self.is_closed && !bytes.is_empty() {
            return Err(io::Error::from_raw_os_error(libc::EBADF));
        }
        self.writer.write(bytes)
    }

    fn flush(&mut self) -> io::Result<()> {
        self.writer.flush()
    }
}
