//! Control blocks into requests of the engine.

use crate::context::Context;
use crate::direct::{Departure, depart};
use crate::level;
use crate::parts::Parts;
use crate::sys::abi::{
    Errno, IOCB_CMD_FDSYNC, IOCB_CMD_FSYNC, IOCB_CMD_PREAD, IOCB_CMD_PREADV, IOCB_CMD_PWRITE,
    IOCB_CMD_PWRITEV, IOCB_FLAG_RESFD, Iocb,
};
use crate::sys::memory::Memory;
use crate::sys::runtime::Runtime;
use iolane::{Batch, Cause, Completion, Device, File, Level, Operation, REQUEST_BYTES_MAX, Ticket};
use std::sync::Arc;

/// Longest piece that a request is carried out in: a multiple of every block.
const PIECE_BYTES_MAX: usize = REQUEST_BYTES_MAX as usize & !0xffff;

/// A control block, as it was when it was submitted.
pub(crate) struct Request {
    /// Where the program has it.
    pub address: u64,
    pub iocb: Iocb,
    /// Its buffer, or its vectors.
    pub memory: Vec<Memory>,
}

/// Collects requests, which are submitted together.
pub(crate) struct Submission<'a> {
    runtime: &'a Runtime,
    context: &'a Arc<Context>,
    batch: Option<(Device, Batch)>,
    tickets: Vec<(u32, Ticket)>,
    departures: Vec<Departure>,
}

/// What a request is, once it was checked.
struct Plan {
    file: File,
    operation: Operation,
    level: Level,
    pieces: Vec<(Memory, u64)>,
}

impl<'a> Submission<'a> {
    pub(crate) fn new(runtime: &'a Runtime, context: &'a Arc<Context>) -> Submission<'a> {
        Submission {
            runtime,
            context,
            batch: None,
            tickets: Vec::new(),
            departures: Vec::new(),
        }
    }

    /// Adds a request.
    ///
    /// # Errors
    /// What `io_submit` says of a control block that it does not take.
    pub(crate) fn add(&mut self, request: Request) -> Result<(), Errno> {
        let iocb = &request.iocb;
        let operation = operation_of(iocb)?;
        let level = level::of(iocb)?;
        let file = self.runtime.files.file(&self.runtime.engine, iocb.fd)?;
        let event = match iocb.flags & IOCB_FLAG_RESFD {
            0 => None,
            _ => Some(self.runtime.files.event(iocb.resfd)?),
        };
        let pieces = pieces(&request, operation);
        let lengths = pieces.iter().map(|(memory, _)| memory.length);
        let parts = match operation.is_sync() {
            true => Parts::new(std::iter::once(0)),
            false => Parts::new(lengths),
        };
        let number = self.context.begin(request.address, iocb, event, parts)?;
        let plan = Plan {
            file,
            operation,
            level,
            pieces,
        };
        if plan.pieces.is_empty() && !operation.is_sync() {
            self.context.empty(number);
            return Ok(());
        }
        if self.add_direct(number, &plan, iocb)? {
            return Ok(());
        }
        self.add_pieces(number, &plan)
    }

    /// Direct transfers in one piece go to the kernel at once, if the scheduler
    /// lets them (buffered ones would block there). Returns whether this does.
    fn add_direct(&mut self, number: u32, plan: &Plan, iocb: &Iocb) -> Result<bool, Errno> {
        let [(memory, offset)] = plan.pieces[..] else {
            return Ok(false);
        };
        if !plan.file.is_direct() || self.context.direct.kernel(self.context).is_none() {
            return Ok(false);
        }
        let leave = plan
            .file
            .leave_at(plan.operation, memory.place(), offset, plan.level);
        match leave {
            Ok(Some(leave)) => {
                let iocb = *iocb;
                self.departures.push(Departure {
                    number,
                    leave,
                    iocb,
                });
                Ok(true)
            }
            // What is wrong with it the longer way says.
            Ok(None) | Err(_) => Ok(false),
        }
    }

    fn add_pieces(&mut self, number: u32, plan: &Plan) -> Result<(), Errno> {
        let mut refused = Vec::new();
        for part in 0..plan.pieces.len().max(1) {
            match self.add_piece(number, plan, part) {
                Ok(ticket) => self.tickets.extend(ticket.map(|ticket| (number, ticket))),
                // The descriptor is not open for this: the kernel says so at once.
                Err(Errno(libc::EBADF)) if part == 0 => {
                    self.context.abandon(number);
                    return Err(Errno(libc::EBADF));
                }
                Err(errno) => refused.push((part, errno)),
            }
        }
        for (part, errno) in refused {
            self.context.part_done(number, part, Err(errno));
        }
        Ok(())
    }

    fn add_piece(
        &mut self,
        number: u32,
        plan: &Plan,
        part: usize,
    ) -> Result<Option<Ticket>, Errno> {
        let (file, level) = (&plan.file, plan.level);
        let context = Arc::clone(self.context);
        let batch = self.batch_of(file);
        let added = match plan.operation {
            Operation::Read => {
                let (memory, offset) = plan.pieces[part];
                batch.read_then(file, memory, offset, level, move |done| {
                    completed(&context, number, part, done);
                })
            }
            Operation::Write => {
                let (memory, offset) = plan.pieces[part];
                batch.write_then(file, memory, offset, level, move |done| {
                    completed(&context, number, part, done);
                })
            }
            sync => {
                let then = move |done| completed(&context, number, part, done);
                let added = batch.sync_then(file, sync, level, then);
                return match added {
                    Ok(()) => Ok(batch.ticket()),
                    Err(refused) => Err(errno_of(&refused.error)),
                };
            }
        };
        match added {
            Ok(()) => Ok(batch.ticket()),
            Err(refused) => Err(errno_of(&refused.error)),
        }
    }

    /// The batch for the device of `file`; what waits for another goes first.
    fn batch_of(&mut self, file: &File) -> &mut Batch {
        let device = file.device();
        if self.batch.as_ref().is_some_and(|(of, _)| *of != device) {
            self.flush();
        }
        let (_, batch) = self.batch.get_or_insert_with(|| {
            let batch = device.batch();
            (device, batch)
        });
        batch
    }

    fn flush(&mut self) {
        // First: what has leave to go is in others' way until it goes.
        if !self.departures.is_empty()
            && let Some(kernel) = self.context.direct.kernel(self.context)
        {
            depart(self.context, kernel, &mut self.departures);
        }
        if !self.tickets.is_empty() {
            self.context.hold(self.tickets.drain(..));
        }
        if let Some((_, batch)) = self.batch.take() {
            batch.submit();
        }
    }
}

impl Drop for Submission<'_> {
    /// Submits what was added.
    fn drop(&mut self) {
        self.flush();
    }
}

fn operation_of(iocb: &Iocb) -> Result<Operation, Errno> {
    let invalid = Err(Errno(libc::EINVAL));
    // Flags that it does not know the kernel ignores.
    if iocb.reserved2 != 0 {
        return invalid;
    }
    let operation = match iocb.opcode {
        IOCB_CMD_PREAD | IOCB_CMD_PREADV => Operation::Read,
        IOCB_CMD_PWRITE | IOCB_CMD_PWRITEV => Operation::Write,
        IOCB_CMD_FSYNC => Operation::SyncAll,
        IOCB_CMD_FDSYNC => Operation::SyncData,
        _ => return invalid,
    };
    if operation.is_sync() {
        if iocb.buf != 0 || iocb.nbytes != 0 || iocb.offset != 0 || iocb.rw_flags != 0 {
            return invalid;
        }
    } else if iocb.rw_flags != 0 {
        return Err(Errno(libc::EOPNOTSUPP));
    } else if iocb.offset < 0 {
        return invalid;
    }
    Ok(operation)
}

/// Memory and offset of each piece; none of a sync.
fn pieces(request: &Request, operation: Operation) -> Vec<(Memory, u64)> {
    let mut pieces = Vec::with_capacity(request.memory.len());
    if operation.is_sync() {
        return pieces;
    }
    let mut offset = request.iocb.offset as u64;
    for memory in &request.memory {
        let mut rest = (memory.length > 0).then_some(*memory);
        while let Some(memory) = rest.take() {
            let (piece, more) = memory.split(PIECE_BYTES_MAX);
            pieces.push((piece, offset));
            offset = offset.saturating_add(piece.length as u64);
            rest = more;
        }
    }
    pieces
}

fn completed<B>(context: &Context, number: u32, part: usize, completion: Completion<B>) {
    let result = match completion.result {
        Ok(bytes) => Ok(bytes),
        Err(error) => match error.cause() {
            // As the kernel says it: a write may end early.
            Cause::ShortWrite { written } if *written > 0 => Ok(*written as usize),
            _ => Err(errno_of(&error)),
        },
    };
    context.part_done(number, part, result);
}

/// What the kernel would say.
pub(crate) fn errno_of(error: &iolane::Error) -> Errno {
    Errno(match error.cause() {
        Cause::Kernel(_) | Cause::Poisoned(_) => error.os_error().unwrap_or(libc::EIO),
        Cause::Misaligned { .. } | Cause::TooLong { .. } | Cause::BeyondEnd => libc::EINVAL,
        Cause::QueueFull { .. } => libc::EAGAIN,
        Cause::ShortWrite { .. } => libc::ENOSPC,
        Cause::Backend(_) => libc::ENOSYS,
        Cause::Forked | Cause::Closed => libc::EINVAL,
        _ => libc::EIO,
    })
}
