//! How the array reads: from the cache, from the mirror that is nearer, and
//! ahead of who reads on.

use super::super::{Command, Kind};
use super::cache::{Found, Key, LINE_BYTES, Span};
use super::layout::Piece;
use super::{Purpose, Raid10, range};

/// Mirrors may differ by so many commands before the busier one loses what
/// continues its last one.
const IMBALANCE_MAX: usize = 4;

impl Raid10 {
    /// Begins to bring what a read needs. The host's command ends with the last
    /// part of it.
    pub(super) fn begin_read(&mut self, now_ns: u64, host: u32, command: Command) {
        let (offset, end) = range(&command);
        let lines = (end - offset) / LINE_BYTES + 2 * (end - offset) / self.layout.chunk_bytes + 2;
        let fits = self
            .cache
            .as_ref()
            .is_some_and(|cache| lines as usize <= cache.room());
        // Held until the end of this function, so that no part ends it early.
        self.hosts.get(host).parts_left = 1;
        for piece in self.layout.pieces(offset, end) {
            if fits {
                self.fetch(now_ns, piece, Some(host));
            } else {
                self.hosts.get(host).parts_left += 1;
                let member = self.nearest_mirror(piece);
                self.send(
                    now_ns,
                    member,
                    piece,
                    Kind::Read,
                    false,
                    Purpose::Host(host),
                );
            }
        }
        if fits && self.read_ahead_bytes > 0 {
            self.read_ahead(now_ns, offset, end);
        }
        self.end_part(now_ns, host);
    }

    /// Brings what the cache lacks of a piece; `host` waits for it.
    fn fetch(&mut self, now_ns: u64, piece: Piece, host: Option<u32>) {
        let end = piece.offset + piece.length;
        let lines = piece.offset / LINE_BYTES..end.div_ceil(LINE_BYTES);
        let pair = piece.pair as u32;
        let mut missing: Option<(u64, u64)> = None;
        let mut waited = None;
        for line in lines {
            let cache = self.cache.as_mut().expect("only with a cache");
            let span = Span::of(line, piece.offset, end);
            match cache.find(Key { pair, line }, span) {
                Found::Missing => {
                    missing = Some((missing.map_or(line, |(first, _)| first), line + 1));
                    continue;
                }
                Found::Coming(read) if waited != Some(read) => {
                    waited = Some(read);
                    self.wait_for(read, host);
                }
                Found::Coming(_) | Found::Here => {}
            }
            if let Some(gap) = missing.take() {
                self.fill(now_ns, piece.pair, gap, host);
            }
        }
        if let Some(gap) = missing {
            self.fill(now_ns, piece.pair, gap, host);
        }
    }

    fn wait_for(&mut self, read: u32, host: Option<u32>) {
        if let (Some(host), Purpose::Fill { waiters, .. }) = (host, self.parts.get(read)) {
            waiters.push(host);
            self.hosts.get(host).parts_left += 1;
        }
    }

    fn fill(&mut self, now_ns: u64, pair: usize, (first, end): (u64, u64), host: Option<u32>) {
        let piece = Piece {
            pair,
            offset: first * LINE_BYTES,
            length: (end - first) * LINE_BYTES,
        };
        let member = self.nearest_mirror(piece);
        let key = |line| Key {
            pair: pair as u32,
            line,
        };
        let purpose = Purpose::Fill {
            first: key(first),
            lines: end - first,
            waiters: self.spare.pop().unwrap_or_default(),
        };
        let read = self.send(now_ns, member, piece, Kind::Read, false, purpose);
        let cache = self.cache.as_mut().expect("only with a cache");
        for line in first..end {
            cache.fill(key(line), read);
        }
        self.wait_for(read, host);
    }

    /// Brings what a sequential reader will want next, in whole chunks.
    fn read_ahead(&mut self, now_ns: u64, offset: u64, end: u64) {
        let chunk = self.layout.chunk_bytes;
        let target = (end + self.read_ahead_bytes).min(self.capacity_bytes) / chunk * chunk;
        let Some(from) = self.streams.advance(offset, end, target) else {
            return;
        };
        for piece in self.layout.pieces(from, target.max(from)) {
            let room = self.cache.as_ref().expect("only with a cache").room();
            if room < (chunk / LINE_BYTES) as usize {
                return;
            }
            self.fetch(now_ns, piece, None);
        }
    }

    /// The mirror that a read goes to: the one that it continues, as long as
    /// that has not much more to do; otherwise the one that has less to do;
    /// otherwise the one whose last command was nearer.
    fn nearest_mirror(&self, piece: Piece) -> usize {
        let first = 2 * piece.pair;
        let [one, other] = [first, first + 1].map(|member| {
            let member = &self.members[member];
            (member.outstanding, member.distance(piece.offset))
        });
        let other_is_better = match (one.1, other.1) {
            (0, _) => one.0 > other.0 + IMBALANCE_MAX,
            (_, 0) => other.0 <= one.0 + IMBALANCE_MAX,
            _ => (other.0, other.1) < (one.0, one.1),
        };
        first + usize::from(other_is_better)
    }
}
