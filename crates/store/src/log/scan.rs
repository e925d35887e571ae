//! Reading a log from its checkpoint to its end.

use super::LogError;
use super::circle::{BLOCK, Circle};
use super::record::{HEAD, Head};
use crate::ids::Lsn;
use iolane::Buffer;

/// Bytes read at once: long enough for a disk to reach its full rate.
const CHUNK: usize = 1 << 20;

/// The records of a log from its checkpoint on.
pub struct LogScan {
    circle: Circle,
    /// Of the next record.
    position: u64,
    chain: u32,
    /// Where reading must stop: a full circle from the checkpoint.
    limit: u64,
    /// Blocks read: `chunk[..chunk_length]` begins at `chunk_from`.
    chunk: Buffer,
    chunk_from: u64,
    chunk_length: usize,
    payload: Vec<u8>,
    /// Where the opening begins that was the last record read, and its chain.
    opening: Option<(Lsn, u32)>,
}

/// One record.
pub struct LogRecord<'a> {
    /// Its first LSN.
    pub start: Lsn,
    /// The LSN behind it: what pages that it changed carry.
    pub end: Lsn,
    /// What was appended.
    pub payload: &'a [u8],
}

impl LogScan {
    pub(super) fn new(circle: Circle, checkpoint: Lsn, chain: u32) -> LogScan {
        LogScan {
            limit: checkpoint.0 / BLOCK * BLOCK + circle.bytes(),
            position: checkpoint.0,
            chain,
            chunk: Buffer::new(CHUNK),
            chunk_from: 0,
            chunk_length: 0,
            payload: Vec::new(),
            opening: None,
            circle,
        }
    }

    /// The next record, `None` at the end of the log.
    ///
    /// # Errors
    /// [`LogError`] when the file cannot be read. A damaged record is the end.
    #[expect(
        clippy::should_implement_trait,
        reason = "lends its memory, and may fail"
    )]
    pub fn next(&mut self) -> Result<Option<LogRecord<'_>>, LogError> {
        loop {
            let start = Lsn(self.position);
            let Some(head) = self.read_record()? else {
                return Ok(None);
            };
            let chain = std::mem::replace(&mut self.chain, head.checksum);
            self.position += (HEAD + self.payload.len()) as u64;
            self.opening = head.is_opening().then_some((start, chain));
            if !head.is_opening() {
                return Ok(Some(LogRecord {
                    start,
                    end: Lsn(self.position),
                    payload: &self.payload,
                }));
            }
        }
    }

    /// Reads the record at `position` into `payload`, if there is one.
    fn read_record(&mut self) -> Result<Option<Head>, LogError> {
        let start = self.position;
        let mut head = [0; HEAD];
        if !self.copy(start, &mut head)? {
            return Ok(None);
        }
        let head = Head::parse(&head);
        let begin = start + HEAD as u64;
        let length = match head.payload() {
            Some(length) if head.chain == self.chain && begin + length as u64 <= self.limit => {
                length
            }
            _ => return Ok(None),
        };
        let mut payload = std::mem::take(&mut self.payload);
        payload.resize(length, 0);
        let whole = self.copy(begin, &mut payload)?;
        self.payload = payload;
        let is_whole = whole && head.is_of(Lsn(start), self.chain, &self.payload);
        Ok(is_whole.then_some(head))
    }

    /// At the end: where the log goes on, and the checksum of the record before.
    /// What went on there before and appended nothing is overwritten.
    pub(super) fn goes_on_at(&self) -> (Lsn, u32) {
        self.opening.unwrap_or((Lsn(self.position), self.chain))
    }

    /// Copies the bytes at log position `at`. False when they lie beyond a
    /// full circle.
    fn copy(&mut self, mut at: u64, mut memory: &mut [u8]) -> Result<bool, LogError> {
        if at + memory.len() as u64 > self.limit {
            return Ok(false);
        }
        while !memory.is_empty() {
            let read = self.chunk_from..self.chunk_from + self.chunk_length as u64;
            if !read.contains(&at) {
                self.read_chunk(at)?;
                continue;
            }
            let from = (at - self.chunk_from) as usize;
            let length = memory.len().min(self.chunk_length - from);
            let (now, later) = memory.split_at_mut(length);
            now.copy_from_slice(&self.chunk[from..from + length]);
            memory = later;
            at += length as u64;
        }
        Ok(true)
    }

    fn read_chunk(&mut self, at: u64) -> Result<(), LogError> {
        let from = at / BLOCK * BLOCK;
        let mut length = (self.limit - from).min(CHUNK as u64) as usize;
        if self.circle.read(from, &mut self.chunk, length).is_err() {
            // A power cut may have left something behind the end that cannot be
            // read. It matters where a record lies in it.
            length = BLOCK as usize;
            self.circle.read(from, &mut self.chunk, length)?;
        }
        self.chunk_from = from;
        self.chunk_length = length;
        Ok(())
    }
}
