//! Sequential readers, as the controller recognises them.

/// Readers that are followed at once: more than the disks could serve.
const STREAMS: usize = 32;

#[derive(Clone, Copy)]
struct Stream {
    /// Where its next read begins if it goes on.
    next: u64,
    /// How far was read ahead for it.
    ahead: u64,
    used: u64,
}

/// The readers seen last.
pub(super) struct Streams {
    streams: [Stream; STREAMS],
    uses: u64,
}

impl Streams {
    pub(super) fn new() -> Streams {
        let none = Stream {
            next: u64::MAX,
            ahead: 0,
            used: 0,
        };
        Streams {
            streams: [none; STREAMS],
            uses: 0,
        }
    }

    /// A read came. If it continues another one, says from where on to read
    /// ahead up to `target`, which then counts as done.
    pub(super) fn advance(&mut self, offset: u64, end: u64, target: u64) -> Option<u64> {
        self.uses += 1;
        let used = self.uses;
        if let Some(stream) = self.streams.iter_mut().find(|it| it.next == offset) {
            let from = stream.ahead.max(end);
            *stream = Stream {
                next: end,
                ahead: from.max(target),
                used,
            };
            return (from < target).then_some(from);
        }
        let oldest = self.streams.iter_mut().min_by_key(|it| it.used);
        *oldest.expect("there are streams") = Stream {
            next: end,
            ahead: end,
            used,
        };
        None
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_second_read_in_a_row_is_read_ahead_of_and_nothing_twice() {
        let mut streams = Streams::new();
        assert_eq!(streams.advance(0, 16, 100), None);
        assert_eq!(streams.advance(500, 516, 600), None);
        assert_eq!(streams.advance(16, 32, 100), Some(32));
        assert_eq!(streams.advance(32, 48, 100), None, "was read ahead");
        assert_eq!(streams.advance(48, 64, 200), Some(100));
        assert_eq!(streams.advance(900, 916, 1_000), None);
    }
}
