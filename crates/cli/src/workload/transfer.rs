//! One request of a stream: made, handed to the engine, checked.

use std::time::Instant;

use iolane::{Completion, Error, File, Level, SubmitError};

use super::control::Control;
use super::offsets::{Offsets, Random};
use crate::args::choices::Operation;
use crate::sys::prefix::Prefix;

/// What all requests of a stream have in common.
pub struct Transfers {
    pub file: File,
    pub level: Level,
    pub operation: Operation,
    pub offsets: Offsets,
}

#[derive(Clone, Copy, Debug)]
pub struct Request {
    pub offset: u64,
    pub length: u64,
    /// Latency counts from here.
    pub since: Instant,
}

impl Transfers {
    pub fn next(&self, random: &mut Random, since: Instant) -> Request {
        let (offset, length) = self.offsets.next(random);
        Request {
            offset,
            length,
            since,
        }
    }

    /// Asynchronously; `then` runs on the engine's driver thread.
    pub fn submit<F>(
        &self,
        buffer: Prefix,
        request: Request,
        then: F,
    ) -> Result<(), SubmitError<Prefix>>
    where
        F: FnOnce(Completion<Prefix>) + Send + 'static,
    {
        match self.operation {
            Operation::Read => self
                .file
                .read_then(buffer, request.offset, self.level, then),
            Operation::Write => self
                .file
                .write_then(buffer, request.offset, self.level, then),
        }
    }

    /// The calling thread waits for it.
    pub fn carry_out(&self, buffer: &mut Prefix, request: Request) -> Result<usize, Error> {
        match self.operation {
            Operation::Read => self
                .file
                .read_at(buffer.bytes_mut(), request.offset, self.level),
            Operation::Write => self
                .file
                .write_at(buffer.bytes(), request.offset, self.level),
        }
    }

    /// Whether it did what was asked; ends the run if not.
    pub fn check(
        &self,
        control: &Control,
        result: &Result<usize, Error>,
        request: Request,
    ) -> bool {
        match result {
            Ok(done) if *done as u64 == request.length => true,
            Ok(done) => {
                control.too_short(self.operation, request.offset, request.length, *done);
                false
            }
            Err(error) => {
                control.failed(error);
                false
            }
        }
    }
}
