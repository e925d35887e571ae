//! Where the next request goes, and how long it is.

use std::sync::atomic::{AtomicU64, Ordering};

use crate::args::choices::Pattern;

/// A fast reproducible sequence: xorshift64* (Vigna, "An experimental
/// exploration of Marsaglia's xorshift generators, scrambled", 2016).
#[derive(Clone, Copy, Debug)]
pub struct Random(u64);

impl Random {
    /// Different for each seed and each stream within it.
    pub fn new(seed: u64, stream: u64) -> Self {
        // One step of SplitMix64, as near seeds must give far states; the
        // state 0 would stay 0.
        let mut state = seed
            .wrapping_mul(0x9e37_79b9_7f4a_7c15)
            .wrapping_add(stream.wrapping_mul(0xd1b5_4a32_d192_ed03));
        state = (state ^ (state >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        state = (state ^ (state >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        Self((state ^ (state >> 31)) | 1)
    }

    pub fn next(&mut self) -> u64 {
        self.0 ^= self.0 >> 12;
        self.0 ^= self.0 << 25;
        self.0 ^= self.0 >> 27;
        self.0.wrapping_mul(0x2545_f491_4f6c_dd1d)
    }

    /// Evenly below `limit`, without a division.
    fn below(&mut self, limit: u64) -> u64 {
        ((u128::from(self.next()) * u128::from(limit)) >> 64) as u64
    }

    /// Random bytes, which no device compresses.
    pub fn fill(&mut self, bytes: &mut [u8]) {
        for chunk in bytes.chunks_mut(8) {
            chunk.copy_from_slice(&self.next().to_ne_bytes()[..chunk.len()]);
        }
    }
}

/// The positions of one stream. Shared by all its requests.
#[derive(Debug)]
pub struct Offsets {
    pattern: Pattern,
    sizes_bytes: Box<[u64]>,
    target_bytes: u64,
    /// Where a sequential stream goes on.
    next: AtomicU64,
}

impl Offsets {
    /// Within the first `target_bytes`, which hold the largest size at least
    /// once.
    pub fn new(pattern: Pattern, sizes_bytes: &[u64], target_bytes: u64) -> Self {
        assert!(
            sizes_bytes
                .iter()
                .all(|size| (1..=target_bytes).contains(size))
        );
        Self {
            pattern,
            sizes_bytes: sizes_bytes.into(),
            target_bytes,
            next: AtomicU64::new(0),
        }
    }

    /// Offset and length. Random offsets are multiples of their length.
    pub fn next(&self, random: &mut Random) -> (u64, u64) {
        let size = match &*self.sizes_bytes {
            [size] => *size,
            sizes => sizes[random.below(sizes.len() as u64) as usize],
        };
        let offset = match self.pattern {
            Pattern::Random => random.below(self.target_bytes / size) * size,
            Pattern::Sequential => self.take(size),
        };
        (offset, size)
    }

    /// The next stretch of a sequential stream; from the start again where the
    /// rest is too short.
    fn take(&self, size: u64) -> u64 {
        let start = |next: u64| {
            if next + size > self.target_bytes {
                0
            } else {
                next
            }
        };
        match self
            .next
            .fetch_update(Ordering::Relaxed, Ordering::Relaxed, |next| {
                Some(start(next) + size)
            }) {
            Ok(next) | Err(next) => start(next),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::collections::BTreeSet;

    #[test]
    fn random_offsets_cover_the_target_and_stay_inside() {
        let offsets = Offsets::new(Pattern::Random, &[4096], 10 * 4096 + 100);
        let mut random = Random::new(1, 0);
        let seen: BTreeSet<u64> = (0..1000).map(|_| offsets.next(&mut random).0).collect();
        assert_eq!(seen, (0..10).map(|block| block * 4096).collect());
    }

    #[test]
    fn sequential_streams_start_over_before_the_end() {
        let offsets = Offsets::new(Pattern::Sequential, &[4096], 3 * 4096 + 100);
        let mut random = Random::new(1, 0);
        let seen: Vec<u64> = (0..5).map(|_| offsets.next(&mut random).0).collect();
        assert_eq!(seen, [0, 4096, 8192, 0, 4096]);
    }

    #[test]
    fn all_sizes_of_a_list_occur_aligned_to_themselves() {
        let offsets = Offsets::new(Pattern::Random, &[512, 4096, 65536], 1 << 20);
        let mut random = Random::new(7, 3);
        let mut counts = [0; 3];
        for _ in 0..3000 {
            let (offset, size) = offsets.next(&mut random);
            assert!(offset % size == 0 && offset + size <= 1 << 20);
            counts[[512, 4096, 65536].iter().position(|s| *s == size).unwrap()] += 1;
        }
        assert!(counts.iter().all(|count| *count > 800), "{counts:?}");
    }

    #[test]
    fn a_seed_gives_one_sequence_and_streams_differ() {
        let take = |seed, stream| -> Vec<u64> {
            let mut random = Random::new(seed, stream);
            (0..4).map(|_| random.next()).collect()
        };
        assert_eq!(take(1, 0), take(1, 0));
        let all: BTreeSet<Vec<u64>> = (0..4)
            .flat_map(|seed| (0..4).map(move |stream| take(seed, stream)))
            .collect();
        assert_eq!(all.len(), 16);
    }
}
