//! Each kind of damage that a tree can have is planted, and found where it is.

mod common;

use common::{Fixture, SMALL};
use iolane_store::ids::PageId;
use iolane_store::page::slotted::{Slotted, branch_record, leaf_record};
use iolane_store::page::{Op, header};
use iolane_store::tree::{TreeError, TreeFault};

fn key(number: u32) -> Vec<u8> {
    [&b"prefix-"[..], &[1; 300], &number.to_be_bytes()].concat()
}

/// Three levels.
fn grown() -> Fixture {
    let fixture = Fixture::new(SMALL);
    for number in 0..900 {
        fixture
            .tree
            .insert(&fixture.pages, &key(number), b"value")
            .unwrap();
    }
    assert!(fixture.tree.stats(&fixture.pages).unwrap().height >= 3);
    fixture.assert_in_order();
    fixture
}

/// A leaf in the middle, the leaf before it, and a branch of level 1.
fn places(fixture: &Fixture) -> (u32, u32, u32) {
    let report = fixture.tree.check(&fixture.pages).unwrap();
    let leaf = report.leaf_pages.len() / 2;
    let branch = report
        .branch_pages
        .iter()
        .copied()
        .filter(|&page| header::level(&fixture.pages.bytes(page)) == 1)
        .nth(1)
        .unwrap();
    (report.leaf_pages[leaf], report.leaf_pages[leaf - 1], branch)
}

/// Plants damage and expects the finding on that page alone, or among others
/// that follow from it.
fn found(
    plant: impl FnOnce(&Fixture, (u32, u32, u32)) -> u32,
    expected: impl Fn(&TreeFault) -> bool,
) {
    let fixture = grown();
    let page = plant(&fixture, places(&fixture));
    let report = fixture.tree.check(&fixture.pages).unwrap();
    let named = report
        .findings
        .iter()
        .any(|finding| finding.page.page == page && expected(&finding.fault));
    assert!(named, "page {page}: {:?}", report.findings);
}

fn apply(fixture: &Fixture, page: u32, op: &Op<'_>) {
    fixture.pages.damage(page, |bytes| {
        op.apply(bytes, PageId::new(1, page)).unwrap();
    });
}

#[test]
fn a_header_that_is_not_the_childs() {
    found(
        |fixture, (leaf, ..)| {
            fixture.pages.damage(leaf, |bytes| bytes[4] ^= 1);
            leaf
        },
        |fault| matches!(fault, TreeFault::Identity(_)),
    );
    found(
        |fixture, (leaf, ..)| {
            fixture.pages.damage(leaf, |bytes| bytes[13] = 1);
            leaf
        },
        |fault| {
            matches!(
                fault,
                TreeFault::Level {
                    level: 1,
                    expected: 0,
                    ..
                }
            )
        },
    );
    found(
        |fixture, (.., branch)| {
            fixture.pages.damage(branch, |bytes| bytes[12] = 6);
            branch
        },
        |fault| matches!(fault, TreeFault::Level { kind: 6, .. }),
    );
    found(
        |fixture, (leaf, ..)| {
            fixture.pages.damage(leaf, |bytes| bytes[24] ^= 1);
            leaf
        },
        |fault| matches!(fault, TreeFault::Owner(43)),
    );
}

#[test]
fn records_that_do_not_hold_together() {
    found(
        |fixture, (leaf, ..)| {
            fixture.pages.damage(leaf, |bytes| bytes[40] ^= 1);
            leaf
        },
        |fault| matches!(fault, TreeFault::Records(_)),
    );
    // The head of a separator.
    found(
        |fixture, (.., branch)| {
            fixture.pages.damage(branch, |bytes| bytes[64 + 8] ^= 0x40);
            branch
        },
        |fault| matches!(fault, TreeFault::Records(_)),
    );
}

#[test]
fn keys_outside_of_the_fences() {
    let mut record = Vec::new();
    found(
        |fixture, (leaf, before, _)| {
            let bytes = fixture.pages.bytes(before);
            leaf_record(Slotted::new(&bytes).key(0), b"", &mut record);
            apply(fixture, leaf, &Op::Remove { from: 0, to: 4 });
            apply(
                fixture,
                leaf,
                &Op::Insert {
                    slot: 0,
                    record: &record,
                },
            );
            leaf
        },
        |fault| matches!(fault, TreeFault::BelowFence),
    );
    let mut record = Vec::new();
    found(
        |fixture, (leaf, before, _)| {
            let bytes = fixture.pages.bytes(leaf);
            leaf_record(Slotted::new(&bytes).key(0), b"", &mut record);
            apply(fixture, before, &Op::Remove { from: 0, to: 4 });
            let bytes = fixture.pages.bytes(before);
            let slot = Slotted::new(&bytes).count() as u16;
            apply(
                fixture,
                before,
                &Op::Insert {
                    slot,
                    record: &record,
                },
            );
            before
        },
        |fault| matches!(fault, TreeFault::AboveFence),
    );
}

#[test]
fn branches_with_wrong_children() {
    let mut record = Vec::new();
    found(
        |fixture, (leaf, _, branch)| {
            let bytes = fixture.pages.bytes(branch);
            let slots = Slotted::new(&bytes);
            let at = slots.count() - 1;
            branch_record(slots.key(at), PageId::new(1, leaf), &mut record);
            let slot = at as u16;
            apply(
                fixture,
                branch,
                &Op::Replace {
                    slot,
                    record: &record,
                },
            );
            leaf
        },
        |fault| {
            matches!(
                fault,
                TreeFault::Twice | TreeFault::BelowFence | TreeFault::AboveFence
            )
        },
    );
    let mut record = Vec::new();
    found(
        |fixture, (leaf, ..)| {
            // The same child in two slots of one branch, the second empty of
            // keys of its own: only counting children tells.
            let report = fixture.tree.check(&fixture.pages).unwrap();
            let parent = report
                .branch_pages
                .iter()
                .copied()
                .find(|&page| {
                    let bytes = fixture.pages.bytes(page);
                    let slots = Slotted::new(&bytes);
                    header::level(&bytes) == 1
                        && (1..slots.count()).any(|slot| slots.child(slot).page == leaf)
                })
                .unwrap();
            let bytes = fixture.pages.bytes(leaf);
            let slots = Slotted::new(&bytes);
            let separator = [slots.key(slots.count() - 1), b"+"].concat();
            let bytes = fixture.pages.bytes(parent);
            let slot = Slotted::new(&bytes).search(&separator).unwrap_err() as u16;
            branch_record(&separator, PageId::new(1, leaf), &mut record);
            let count = Slotted::new(&bytes).count() as u16;
            if slot + 1 < count {
                apply(
                    fixture,
                    parent,
                    &Op::Remove {
                        from: count - 1,
                        to: count,
                    },
                );
            }
            apply(
                fixture,
                parent,
                &Op::Insert {
                    slot,
                    record: &record,
                },
            );
            leaf
        },
        |fault| matches!(fault, TreeFault::Twice),
    );
    let mut record = Vec::new();
    found(
        |fixture, (.., branch)| {
            let bytes = fixture.pages.bytes(branch);
            let child = Slotted::new(&bytes).child(0);
            branch_record(b"prefix-", child, &mut record);
            apply(
                fixture,
                branch,
                &Op::Replace {
                    slot: 0,
                    record: &record,
                },
            );
            branch
        },
        |fault| matches!(fault, TreeFault::FirstSeparator),
    );
    found(
        |fixture, (.., branch)| {
            let count = Slotted::new(&fixture.pages.bytes(branch)).count() as u16;
            apply(fixture, branch, &Op::Remove { from: 0, to: count });
            branch
        },
        |fault| matches!(fault, TreeFault::NoChild),
    );
}

#[test]
fn pages_that_cannot_be_had() {
    found(
        |fixture, (leaf, ..)| {
            fixture.pages.make_unreadable(leaf);
            leaf
        },
        |fault| matches!(fault, TreeFault::Unreadable(_)),
    );
    let mut record = Vec::new();
    found(
        |fixture, (.., branch)| {
            let bytes = fixture.pages.bytes(branch);
            let slots = Slotted::new(&bytes);
            branch_record(slots.key(1), PageId::new(1, 1 << 30), &mut record);
            apply(
                fixture,
                branch,
                &Op::Replace {
                    slot: 1,
                    record: &record,
                },
            );
            1 << 30
        },
        |fault| matches!(fault, TreeFault::Unreadable(_)),
    );
}

/// All damage is told in one go, and whoever meets it gets an error.
#[test]
fn two_damaged_pages_are_both_found_and_are_errors_to_readers() {
    let fixture = grown();
    let (leaf, before, _) = places(&fixture);
    let bytes = fixture.pages.bytes(leaf);
    let there = Slotted::new(&bytes).key(0).to_vec();
    for page in [leaf, before] {
        fixture.pages.damage(page, |bytes| bytes[24] ^= 1);
    }
    let report = fixture.tree.check(&fixture.pages).unwrap();
    let pages: Vec<u32> = report
        .findings
        .iter()
        .map(|finding| finding.page.page)
        .collect();
    assert_eq!(pages, [before, leaf]);
    let error = fixture.tree.get(&fixture.pages, &there, |_| ());
    assert!(matches!(error, Err(TreeError::Damaged { page, .. }) if page.page == leaf));
    let error = fixture.tree.put(&fixture.pages, &there, b"new");
    assert!(matches!(error, Err(TreeError::Damaged { page, .. }) if page.page == leaf));
}
