//! The rows that every engine gets: made once, so that making them costs
//! nobody anything while it is measured.

/// Bytes of a value: so many at least.
const VALUE_BYTES_MIN: u64 = 100;
/// And up to so many more.
const VALUE_BYTES_SPREAD: u64 = 101;
/// Values are windows into so many bytes.
const POOL_BYTES: u64 = 1 << 20;
/// Letters that need no quoting in a text file or a statement.
const LETTERS: &[u8; 64] = b"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+-";
/// A prime above every count of rows: multiplying by it visits all of them.
const PRIME: u64 = 2_654_435_761;

/// One row: a key of 8 bytes, another one for the secondary index, a value.
#[derive(Clone, Copy, Debug)]
pub struct Row<'a> {
    /// Primary key.
    pub key: u64,
    /// Key of the secondary index, where there is one.
    pub second: u64,
    /// 100 to 200 bytes.
    pub value: &'a [u8],
}

/// `count` rows with the keys 0, 1, 2...
pub struct Rows {
    count: u64,
    pool: Vec<u8>,
}

impl Rows {
    /// # Panics
    /// With as many rows as the prime, or none.
    pub fn new(count: u64) -> Rows {
        assert!((1..PRIME).contains(&count));
        let mut random = Random::new(1);
        let length = POOL_BYTES + VALUE_BYTES_MIN + VALUE_BYTES_SPREAD;
        let pool = (0..length).map(|_| LETTERS[random.below(64) as usize]);
        Rows {
            count,
            pool: pool.collect(),
        }
    }

    pub fn count(&self) -> u64 {
        self.count
    }

    /// The row with a key, also beyond the count.
    pub fn row(&self, key: u64) -> Row<'_> {
        self.version(key, 0)
    }

    /// The same row after its `version`-th change; no length changes.
    pub fn version(&self, key: u64, version: u64) -> Row<'_> {
        let mixed = mix(key);
        let bytes = VALUE_BYTES_MIN + mixed % VALUE_BYTES_SPREAD;
        let begin = ((mixed >> 8).wrapping_add(version * 4099) % POOL_BYTES) as usize;
        Row {
            key,
            second: self.scattered(key),
            value: &self.pool[begin..][..bytes as usize],
        }
    }

    /// Another order of the keys below the count, far from the first one.
    pub fn scattered(&self, number: u64) -> u64 {
        number % self.count * PRIME % self.count
    }

    pub fn ascending(&self) -> impl Iterator<Item = Row<'_>> {
        (0..self.count).map(|key| self.row(key))
    }
}

/// Bytes of key and value, on average.
pub fn row_bytes_mean() -> u64 {
    8 + VALUE_BYTES_MIN + VALUE_BYTES_SPREAD / 2
}

/// The finalizer of SplitMix64 (Steele and others, 2014).
fn mix(key: u64) -> u64 {
    let mut z = key.wrapping_add(0x9e37_79b9_7f4a_7c15);
    z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
    z ^ (z >> 31)
}

/// Numbers for choosing rows; the same for every engine.
pub struct Random(u64);

impl Random {
    pub fn new(seed: u64) -> Random {
        Random(mix(seed) | 1)
    }

    pub fn below(&mut self, limit: u64) -> u64 {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        self.0 % limit
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::collections::HashSet;

    #[test]
    fn the_scattered_order_has_every_key_once() {
        let rows = Rows::new(10_007);
        let seen: HashSet<u64> = (0..10_007).map(|number| rows.scattered(number)).collect();
        assert_eq!(seen.len(), 10_007);
    }

    #[test]
    fn a_change_keeps_the_length_and_changes_the_bytes() {
        let rows = Rows::new(100);
        for key in 0..100 {
            let (old, new) = (rows.row(key), rows.version(key, 1));
            assert_eq!(old.value.len(), new.value.len());
            assert_ne!(old.value, new.value);
            assert!((100..=200).contains(&old.value.len()));
        }
    }
}
