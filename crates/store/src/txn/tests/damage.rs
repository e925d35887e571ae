//! Each kind of damage between trees is planted, and told by a check.

use super::super::version::{DELETED, RollPointer, Version};
use super::check::{Changer, impatient};
use super::*;
use crate::access::MiniTransaction;
use crate::attempt::in_mini;
use crate::check::CheckReport;
use crate::page::Op;
use crate::page::header::{self, PageKind};
use crate::table::Table;
use crate::tree::Tree;
use std::cell::{Cell, RefCell};

const ROWS: i64 = 40;

/// Damages a page.
type Plant = fn(&MemoryPages, u32);

struct Planted {
    system: System<TestPages>,
    table: Arc<Table>,
}

impl Planted {
    /// Rows in order, one of them with a long value.
    fn new() -> Planted {
        let (system, _) = Rig::new(small(7)).open_with(impatient());
        system.create_table(&schema()).unwrap();
        let mut one = Transaction::begin(&system);
        for id in 0..ROWS {
            let text = if id == 3 {
                "x".repeat(9000)
            } else {
                id.to_string()
            };
            one.insert("t", row(id, Some(id), "group", &text)).unwrap();
        }
        one.commit().unwrap();
        purge_all(&system);
        let table = system.catalog.table(&system.backing, "t").unwrap();
        Planted { system, table }
    }

    fn key(&self, id: i64) -> Vec<u8> {
        self.table.primary_key(&key(id)).unwrap()
    }

    /// The entry of a row with these columns in an index.
    fn entry(&self, index: usize, row: &Row) -> Vec<u8> {
        let bytes_max = Tree::key_bytes_max(&self.system.backing);
        let key = self.table.key_of(row, bytes_max).unwrap();
        let index = &self.table.indexes[index];
        self.table.entry(index, row, &key, bytes_max).unwrap()
    }

    fn version(&self, row: &Row) -> Version {
        Version {
            trx: 0,
            roll: RollPointer::NONE,
            flags: 0,
            payload: self.table.payload_of(row).unwrap(),
        }
    }

    fn put(&self, id: i64, value: &[u8]) {
        let rows = &self.table.rows;
        rows.put(&self.system.backing, &self.key(id), value)
            .unwrap();
    }

    /// The check tells each of these once, and nothing else; at rest, and beside
    /// changes of other rows.
    fn assert_found(self, expected: &[&str]) {
        self.assert_found_at_rest(expected);
        let changer = RefCell::new(Changer::new(&self.system, 1, 0..ROWS));
        for every in 1..6 {
            let asked = Cell::new(0_u64);
            let report = self.system.check(&|| {
                asked.set(asked.get() + 1);
                if asked.get().is_multiple_of(every) {
                    changer.borrow_mut().step();
                }
                true
            });
            assert_told(&report.unwrap(), expected);
        }
        assert!(changer.into_inner().changed > 0);
    }

    fn assert_found_at_rest(&self, expected: &[&str]) {
        assert_told(&self.system.check(&|| true).unwrap(), expected);
    }

    /// All segments of the table, and of undo.
    fn segments(&self) -> Vec<SegmentId> {
        let table = &self.table;
        let trees = table.indexes.iter().map(|index| &index.tree);
        let trees = trees.chain([&table.rows]);
        let segments = trees.flat_map(|tree| [tree.branch_segment, tree.leaf_segment]);
        let others = [table.long.segment, self.system.slots.segment()];
        segments.chain(others).collect()
    }

    /// A page that has another kind than any that is looked for.
    fn allocate(&self, segment: SegmentId) -> u32 {
        in_mini(&self.system.backing, &[segment], 1, |mini| {
            let page = mini.allocate(segment, None);
            let (kind, level, owner) = (PageKind::Leaf, 0, 12345);
            mini.apply(page, &Op::Format { kind, level, owner });
            Ok(page)
        })
        .map(|(page, _)| page.page)
        .unwrap()
    }

    fn free(&self, segment: SegmentId, page: u32) {
        in_mini(&self.system.backing, &[segment], 0, |mini| {
            mini.free(segment, PageId::new(segment.space, page));
            Ok(())
        })
        .unwrap();
    }
}

fn assert_told(report: &CheckReport, expected: &[&str]) {
    let found: Vec<String> = report.findings.iter().map(ToString::to_string).collect();
    for part in expected {
        let told = found.iter().filter(|finding| finding.contains(part));
        assert_eq!(told.count(), 1, "{part}: {found:#?}");
    }
    assert_eq!(found.len(), expected.len(), "{found:#?}");
}

#[test]
fn a_row_without_its_entry() {
    let planted = Planted::new();
    let entry = planted.entry(1, &row(5, Some(5), "group", "5"));
    let index = &planted.table.indexes[1];
    assert!(index.tree.remove(&planted.system.backing, &entry).unwrap());
    planted.assert_found(&["index by_group: row"]);
}

/// What a view still sees needs its entry too.
#[test]
fn an_old_version_without_its_entry() {
    let planted = Planted::new();
    let old = planted.entry(0, &row(5, Some(5), "group", "5"));
    let mut reader = Transaction::begin(&planted.system);
    assert!(reader.get("t", &key(5)).unwrap().is_some());
    let mut one = Transaction::begin(&planted.system);
    let new = row(5, Some(500), "group", "5");
    assert!(one.update("t", new).unwrap());
    one.commit().unwrap();
    planted.assert_found_at_rest(&[]);
    let tree = &planted.table.indexes[0].tree;
    assert!(tree.remove(&planted.system.backing, &old).unwrap());
    planted.assert_found_at_rest(&["index by_tag: row"]);
}

#[test]
fn an_entry_without_a_row_and_one_with_other_columns() {
    let planted = Planted::new();
    let strays = [row(ROWS - 1, Some(500), "", ""), row(5, Some(501), "", "")];
    let strays = strays.map(|stray| planted.entry(0, &stray));
    let mut one = Transaction::begin(&planted.system);
    assert!(one.delete("t", &key(ROWS - 1)).unwrap());
    one.commit().unwrap();
    purge_all(&planted.system);
    for stray in &strays {
        let tree = &planted.table.indexes[0].tree;
        tree.insert(&planted.system.backing, stray, &[]).unwrap();
    }
    let told = strays.map(|stray| format!("index by_tag: entry {stray:02x?} is no row's"));
    planted.assert_found(&[&told[0], &told[1]]);
}

#[test]
fn two_rows_with_the_columns_of_one() {
    let planted = Planted::new();
    let (before, twin) = (row(6, Some(6), "group", "6"), row(6, Some(5), "group", "6"));
    planted.put(6, &planted.version(&twin).encoded());
    let tree = &planted.table.indexes[0].tree;
    let pages = &planted.system.backing;
    assert!(tree.remove(pages, &planted.entry(0, &before)).unwrap());
    tree.insert(pages, &planted.entry(0, &twin), &[]).unwrap();
    planted.assert_found(&["is not the only one"]);
}

#[test]
fn a_deleted_row_that_nobody_purges() {
    for trx in [0, u64::MAX] {
        let planted = Planted::new();
        let gone = row(8, Some(8), "group", "8");
        let mut version = planted.version(&gone);
        version.trx = trx;
        version.flags = DELETED;
        version.payload.clear();
        planted.put(8, &version.encoded());
        for index in 0..2 {
            let entry = planted.entry(index, &gone);
            let tree = &planted.table.indexes[index].tree;
            assert!(tree.remove(&planted.system.backing, &entry).unwrap());
        }
        planted.assert_found(&["is deleted and will not go"]);
    }
}

#[test]
fn a_row_that_is_none() {
    let planted = Planted::new();
    planted.put(9, b"none");
    // Its entries lead to it.
    planted.assert_found(&["has no head", "index by_tag: ", "index by_group: "]);
}

#[test]
fn a_long_value_of_two_rows_or_of_none() {
    let planted = Planted::new();
    let long = planted.system.newest(&planted.table, &planted.key(3));
    let long = long.unwrap().unwrap();
    // All columns but the key are in the value.
    let tree = &planted.table.indexes[0].tree;
    let before = planted.entry(0, &row(4, Some(4), "group", "4"));
    assert!(tree.remove(&planted.system.backing, &before).unwrap());
    let now = planted.entry(0, &row(4, Some(3), "group", "4"));
    tree.insert(&planted.system.backing, &now, &[]).unwrap();
    planted.put(4, &long.encoded());
    planted.assert_found(&["are in use twice", "is not the only one"]);

    let planted = Planted::new();
    let short = row(3, Some(3), "group", "");
    planted.put(3, &planted.version(&short).encoded());
    planted.assert_found(&["nobody uses them"]);
}

#[test]
fn a_page_that_nobody_uses() {
    for position in 0..Planted::new().segments().len() {
        let planted = Planted::new();
        let segment = planted.segments()[position];
        let page = planted.allocate(segment);
        if position % 2 == 0 {
            // As if it was changed later than everything.
            let pages = &planted.system.backing.pages;
            pages.damage(page, |bytes| header::set_lsn(bytes, Lsn(u64::MAX)));
        }
        let told = format!("1 pages are segment {}'s and nobody uses", segment.number);
        planted.assert_found(&[&told]);
    }
}

#[test]
fn a_page_that_is_in_use_and_free() {
    for position in 0..Planted::new().segments().len() {
        let planted = Planted::new();
        let segment = planted.segments()[position];
        let Some(&page) = planted.system.backing.segment_pages(segment).last() else {
            continue;
        };
        planted.free(segment, page);
        let told = format!("1 pages are in use and not segment {}'s", segment.number);
        planted.assert_found_at_rest(&[&told]);
    }
}

#[test]
fn a_count_of_pages_that_is_wrong() {
    let planted = Planted::new();
    let count = |segments: &[SegmentId]| -> u64 {
        let pages = segments
            .iter()
            .map(|&it| planted.system.backing.segment_pages(it).len());
        pages.sum::<usize>() as u64
    };
    let catalogue = &planted.system.catalog.tree;
    let undo = planted.system.slots.segment();
    let right = count(&[catalogue.branch_segment, catalogue.leaf_segment, undo]);
    // All tables are in one tablespace here: it cannot be right for both.
    planted
        .system
        .backing
        .in_use
        .store(right, Ordering::Relaxed);
    let known = count(&planted.segments()) - count(&[undo]);
    let told = format!("{right} pages are in use, {known} of them in known segments");
    planted.assert_found_at_rest(&[&told]);
    planted
        .system
        .backing
        .in_use
        .store(right + 1, Ordering::Relaxed);
    let undo = format!("{} pages are in use, {right} of them", right + 1);
    let told = format!("{} pages are in use, {known} of them", right + 1);
    planted.assert_found_at_rest(&[&undo, &told]);
}

#[test]
fn a_tree_whose_page_is_anothers_or_cannot_be_read() {
    for (told, plant) in [
        (
            "it belongs to",
            (|pages, root| pages.damage(root, |bytes| bytes[24] ^= 1)) as Plant,
        ),
        ("cannot be read", |pages, root| pages.make_unreadable(root)),
    ] {
        let planted = Planted::new();
        let root = planted.table.indexes[1].tree.root;
        plant(&planted.system.backing.pages, root.page);
        let report = planted.system.check(&|| true).unwrap();
        let found = report.findings[0].to_string();
        let place = format!("table t, index by_group: {root}: ");
        assert!(found.starts_with(&place) && found.contains(told), "{found}");
    }
}

#[test]
fn a_version_of_a_transaction_that_never_was() {
    let planted = Planted::new();
    let mut version = planted.version(&row(5, Some(5), "group", "5"));
    version.trx = u64::MAX;
    version.roll = RollPointer::new(1, 64);
    planted.put(5, &version.encoded());
    planted.assert_found(&["table t, row"]);
}

#[test]
fn a_stream_of_undo_that_does_not_end_where_its_header_says() {
    // The offset of the tail, up and down, and the page behind the last.
    for (places, told) in [
        ([84_usize, 1], "it ends at"),
        ([84, u8::MAX as usize], "it ends at"),
        ([32, 0], "comes twice"),
    ] {
        let planted = Planted::new();
        let system = &planted.system;
        let mut one = Transaction::begin(system);
        assert!(one.delete("t", &key(9)).unwrap());
        let header = system.master.read(&system.backing).unwrap().slots[0].page;
        let pages = &system.backing.pages;
        let says = pages.bytes(header);
        let tail = u32::from_le_bytes(says[80..84].try_into().unwrap());
        let [at, more] = places;
        if at == 32 {
            pages.damage(tail, |bytes| {
                bytes[32..36].copy_from_slice(&tail.to_le_bytes())
            });
        } else {
            // One more than its last record, or that one less.
            let offset = says[at];
            pages.damage(header, |bytes| bytes[at] = offset.wrapping_add(more as u8));
        }
        let report = system.check(&|| true).unwrap();
        let found: Vec<String> = report.findings.iter().map(ToString::to_string).collect();
        let any = found
            .iter()
            .any(|it| it.starts_with("undo slot 0: ") && it.contains(told));
        assert!(any, "{told}: {found:#?}");
        std::mem::forget(one);
    }
}
