//! Requests sorted by position: a treap whose nodes are also threaded in order.
//!
//! The nodes live in one table, indexed by slot, shared by all trees of a
//! scheduler (a request is in at most one of them), so that inserting and
//! removing allocate nothing. The thread makes the neighbours of a request,
//! which merging looks at for each dispatched one, two loads away. A treap
//! (Seidel and Aragon 1996) because insertion and removal are one descent and
//! one loop each, without the rotation cases of a red-black tree.

/// "No slot" in every link of this crate.
pub(crate) const NIL: u32 = u32::MAX;

/// Aligned to a cache line, which it fills: each step of a descent then loads
/// one line and never two.
#[derive(Clone, Copy)]
#[repr(align(64))]
struct Node {
    /// File, offset and slot, from the upper bits down: what the trees are
    /// sorted by, so that a comparison is one of two machine words.
    key: u128,
    end: u64,
    weight: u32,
    /// Spares a removal the descent.
    parent: u32,
    left: u32,
    right: u32,
    prev: u32,
    next: u32,
}

const _: () = assert!(size_of::<Node>() == 64);

const EMPTY: Node = Node {
    key: 0,
    end: 0,
    weight: 0,
    parent: NIL,
    left: NIL,
    right: NIL,
    prev: NIL,
    next: NIL,
};

/// Where `slot` belongs; equal positions go by slot.
fn key(file: u32, offset: u64, slot: u32) -> u128 {
    u128::from(file) << 96 | u128::from(offset) << 32 | u128::from(slot)
}

impl Node {
    fn file(&self) -> u32 {
        (self.key >> 96) as u32
    }

    fn offset(&self) -> u64 {
        (self.key >> 32) as u64
    }
}

/// The nodes of all trees of one scheduler.
pub(crate) struct Positions {
    nodes: Vec<Node>,
    random: u32,
    /// Nodes looked at: a cost that, unlike time, is the same in every run.
    #[cfg(test)]
    pub looks: std::cell::Cell<u64>,
}

/// One tree. Its nodes are in a [`Positions`].
#[derive(Clone, Copy)]
pub(crate) struct PositionTree {
    root: u32,
    count: u32,
    /// Longest range since the tree was last empty: how far before a position
    /// a range that reaches over it can begin.
    length_max: u64,
    /// The slot after the one last taken out: where a sweep goes on.
    near: u32,
}

/// How far from `near` a search looks before it descends from the root. A
/// sweep finds its next request there at once, but for one that came in
/// between, or a few that the last transfer reached over.
const NEAR_MAX: u32 = 4;

/// Where a child link is kept.
#[derive(Clone, Copy)]
enum Link {
    Root,
    Left(u32),
    Right(u32),
}

impl Positions {
    pub(crate) fn new() -> Positions {
        Positions {
            nodes: Vec::new(),
            random: 0x9e37_79b9,
            #[cfg(test)]
            looks: std::cell::Cell::new(0),
        }
    }

    /// Makes room for slots up to `slots`.
    pub(crate) fn grow(&mut self, slots: usize) {
        if self.nodes.len() < slots {
            self.nodes.resize(slots, EMPTY);
        }
    }

    /// The slot after `slot` in its tree, or [`NIL`].
    pub(crate) fn next(&self, slot: u32) -> u32 {
        self.nodes[slot as usize].next
    }

    /// The slot before `slot` in its tree, or [`NIL`].
    pub(crate) fn prev(&self, slot: u32) -> u32 {
        self.nodes[slot as usize].prev
    }

    fn node(&self, slot: u32) -> &Node {
        #[cfg(test)]
        self.looks.set(self.looks.get() + 1);
        &self.nodes[slot as usize]
    }

    fn node_mut(&mut self, slot: u32) -> &mut Node {
        &mut self.nodes[slot as usize]
    }

    /// xorshift32 (Marsaglia 2003): balance needs no better, and the same
    /// calls must give the same tree.
    fn weight(&mut self) -> u32 {
        let mut x = self.random;
        x ^= x << 13;
        x ^= x >> 17;
        x ^= x << 5;
        self.random = x;
        x
    }
}

impl PositionTree {
    pub(crate) const fn new() -> PositionTree {
        PositionTree {
            root: NIL,
            count: 0,
            length_max: 0,
            near: NIL,
        }
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.count == 0
    }

    /// Makes `slot`, which may be [`NIL`], the child at `link`.
    fn set(&mut self, nodes: &mut Positions, link: Link, slot: u32) {
        let parent = match link {
            Link::Root => {
                self.root = slot;
                NIL
            }
            Link::Left(parent) => {
                nodes.node_mut(parent).left = slot;
                parent
            }
            Link::Right(parent) => {
                nodes.node_mut(parent).right = slot;
                parent
            }
        };
        if slot != NIL {
            nodes.node_mut(slot).parent = parent;
        }
    }

    /// Adds `slot` with its range. It must be in no tree.
    pub(crate) fn insert(
        &mut self,
        nodes: &mut Positions,
        slot: u32,
        file: u32,
        offset: u64,
        end: u64,
    ) {
        let weight = nodes.weight();
        let key = key(file, offset, slot);
        *nodes.node_mut(slot) = Node {
            key,
            end,
            weight,
            ..EMPTY
        };
        self.length_max = self.length_max.max(end - offset);
        self.count += 1;

        let (mut link, mut at) = (Link::Root, self.root);
        let (mut prev, mut next) = (NIL, NIL);
        while at != NIL && nodes.node(at).weight >= weight {
            if key < nodes.node(at).key {
                next = at;
                link = Link::Left(at);
                at = nodes.node(at).left;
            } else {
                prev = at;
                link = Link::Right(at);
                at = nodes.node(at).right;
            }
        }
        self.set(nodes, link, slot);
        // Split the rest of the path into what lies left and right of `slot`.
        let (mut left, mut right) = (Link::Left(slot), Link::Right(slot));
        while at != NIL {
            if key < nodes.node(at).key {
                next = at;
                self.set(nodes, right, at);
                right = Link::Left(at);
                at = nodes.node(at).left;
            } else {
                prev = at;
                self.set(nodes, left, at);
                left = Link::Right(at);
                at = nodes.node(at).right;
            }
        }
        self.set(nodes, left, NIL);
        self.set(nodes, right, NIL);

        nodes.node_mut(slot).prev = prev;
        nodes.node_mut(slot).next = next;
        if prev != NIL {
            nodes.node_mut(prev).next = slot;
        }
        if next != NIL {
            nodes.node_mut(next).prev = slot;
        }
    }

    /// Takes `slot` out. It must be in this tree.
    pub(crate) fn remove(&mut self, nodes: &mut Positions, slot: u32) {
        let mut link = match nodes.node(slot).parent {
            NIL => Link::Root,
            parent if nodes.node(parent).left == slot => Link::Left(parent),
            parent => Link::Right(parent),
        };
        let Node {
            mut left,
            mut right,
            prev,
            next,
            ..
        } = *nodes.node(slot);
        loop {
            if left == NIL || right == NIL {
                self.set(nodes, link, if left == NIL { right } else { left });
                break;
            }
            if nodes.node(left).weight >= nodes.node(right).weight {
                self.set(nodes, link, left);
                link = Link::Right(left);
                left = nodes.node(left).right;
            } else {
                self.set(nodes, link, right);
                link = Link::Left(right);
                right = nodes.node(right).left;
            }
        }
        if prev != NIL {
            nodes.node_mut(prev).next = next;
        }
        if next != NIL {
            nodes.node_mut(next).prev = prev;
        }
        self.near = next;
        self.count -= 1;
        if self.count == 0 {
            self.length_max = 0;
        }
    }

    /// The first slot at or after a position, or [`NIL`].
    pub(crate) fn at_or_after(&self, nodes: &Positions, file: u32, offset: u64) -> u32 {
        let least = key(file, offset, 0);
        if let Some(found) = self.at_or_after_near(nodes, least) {
            return found;
        }
        let (mut at, mut found) = (self.root, NIL);
        while at != NIL {
            let node = nodes.node(at);
            if node.key >= least {
                found = at;
                at = node.left;
            } else {
                at = node.right;
            }
        }
        found
    }

    /// The first slot whose key is at least `least`, or [`NIL`], if a walk of
    /// a few steps from where the last one was taken out comes to it.
    fn at_or_after_near(&self, nodes: &Positions, least: u128) -> Option<u32> {
        if self.near == NIL {
            return None;
        }
        let mut at = self.near;
        let forward = nodes.node(at).key < least;
        for _ in 0..NEAR_MAX {
            let Node { prev, next, .. } = *nodes.node(at);
            let beside = if forward { next } else { prev };
            let reached = beside == NIL || (nodes.node(beside).key < least) != forward;
            if reached {
                return Some(if forward { beside } else { at });
            }
            at = beside;
        }
        None
    }

    /// The first slot of all, or [`NIL`].
    pub(crate) fn first(&self, nodes: &Positions) -> u32 {
        self.at_or_after(nodes, 0, 0)
    }

    /// A slot whose range overlaps `offset..end` of `file` and which `accept`
    /// takes. Costs one descent and a walk over the ranges that begin within
    /// the tree's longest range before `end`.
    pub(crate) fn overlapping(
        &self,
        nodes: &Positions,
        file: u32,
        offset: u64,
        end: u64,
        mut accept: impl FnMut(u32) -> bool,
    ) -> Option<u32> {
        let (mut at, mut last) = (self.root, NIL);
        let beyond = key(file, end, 0);
        while at != NIL {
            let node = nodes.node(at);
            if node.key < beyond {
                last = at;
                at = node.right;
            } else {
                at = node.left;
            }
        }
        while last != NIL {
            let node = nodes.node(last);
            if node.file() != file || node.offset() + self.length_max <= offset {
                return None;
            }
            if node.end > offset && accept(last) {
                return Some(last);
            }
            last = node.prev;
        }
        None
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;
    use std::collections::BTreeSet;

    fn in_order(tree: &PositionTree, nodes: &Positions) -> Vec<u32> {
        let mut slots = Vec::new();
        let mut at = tree.first(nodes);
        let mut before = NIL;
        while at != NIL {
            assert_eq!(nodes.prev(at), before);
            slots.push(at);
            before = at;
            at = nodes.next(at);
        }
        slots
    }

    const STEPS_MAX: usize = if cfg!(miri) { 100 } else { 300 };

    /// Miri takes a thousand times as long.
    const CASES: u32 = if cfg!(miri) { 3 } else { 256 };

    proptest! {
        #![proptest_config(iolane_testing::cases(CASES))]

        /// Against a sorted set: same order, same neighbours, same overlaps.
        #[test]
        fn behaves_as_a_sorted_set(
            steps in prop::collection::vec((0u32..64, 0u32..3, 0u64..200, 1u64..40), 1..STEPS_MAX)
        ) {
            let mut nodes = Positions::new();
            nodes.grow(64);
            let mut tree = PositionTree::new();
            let mut model: BTreeSet<(u32, u64, u32)> = BTreeSet::new();
            let mut ranges = [None::<(u32, u64, u64)>; 64];
            for (slot, file, offset, length) in steps {
                let mut searched = vec![(file, offset)];
                match ranges[slot as usize].take() {
                    Some((file, offset, end)) => {
                        tree.remove(&mut nodes, slot);
                        model.remove(&(file, offset, slot));
                        // As a sweep does.
                        searched.extend([(file, end), (file, offset)]);
                    }
                    None => {
                        tree.insert(&mut nodes, slot, file, offset, offset + length);
                        model.insert((file, offset, slot));
                        ranges[slot as usize] = Some((file, offset, offset + length));
                    }
                }
                let expected: Vec<u32> = model.iter().map(|&(_, _, slot)| slot).collect();
                prop_assert_eq!(in_order(&tree, &nodes), expected);
                for (file, offset) in searched {
                    let after = model.range((file, offset, 0)..).next().map_or(NIL, |&(_, _, s)| s);
                    prop_assert_eq!(tree.at_or_after(&nodes, file, offset), after);
                }
                let mut found: Vec<u32> = Vec::new();
                tree.overlapping(&nodes, file, offset, offset + length, |slot| {
                    found.push(slot);
                    false
                });
                found.sort_unstable();
                let overlapping: Vec<u32> = (0..64)
                    .filter(|&slot| ranges[slot as usize].is_some_and(|(f, start, end)| {
                        f == file && start < offset + length && end > offset
                    }))
                    .collect();
                prop_assert_eq!(found, overlapping);
            }
        }
    }
    /// Ranges that reach over the next one's start, and now and then a new one
    /// just ahead of the sweep and one behind it.
    #[test]
    fn a_sweep_descends_only_to_begin() {
        let count = if cfg!(miri) { 200 } else { 1000 };
        let mut nodes = Positions::new();
        nodes.grow(2 * count as usize);
        let mut tree = PositionTree::new();
        for slot in 0..count {
            let offset = 100 + u64::from(slot) * 4;
            tree.insert(&mut nodes, slot, 0, offset, offset + 6);
        }
        let (mut offset, mut taken) = (0, 0);
        loop {
            let found = tree.at_or_after(&nodes, 0, offset);
            if found == NIL {
                break;
            }
            let near = tree.at_or_after_near(&nodes, key(0, offset, 0));
            assert_eq!(near, (taken > 0).then_some(found));
            offset = nodes.node(found).end;
            tree.remove(&mut nodes, found);
            taken += 1;
            if taken % 20 == 0 {
                for (slot, offset) in [
                    (count + taken, offset + 1),
                    (count + 1 + taken, offset - 50),
                ] {
                    tree.insert(&mut nodes, slot, 0, offset, offset + 6);
                }
            }
        }
        assert!(
            taken > count / 2,
            "{taken} of {count}, every other one and the new ones"
        );
    }
}
