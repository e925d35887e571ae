//! Where the data lie, and what it costs to make room.
//!
//! A drive's map has an entry for each 4 KiB, too many to carry along. So this
//! follows a sample: one page out of each equal piece of the logical space,
//! chosen by the seed. A sampled page moves when a write covers it, and stands
//! for its whole piece when blocks are emptied. Sequential writes thus move
//! every sampled page once per pass, random ones leave valid pages scattered
//! over all blocks, and both have the write amplification that they have on
//! the whole drive.

use super::super::seeded::{Seeded, mix};
use super::parameters::{FlashParameters, MAPPED_BYTES};

/// Sampled pages at most: their map stays within a processor's cache.
const SAMPLES_MAX: u64 = 1 << 16;
/// Erasable groups of blocks: enough that a small share of spare flash is
/// still several groups, and that each holds many samples.
const GROUPS: usize = 512;
/// Groups that are kept empty: one for the host's data, one for what garbage
/// collection copies.
const FREE_GROUPS_MIN: usize = 2;
/// Times that the data are overwritten at random to age the drive. The greedy
/// choice of blocks has settled after two.
const AGEING_PASSES: u64 = 3;

/// A page of which the sample holds no data yet.
const NOWHERE: u16 = u16::MAX;

#[derive(Default)]
struct Group {
    /// Samples that were put here; those that moved on since are still named.
    samples: Vec<u32>,
    /// Samples that are here still.
    valid: u32,
}

/// The map of the sample, and garbage collection on it.
pub(super) struct Mapping {
    /// Logical pages per sampled one, as a power of two.
    piece_shift: u32,
    /// Group of each sample.
    group_of: Vec<u16>,
    groups: Vec<Group>,
    free: Vec<u16>,
    /// Neither free nor being filled.
    closed: Vec<bool>,
    /// Where the host's data go, and bytes that went there.
    host: (u16, f64),
    /// Where copied data go.
    copies: (u16, f64),
    piece_bytes: f64,
    group_bytes: f64,
    /// Bytes to copy for each byte that the host writes, until the next group
    /// is begun.
    copy_ratio: f64,
    seed: u64,
}

impl Mapping {
    pub(super) fn new(parameters: &FlashParameters, seed: u64) -> Mapping {
        let pages = parameters.capacity_bytes.div_ceil(MAPPED_BYTES);
        let piece_pages = pages.div_ceil(SAMPLES_MAX).next_power_of_two();
        let samples = pages.div_ceil(piece_pages) as usize;
        let physical = parameters.capacity_bytes as f64 * (1.0 + parameters.over_provisioning);
        let mut mapping = Mapping {
            piece_shift: piece_pages.trailing_zeros(),
            group_of: vec![NOWHERE; samples],
            groups: (0..GROUPS).map(|_| Group::default()).collect(),
            free: (2..GROUPS as u16).rev().collect(),
            closed: vec![false; GROUPS],
            host: (0, 0.0),
            copies: (1, 0.0),
            piece_bytes: (piece_pages * MAPPED_BYTES) as f64,
            group_bytes: physical / GROUPS as f64,
            copy_ratio: 0.0,
            seed,
        };
        mapping.fill(parameters);
        mapping
    }

    /// Puts the data there that the disk holds at the beginning.
    fn fill(&mut self, parameters: &FlashParameters) {
        let used = (self.group_of.len() as f64 * parameters.utilisation) as u32;
        for sample in 0..used {
            self.move_by_host(sample);
        }
        if parameters.aged {
            let mut chance = Seeded::new(self.seed);
            for _ in 0..u64::from(used) * AGEING_PASSES {
                let sample = chance.below(u64::from(used)) as u32;
                self.move_by_host(sample);
            }
        }
    }

    /// The whole piece of a sample is written, wherever its page lies.
    fn move_by_host(&mut self, sample: u32) {
        self.place(sample, self.host.0);
        self.count_host(self.piece_bytes);
    }

    /// Bytes to copy for each byte that the host writes now.
    pub(super) fn copy_ratio(&self) -> f64 {
        self.copy_ratio
    }

    /// The host writes these logical pages.
    pub(super) fn write(&mut self, first_page: u64, pages: u64) {
        let last_page = first_page + pages - 1;
        for sample in (first_page >> self.piece_shift)..=(last_page >> self.piece_shift) {
            let inside = mix(sample ^ self.seed) & ((1 << self.piece_shift) - 1);
            let page = (sample << self.piece_shift) + inside;
            if (first_page..=last_page).contains(&page) {
                self.place(sample as u32, self.host.0);
            }
        }
        self.count_host((pages * MAPPED_BYTES) as f64);
    }

    fn place(&mut self, sample: u32, group: u16) {
        let from = self.group_of[sample as usize];
        // Named once per group, so that a group's list has a bound: a page
        // that is written over and over adds nothing.
        if from == group {
            return;
        }
        if from != NOWHERE {
            self.groups[from as usize].valid -= 1;
        }
        self.group_of[sample as usize] = group;
        let group = &mut self.groups[group as usize];
        group.samples.push(sample);
        group.valid += 1;
    }

    fn count_host(&mut self, bytes: f64) {
        self.host.1 += bytes;
        while self.host.1 >= self.group_bytes {
            self.host.1 -= self.group_bytes;
            self.closed[self.host.0 as usize] = true;
            let copied = self.make_room();
            // What was gained is one group; the host pays for it by the byte
            // while it fills that group, not all at once.
            self.copy_ratio = copied / self.group_bytes;
            self.host.0 = self.take_free();
        }
    }

    /// Empties groups until enough are free; returns the bytes copied.
    fn make_room(&mut self) -> f64 {
        let mut copied = 0.0;
        while self.free.len() < FREE_GROUPS_MIN {
            let victim = self.emptiest();
            copied += f64::from(self.groups[victim].valid) * self.piece_bytes;
            self.empty(victim);
        }
        copied
    }

    fn emptiest(&self) -> usize {
        let mut best = None;
        for (index, group) in self.groups.iter().enumerate() {
            if self.closed[index] && best.is_none_or(|(valid, _)| group.valid < valid) {
                best = Some((group.valid, index));
            }
        }
        let (_, index) = best.expect("all groups but four are closed when room is short");
        index
    }

    fn empty(&mut self, victim: usize) {
        let mut samples = std::mem::take(&mut self.groups[victim].samples);
        for &sample in &samples {
            if self.group_of[sample as usize] != victim as u16 {
                continue;
            }
            self.place(sample, self.copies.0);
            self.copies.1 += self.piece_bytes;
            if self.copies.1 >= self.group_bytes {
                self.copies.1 -= self.group_bytes;
                self.closed[self.copies.0 as usize] = true;
                self.copies.0 = self.take_free();
            }
        }
        samples.clear();
        // The memory goes back with the group: no allocation later.
        self.groups[victim].samples = samples;
        self.closed[victim] = false;
        self.free.push(victim as u16);
    }

    fn take_free(&mut self) -> u16 {
        self.free.pop().expect("groups are emptied before the last")
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn parameters(over_provisioning: f64, utilisation: f64, aged: bool) -> FlashParameters {
        FlashParameters {
            capacity_bytes: 1 << 30,
            over_provisioning,
            utilisation,
            aged,
            ..FlashParameters::nvme_ssd()
        }
    }

    fn pages() -> u64 {
        (1 << 30) / MAPPED_BYTES
    }

    /// Mean bytes copied per byte written at random over `passes` of the disk.
    fn random_writes(mapping: &mut Mapping, passes: u64) -> f64 {
        let mut chance = Seeded::new(3);
        let mut sum = 0.0;
        for _ in 0..passes * pages() {
            mapping.write(chance.below(pages()), 1);
            sum += mapping.copy_ratio();
        }
        sum / (passes * pages()) as f64
    }

    #[test]
    fn less_spare_flash_means_more_copies_as_theory_says() {
        // Greedy choice among large blocks and uniform random writes: about
        // (1 + s) / (2 s) bytes programmed per byte written, for a share s of
        // spare flash (Desnoyers 2012, "Analytic modeling of SSD write
        // performance", SYSTOR).
        for spare in [0.1, 0.2, 0.4] {
            let mut mapping = Mapping::new(&parameters(spare, 1.0, true), 1);
            let amplification = 1.0 + random_writes(&mut mapping, 1);
            let theory = (1.0 + spare) / (2.0 * spare);
            assert!(
                (amplification / theory - 1.0).abs() < 0.2,
                "{spare} spare: {amplification} for {theory}"
            );
        }
    }

    #[test]
    fn a_disk_that_is_half_empty_has_more_to_spare() {
        let full = random_writes(&mut Mapping::new(&parameters(0.1, 1.0, true), 1), 1);
        let mut half = Mapping::new(&parameters(0.1, 0.5, true), 1);
        let mut chance = Seeded::new(3);
        let mut sum = 0.0;
        for _ in 0..pages() {
            half.write(chance.below(pages() / 2), 1);
            sum += half.copy_ratio();
        }
        let half = sum / pages() as f64;
        assert!(half < full / 5.0, "{half} for {full}");
    }

    #[test]
    fn a_new_disk_copies_nothing_until_its_spare_flash_is_written() {
        let mut mapping = Mapping::new(&parameters(0.25, 1.0, false), 1);
        let mut chance = Seeded::new(3);
        let mut written = 0;
        while mapping.copy_ratio() == 0.0 {
            mapping.write(chance.below(pages()), 1);
            written += 1;
        }
        let share = written as f64 / pages() as f64;
        assert!((0.2..0.26).contains(&share), "{share}");
    }

    #[test]
    fn sequential_writes_undo_the_scatter() {
        let mut mapping = Mapping::new(&parameters(0.1, 1.0, true), 1);
        let mut pass = || {
            let mut sum = 0.0;
            for start in (0..pages()).step_by(32) {
                mapping.write(start, 32);
                sum += mapping.copy_ratio();
            }
            sum / (pages() / 32) as f64
        };
        let first = pass();
        pass();
        let third = pass();
        assert!(first > 0.3, "{first}");
        assert!(third < 0.05, "{third} after {first}");
    }
}
