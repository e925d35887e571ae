//! The order of leaves, from the branch pages that have gone by, and who follows it.
//!
//! Pure: it says which pages are worth reading; nothing here reads. Its memory is taken once.

use super::page::records_max;
use crate::thread::READS_LONG;

/// Files whose pages are known at a time, by slot.
pub type Space = u8;

/// Scans at a time; of more, those that were seen last are followed.
const SCANS_MAX: usize = 16;
/// Leaves that a scan may pass over: those that the buffer pool has.
const STEP_MAX: usize = 64;
/// Steps in order before anything is read ahead: a short range has not more.
const STEPS_MIN: u32 = 2;
/// How far ahead it begins, and how far it goes: what keeps a disk 1 ms away at 60,000
/// pages a second.
const DISTANCE_MIN: usize = 4;
pub const DISTANCE_MAX: usize = 64;
/// Places in which a leaf may be noted.
const WAYS: usize = 4;
/// Bytes that a leaf takes: its number, and two places in the table by which it is found.
const LEAF_BYTES: usize = 8;

const NOWHERE: u16 = u16::MAX;

/// One page of level 1.
#[derive(Clone, Copy)]
struct Branch {
    /// Slot of its file; `None` where there is no branch.
    space: Option<Space>,
    number: u32,
    next: u32,
    count: usize,
    /// When it was used last.
    used: u64,
}

/// Somebody who reads leaf after leaf.
#[derive(Clone, Copy)]
struct Scan {
    space: Space,
    /// Where it is: a branch, and which of its leaves was read last.
    branch: u16,
    at: usize,
    steps: u32,
    /// The next leaf to be asked for, and how many were since `at`.
    ahead_branch: u16,
    ahead_at: usize,
    ahead: usize,
    distance: usize,
    /// Steps since it last went further ahead.
    since: usize,
    used: u64,
}

/// What is worth reading: a leaf, or the branch in which the order goes on.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Want {
    pub space: Space,
    pub page: u32,
    /// For a scan that has read so much that its own reads have sunk.
    pub is_of_long: bool,
}

pub struct Order {
    leaves_per_branch: usize,
    branches: Vec<Branch>,
    leaves: Vec<u32>,
    /// By a hash of the leaf: the branch that may have it.
    places: Vec<u16>,
    scans: Vec<Scan>,
    clock: u64,
}

impl Order {
    /// With so much memory, about.
    pub fn new(bytes: usize, page_bytes: usize) -> Order {
        let leaves_per_branch = records_max(page_bytes);
        let count = (bytes / (leaves_per_branch * LEAF_BYTES)).clamp(2, usize::from(NOWHERE));
        let free = Branch {
            space: None,
            number: 0,
            next: 0,
            count: 0,
            used: 0,
        };
        Order {
            leaves_per_branch,
            branches: vec![free; count],
            leaves: vec![0; count * leaves_per_branch],
            places: vec![NOWHERE; (count * leaves_per_branch).next_power_of_two()],
            scans: Vec::with_capacity(SCANS_MAX),
            clock: 0,
        }
    }

    /// A branch has gone by, for the first time or as it is now.
    pub fn learn(&mut self, space: Space, number: u32, next: u32, leaves: &[u32]) {
        let leaves = &leaves[..leaves.len().min(self.leaves_per_branch)];
        self.clock += 1;
        let index = self.find_branch(space, number).unwrap_or_else(|| {
            let oldest = (0..self.branches.len()).min_by_key(|&at| self.branches[at].used);
            oldest.unwrap_or(0) as u16
        });
        let start = usize::from(index) * self.leaves_per_branch;
        let known = &mut self.branches[usize::from(index)];
        if (known.space, known.number, known.next, known.count)
            == (Some(space), number, next, leaves.len())
            && self.leaves[start..start + leaves.len()] == *leaves
        {
            known.used = self.clock;
            return;
        }
        // Who stands in it may stand elsewhere now.
        self.scans
            .retain(|scan| scan.branch != index && scan.ahead_branch != index);
        self.branches[usize::from(index)] = Branch {
            space: Some(space),
            number,
            next,
            count: leaves.len(),
            used: self.clock,
        };
        self.leaves[start..start + leaves.len()].copy_from_slice(leaves);
        for &leaf in leaves {
            self.note(space, leaf, index);
        }
    }

    /// The file is gone, or may be another.
    pub fn forget(&mut self, space: Space) {
        for branch in &mut self.branches {
            if branch.space == Some(space) {
                (branch.space, branch.used, branch.count) = (None, 0, 0);
            }
        }
        self.scans.retain(|scan| scan.space != space);
    }

    /// A leaf was read by somebody who came from the one before it, or from memory that was read
    /// ahead. Says what is worth reading now, and what was passed over.
    pub fn step(
        &mut self,
        space: Space,
        leaf: u32,
        want: &mut Vec<Want>,
        passed: &mut impl FnMut(u32),
    ) {
        self.clock += 1;
        let known = (0..self.scans.len())
            .find_map(|scan| Some((scan, self.distance_to(&self.scans[scan], space, leaf)?)));
        let scan = match known {
            Some((scan, distance)) => {
                self.advance(scan, distance, passed);
                scan
            }
            None => {
                let Some((branch, at)) = self.find_leaf(space, leaf) else {
                    return;
                };
                self.begin(space, branch, at)
            }
        };
        self.look_ahead(scan, want);
    }

    /// How many leaves behind the scan's place it lies.
    fn distance_to(&self, scan: &Scan, space: Space, leaf: u32) -> Option<usize> {
        if scan.space != space {
            return None;
        }
        let (mut branch, mut at) = (scan.branch, scan.at);
        for distance in 1..=STEP_MAX {
            (branch, at) = self.following(branch, at)?;
            if self.leaf(branch, at) == leaf {
                return Some(distance);
            }
        }
        None
    }

    fn advance(&mut self, scan: usize, distance: usize, passed: &mut impl FnMut(u32)) {
        let mut state = self.scans[scan];
        for step in 1..=distance {
            let Some((branch, at)) = self.following(state.branch, state.at) else {
                break;
            };
            (state.branch, state.at) = (branch, at);
            if step < distance && step <= state.ahead {
                passed(self.leaf(branch, at));
            }
        }
        state.steps = state.steps.saturating_add(1);
        state.used = self.clock;
        if distance > state.ahead {
            state.ahead = 0;
        } else {
            state.ahead -= distance;
        }
        // Where most of what was read is passed over, less is.
        if distance > 4 {
            state.distance = (state.distance / 2).max(DISTANCE_MIN);
            state.since = 0;
        } else {
            state.since += 1;
            if state.since >= state.distance {
                state.distance = (state.distance * 2).min(DISTANCE_MAX);
                state.since = 0;
            }
        }
        self.branches[usize::from(state.branch)].used = self.clock;
        self.scans[scan] = state;
    }

    fn begin(&mut self, space: Space, branch: u16, at: usize) -> usize {
        let scan = Scan {
            space,
            branch,
            at,
            steps: 1,
            ahead_branch: branch,
            ahead_at: at,
            ahead: 0,
            distance: DISTANCE_MIN,
            since: 0,
            used: self.clock,
        };
        if self.scans.len() < SCANS_MAX {
            self.scans.push(scan);
            return self.scans.len() - 1;
        }
        let oldest = (0..SCANS_MAX).min_by_key(|&at| self.scans[at].used);
        let oldest = oldest.unwrap_or(0);
        self.scans[oldest] = scan;
        oldest
    }

    fn look_ahead(&mut self, scan: usize, want: &mut Vec<Want>) {
        let mut state = self.scans[scan];
        if state.steps < STEPS_MIN {
            return;
        }
        if state.ahead == 0 {
            (state.ahead_branch, state.ahead_at) = (state.branch, state.at);
        }
        let wanted = |page| Want {
            space: state.space,
            page,
            is_of_long: state.steps >= READS_LONG,
        };
        // In groups: neighbours on the disk then go together.
        if state.ahead > state.distance * 3 / 4 {
            return;
        }
        while state.ahead < state.distance {
            match self.following(state.ahead_branch, state.ahead_at) {
                Some((branch, at)) => {
                    (state.ahead_branch, state.ahead_at) = (branch, at);
                    state.ahead += 1;
                    want.push(wanted(self.leaf(branch, at)));
                }
                None => {
                    let next = self.branches[usize::from(state.ahead_branch)].next;
                    if next != super::page::NONE && self.find_branch(state.space, next).is_none() {
                        want.push(wanted(next));
                    }
                    break;
                }
            }
        }
        self.scans[scan] = state;
    }

    /// The place behind a place, if it is known.
    fn following(&self, branch: u16, at: usize) -> Option<(u16, usize)> {
        let here = &self.branches[usize::from(branch)];
        if at + 1 < here.count {
            return Some((branch, at + 1));
        }
        let next = self.find_branch(here.space?, here.next)?;
        (self.branches[usize::from(next)].count > 0).then_some((next, 0))
    }

    fn leaf(&self, branch: u16, at: usize) -> u32 {
        self.leaves[usize::from(branch) * self.leaves_per_branch + at]
    }

    fn find_branch(&self, space: Space, number: u32) -> Option<u16> {
        let is_it = |branch: &Branch| branch.space == Some(space) && branch.number == number;
        self.branches.iter().position(is_it).map(|at| at as u16)
    }

    fn find_leaf(&self, space: Space, leaf: u32) -> Option<(u16, usize)> {
        let start = self.place_of(space, leaf);
        let mut last = NOWHERE;
        for &branch in &self.places[start..start + WAYS] {
            if branch == NOWHERE || branch == last {
                continue;
            }
            last = branch;
            let known = &self.branches[usize::from(branch)];
            let start = usize::from(branch) * self.leaves_per_branch;
            let leaves = &self.leaves[start..start + known.count];
            if known.space == Some(space)
                && let Some(at) = leaves.iter().position(|&other| other == leaf)
            {
                return Some((branch, at));
            }
        }
        None
    }

    /// What was noted there before is lost: a table that leaves no room for all is no error.
    fn note(&mut self, space: Space, leaf: u32, branch: u16) {
        let start = self.place_of(space, leaf);
        let ways = &mut self.places[start..start + WAYS];
        let of_space = |&at: &u16| {
            at == NOWHERE || at == branch || self.branches[usize::from(at)].space.is_none()
        };
        let way = ways.iter().position(of_space);
        ways[way.unwrap_or(leaf as usize % WAYS)] = branch;
    }

    fn place_of(&self, space: Space, leaf: u32) -> usize {
        let mixed = (u64::from(space) << 32 | u64::from(leaf)).wrapping_mul(0x9e37_79b9_7f4a_7c15);
        (mixed >> 32) as usize % (self.places.len() / WAYS) * WAYS
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::ahead::page::NONE;

    const SPACE: Space = 3;

    /// Branches 1, 2, ... of ten leaves each.
    fn order(branches: u32) -> Order {
        let mut order = Order::new(1 << 20, 16 << 10);
        for branch in 1..=branches {
            let next = if branch == branches { NONE } else { branch + 1 };
            let leaves: Vec<u32> = (0..10).map(|at| leaf(branch, at)).collect();
            order.learn(SPACE, branch, next, &leaves);
        }
        order
    }

    fn leaf(branch: u32, at: u32) -> u32 {
        1000 - branch * 100 + at * 7
    }

    fn leaf_wanted(page: u32) -> Want {
        Want {
            space: SPACE,
            page,
            is_of_long: false,
        }
    }

    fn step(order: &mut Order, leaf: u32) -> (Vec<Want>, Vec<u32>) {
        let (mut want, mut passed) = (Vec::new(), Vec::new());
        order.step(SPACE, leaf, &mut want, &mut |leaf| passed.push(leaf));
        (want, passed)
    }

    #[test]
    fn a_scan_is_followed_from_branch_to_branch_to_the_end() {
        let mut order = order(5);
        assert_eq!(step(&mut order, leaf(1, 3)).0, []);
        let mut wanted = Vec::new();
        for at in 4..50 {
            wanted.extend(step(&mut order, leaf(1 + at / 10, at % 10)).0);
        }
        let all = (5..50).map(|at| leaf_wanted(leaf(1 + at / 10, at % 10)));
        assert_eq!(wanted, all.collect::<Vec<_>>());
    }

    #[test]
    fn look_ups_here_and_there_are_no_scan() {
        let mut order = order(5);
        for at in [3, 30, 12, 45, 1] {
            // Further apart than a scan passes over would be ten branches of these.
            let mut order_of_one = self::order(1);
            assert_eq!(step(&mut order_of_one, leaf(1, at % 10)).0, []);
        }
        assert_eq!(step(&mut order, 77).0, [], "no leaf of these");
    }

    #[test]
    fn an_unknown_branch_is_asked_for_once_it_is_needed() {
        let mut order = order(1);
        order.learn(
            SPACE,
            1,
            2,
            &(0..10).map(|at| leaf(1, at)).collect::<Vec<_>>(),
        );
        let mut wanted = Vec::new();
        for at in 0..10 {
            wanted.extend(step(&mut order, leaf(1, at)).0);
        }
        assert!(wanted.contains(&leaf_wanted(2)));
        assert!(!wanted.contains(&leaf_wanted(leaf(1, 1))));
    }

    #[test]
    fn what_the_pool_has_is_passed_over() {
        let mut order = order(5);
        step(&mut order, leaf(1, 0));
        let (want, _) = step(&mut order, leaf(1, 1));
        assert_eq!(want.len(), DISTANCE_MIN);
        let (_, passed) = step(&mut order, leaf(1, 4));
        assert_eq!(passed, [leaf(1, 2), leaf(1, 3)]);
    }

    #[test]
    fn a_forgotten_file_is_unknown() {
        let mut order = order(3);
        step(&mut order, leaf(1, 0));
        order.forget(SPACE);
        assert_eq!(step(&mut order, leaf(1, 1)).0, []);
    }

    #[test]
    fn memory_is_bounded_and_the_oldest_branch_goes() {
        let mut order = Order::new(100 << 10, 16 << 10);
        let count = order.branches.len() as u32;
        for branch in 1..=count * 3 {
            order.learn(SPACE, branch, NONE, &[branch * 10, branch * 10 + 1]);
        }
        assert_eq!(order.branches.len() as u32, count);
        assert!(order.find_leaf(SPACE, 10).is_none());
        assert!(order.find_leaf(SPACE, count * 30 + 1).is_some());
    }
}
