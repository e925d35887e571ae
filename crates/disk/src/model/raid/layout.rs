//! Where the array's bytes lie: chunks, dealt out to the mirrored pairs.

/// Which pair holds which chunk.
#[derive(Clone, Copy)]
pub(super) struct Layout {
    pub(super) chunk_bytes: u64,
    pub(super) pairs: u64,
}

/// A range that lies within one chunk.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Piece {
    pub(super) pair: usize,
    /// First byte on each of the pair's disks.
    pub(super) offset: u64,
    pub(super) length: u64,
}

impl Layout {
    /// The pieces of a range of the array, in its order.
    pub(super) fn pieces(self, offset: u64, end: u64) -> impl Iterator<Item = Piece> {
        let mut at = offset;
        std::iter::from_fn(move || {
            if at >= end {
                return None;
            }
            let chunk = at / self.chunk_bytes;
            let inside = at % self.chunk_bytes;
            let length = (self.chunk_bytes - inside).min(end - at);
            at += length;
            Some(Piece {
                pair: (chunk % self.pairs) as usize,
                offset: chunk / self.pairs * self.chunk_bytes + inside,
                length,
            })
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn chunks_go_round_the_pairs() {
        let layout = Layout {
            chunk_bytes: 100,
            pairs: 3,
        };
        let piece = |pair, offset, length| Piece {
            pair,
            offset,
            length,
        };
        let pieces: Vec<Piece> = layout.pieces(250, 420).collect();
        assert_eq!(
            pieces,
            [piece(2, 50, 50), piece(0, 100, 100), piece(1, 100, 20)]
        );
    }
}
