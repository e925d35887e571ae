//! A set of small numbers that many may add to and one empties.

use std::sync::atomic::{AtomicU64, Ordering};

/// `WORDS` times 64 numbers.
#[repr(C)]
pub struct BitSet<const WORDS: usize> {
    words: [AtomicU64; WORDS],
}

impl<const WORDS: usize> Default for BitSet<WORDS> {
    fn default() -> Self {
        Self::new()
    }
}

impl<const WORDS: usize> BitSet<WORDS> {
    /// None of them.
    pub const fn new() -> Self {
        BitSet {
            words: [const { AtomicU64::new(0) }; WORDS],
        }
    }

    /// Adds a number.
    pub fn insert(&self, number: usize) {
        // Release: who takes the number out sees what was written before.
        self.words[number / 64].fetch_or(1 << (number % 64), Ordering::SeqCst);
    }

    /// Whether there is any.
    pub fn is_empty(&self) -> bool {
        self.words
            .iter()
            .all(|word| word.load(Ordering::SeqCst) == 0)
    }

    /// Takes all numbers out, the lowest first.
    pub fn drain(&self, mut each: impl FnMut(usize)) {
        for (index, word) in self.words.iter().enumerate() {
            if word.load(Ordering::Relaxed) == 0 {
                continue;
            }
            let mut taken = word.swap(0, Ordering::SeqCst);
            while taken != 0 {
                each(index * 64 + taken.trailing_zeros() as usize);
                taken &= taken - 1;
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_was_added_comes_out_once_in_order() {
        let set = BitSet::<2>::new();
        for number in [100, 3, 64, 3] {
            set.insert(number);
        }
        assert!(!set.is_empty());
        let mut out = Vec::new();
        set.drain(|number| out.push(number));
        assert_eq!(out, [3, 64, 100]);
        assert!(set.is_empty());
    }
}
