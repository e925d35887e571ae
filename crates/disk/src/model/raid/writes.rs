//! How the array writes: past the cache to both mirrors, or into it, and from
//! there to the disks in order of position.

use super::super::{Command, Kind};
use super::cache::{Batch, Key, LINE_BYTES, Span};
use super::layout::Piece;
use super::{Destaging, Host, Purpose, Raid10, range};

impl Raid10 {
    pub(super) fn write_through(&mut self, now_ns: u64, host: u32, command: Command) {
        let (offset, end) = range(&command);
        let transferred_ns = self.transfer(now_ns, u64::from(command.length));
        *self.hosts.get(host) = Host {
            command,
            parts_left: 1,
            transferred_ns: Some(transferred_ns),
        };
        for piece in self.layout.pieces(offset, end) {
            if let Some(cache) = &mut self.cache {
                for (key, span) in lines(piece) {
                    cache.invalidate(key, span);
                }
            }
            for mirror in 0..2 {
                self.hosts.get(host).parts_left += 1;
                let member = 2 * piece.pair + mirror;
                let purpose = Purpose::Host(host);
                self.send(now_ns, member, piece, Kind::Write, command.durable, purpose);
            }
        }
        self.end_part(now_ns, host);
    }

    /// Whether the cache has room for a write, or never will.
    pub(super) fn fits(&self, command: &Command) -> bool {
        let cache = self.cache.as_ref().expect("write-back has a cache");
        let (offset, end) = range(command);
        let needed = self
            .layout
            .pieces(offset, end)
            .flat_map(lines)
            .filter(|(key, _)| cache.needs_room(*key))
            .count();
        needed <= cache.room() || needed > cache.lines_max() / 2
    }

    /// Takes a write that fits into the cache, where it is done; one that is
    /// too large for it goes past.
    pub(super) fn admit(&mut self, now_ns: u64, host: u32) {
        let command = self.hosts.get(host).command;
        let (offset, end) = range(&command);
        let cache = self.cache.as_mut().expect("write-back has a cache");
        if (end - offset) / LINE_BYTES > cache.lines_max() as u64 / 2 {
            self.write_through(now_ns, host, command);
            return;
        }
        for piece in self.layout.pieces(offset, end) {
            for (key, span) in lines(piece) {
                cache.write(key, span);
            }
        }
        let high = cache.unwritten >= self.dirty_high;
        self.finish(now_ns, host);
        if self.aging_ns.is_none() {
            self.aging_ns = Some(now_ns + self.flush_interval_ns);
        }
        if high {
            self.press(now_ns);
        }
    }

    /// Dirty data go to the disks from now on, until there are few enough.
    pub(super) fn press(&mut self, now_ns: u64) {
        if !self.pressed {
            self.pressed = true;
            self.destage_all(now_ns);
        }
    }

    fn destage_all(&mut self, now_ns: u64) {
        for pair in 0..self.destaging.len() {
            self.destage(now_ns, pair);
        }
    }

    /// Sends a pair what it is to write, as far as its depth goes.
    pub(super) fn destage(&mut self, now_ns: u64, pair: usize) {
        let (mut under_way, mut line) = self.destaging[pair];
        let read_from = self.members[2 * pair..2 * pair + 2]
            .iter()
            .any(|member| member.outstanding > under_way);
        if !self.pressed && (self.aged == 0 || read_from) {
            return;
        }
        while under_way < self.destage_depth
            && let Some(cache) = &mut self.cache
            && let Some(batch) = cache.take_batch(pair as u32, line, self.destage_bytes_max)
        {
            line = batch.first.line + batch.lines;
            under_way += 1;
            let piece = Piece {
                pair,
                offset: batch.offset,
                length: batch.length,
            };
            let number = self.batches.insert(Destaging {
                batch,
                mirrors_left: 2,
            });
            for member in [2 * pair, 2 * pair + 1] {
                let purpose = Purpose::Destage(number);
                self.send(now_ns, member, piece, Kind::Write, false, purpose);
            }
        }
        self.destaging[pair] = (under_way, line);
    }

    /// A batch is on both disks.
    pub(super) fn end_batch(&mut self, now_ns: u64, batch: &Batch) {
        let cache = self.cache.as_mut().expect("only with a cache");
        cache.written(batch);
        let few = cache.unwritten <= self.dirty_low;
        self.aged = self.aged.saturating_sub(batch.lines as usize);
        self.destaging[batch.first.pair as usize].0 -= 1;
        self.take_held(now_ns);
        if few && self.held.is_empty() {
            self.pressed = false;
        }
    }

    /// What is dirty now has been so for long enough.
    pub(super) fn age(&mut self, now_ns: u64) {
        let unwritten = self.cache.as_ref().map_or(0, |cache| cache.unwritten);
        self.aged = unwritten;
        self.aging_ns = (unwritten > 0).then(|| now_ns + self.flush_interval_ns);
        self.destage_all(now_ns);
    }

    pub(super) fn take_held(&mut self, now_ns: u64) {
        while let Some(&host) = self.held.front() {
            let command = self.hosts.get(host).command;
            if !self.fits(&command) {
                return;
            }
            self.held.pop_front();
            self.admit(now_ns, host);
        }
    }
}

/// The lines of a piece, each with what the piece takes of it.
fn lines(piece: Piece) -> impl Iterator<Item = (Key, Span)> {
    let end = piece.offset + piece.length;
    let pair = piece.pair as u32;
    (piece.offset / LINE_BYTES..end.div_ceil(LINE_BYTES))
        .map(move |line| (Key { pair, line }, Span::of(line, piece.offset, end)))
}
