use super::*;
use crate::page::Op;
use proptest::prelude::*;
use std::collections::BTreeMap;

const PAGE: usize = 4096;
const ID: PageId = PageId::new(3, 77);

fn empty(kind: PageKind, level: u8) -> Vec<u8> {
    // What was there before must not show.
    let mut page = vec![0xaa; PAGE];
    let op = Op::Format {
        kind,
        level,
        owner: 9,
    };
    op.apply(&mut page, ID).unwrap();
    page
}

fn apply(page: &mut [u8], op: &Op<'_>) {
    op.apply(page, ID).unwrap();
    verify(page).unwrap();
}

fn put(page: &mut [u8], key: &[u8], value: &[u8]) -> bool {
    let mut record = Vec::new();
    leaf_record(key, value, &mut record);
    let slots = Slotted::new(page);
    let (found, old) = match slots.search(key) {
        Ok(slot) => (Ok(slot as u16), slots.record(slot).len()),
        Err(slot) => (Err(slot as u16), 0),
    };
    let fits = match found {
        Ok(_) => record.len() <= old + slots.free_bytes(),
        Err(_) => record.len() + SLOT_BYTES <= slots.free_bytes(),
    };
    let op = match found {
        Ok(slot) => Op::Replace {
            slot,
            record: &record,
        },
        Err(slot) => Op::Insert {
            slot,
            record: &record,
        },
    };
    let before = page.to_vec();
    match op.apply(page, ID) {
        Ok(()) => {
            assert!(fits);
            verify(page).unwrap();
            true
        }
        Err(_) => {
            assert!(!fits, "{} bytes did not fit", record.len());
            assert_eq!(page, before, "a refused change changed the page");
            false
        }
    }
}

fn pairs(page: &[u8]) -> Vec<(Vec<u8>, Vec<u8>)> {
    let slots = Slotted::new(page);
    (0..slots.count())
        .map(|slot| (slots.key(slot).to_vec(), slots.value(slot).to_vec()))
        .collect()
}

/// Keys that share prefixes, end within them, and contain zeros.
fn key() -> impl Strategy<Value = Vec<u8>> {
    let tail = proptest::collection::vec(prop_oneof![Just(0u8), Just(1), Just(255)], 0..7);
    let prefix = prop_oneof![Just(0usize), Just(3), Just(16), Just(20), Just(300)];
    (prefix, tail).prop_map(|(prefix, tail)| {
        let mut key = vec![b'p'; prefix];
        key.extend(tail);
        key
    })
}

proptest! {
    #![proptest_config(iolane_testing::cases(200))]

    #[test]
    fn a_leaf_does_what_a_map_does(
        steps in proptest::collection::vec((key(), 0usize..400, 0u8..5), 1..120),
    ) {
        let mut page = empty(PageKind::Leaf, 0);
        let mut model = BTreeMap::new();
        for (step, (key, length, what)) in steps.into_iter().enumerate() {
            if what == 0 {
                if let Ok(slot) = Slotted::new(&page).search(&key) {
                    let from = slot as u16;
                    apply(&mut page, &Op::Remove { from, to: from + 1 });
                    prop_assert!(model.remove(&key).is_some());
                } else {
                    prop_assert!(!model.contains_key(&key));
                }
            } else {
                let value = vec![step as u8; length];
                if put(&mut page, &key, &value) {
                    model.insert(key, value);
                }
            }
            let expected: Vec<_> = model.clone().into_iter().collect();
            prop_assert_eq!(pairs(&page), expected);
        }
    }

    #[test]
    fn a_search_finds_where_a_key_belongs(
        keys in proptest::collection::btree_set(key(), 0..40),
        others in proptest::collection::vec(key(), 20),
    ) {
        let keys: Vec<_> = keys.into_iter().collect();
        let mut page = empty(PageKind::Leaf, 0);
        let mut records = Vec::new();
        let mut fitting = 0;
        for key in &keys {
            let mut record = Vec::new();
            leaf_record(key, b"", &mut record);
            if records.len() + record.len() + 12 * (fitting + 1) > capacity(PAGE) {
                break;
            }
            records.extend((record.len() as u16).to_le_bytes());
            records.extend(&record);
            fitting += 1;
        }
        apply(&mut page, &Op::InsertMany { slot: 0, records: &records });
        for key in others.iter().chain(&keys) {
            prop_assert_eq!(Slotted::new(&page).search(key), keys[..fitting].binary_search(key));
        }
    }

    #[test]
    fn nothing_panics_on_garbage(
        mut page in proptest::collection::vec(any::<u8>(), PAGE),
        leaf in any::<bool>(),
        small in proptest::collection::vec(0u8..8, 16),
        record in proptest::collection::vec(any::<u8>(), 0..60),
        slot in 0u16..6,
    ) {
        page[12] = if leaf { 4 } else { 5 };
        // Numbers that are nearly right come further than random ones.
        page[32..48].copy_from_slice(&small);
        page[33] = 0;
        page[37] = 15;
        page[38..40].fill(0);
        page[41..44].fill(0);
        let ops = [
            Op::Insert { slot, record: &record },
            Op::InsertMany { slot, records: &record },
            Op::Replace { slot, record: &record },
            Op::Remove { from: slot / 2, to: slot },
        ];
        for op in ops {
            let mut copy = page.clone();
            if op.apply(&mut copy, ID).is_err() {
                prop_assert_eq!(&copy, &page);
            }
            let _ = verify(&copy);
            let _ = Slotted::new(&copy).search(&record);
        }
    }
}

#[test]
fn a_branch_has_no_head_for_its_first_key() {
    let mut page = empty(PageKind::Branch, 1);
    let mut record = Vec::new();
    for (slot, key) in [&b""[..], b"common-b", b"common-d"].into_iter().enumerate() {
        branch_record(key, PageId::new(3, slot as u32 + 1), &mut record);
        let slot = slot as u16;
        apply(
            &mut page,
            &Op::Insert {
                slot,
                record: &record,
            },
        );
    }
    assert_eq!(
        get_u16(&page, PREFIX),
        7,
        "the empty key counts for nothing"
    );
    let slots = Slotted::new(&page);
    for (key, at, before) in [
        (&b"a"[..], 0, 0),
        (b"common-b", 1, 0),
        (b"common-c", 1, 1),
        (b"common-d", 2, 1),
        (b"z", 2, 2),
    ] {
        assert_eq!(slots.child_slot_at(key), at);
        assert_eq!(slots.child_slot_before(key), before);
    }
    assert_eq!(slots.child(2), PageId::new(3, 3));
    // The second becomes the first: it is compared no longer.
    apply(&mut page, &Op::Remove { from: 0, to: 1 });
    assert_eq!(Slotted::new(&page).child_slot_at(b"a"), 0);
}

#[test]
fn four_of_the_longest_records_have_room() {
    for page_bytes in [4 << 10, 16 << 10, 64 << 10] {
        let mut page = vec![0; page_bytes];
        let op = Op::Format {
            kind: PageKind::Leaf,
            level: 0,
            owner: 1,
        };
        op.apply(&mut page, ID).unwrap();
        let mut record = Vec::new();
        for first in 0..RECORDS_MIN as u8 {
            let key = vec![first; key_bytes_max(page_bytes)];
            let value = vec![0; value_bytes_max(page_bytes, key.len())];
            leaf_record(&key, &value, &mut record);
            assert_eq!(record.len(), record_bytes_max(page_bytes));
            let slot = first.into();
            apply(
                &mut page,
                &Op::Insert {
                    slot,
                    record: &record,
                },
            );
        }
        assert!(Slotted::new(&page).free_bytes() < RECORDS_MIN);
    }
}

/// Each kind of damage is found, and named for what it is.
#[test]
fn damage_is_found() {
    let mut whole = empty(PageKind::Leaf, 0);
    for key in [b"key-aaaa1", b"key-bbbb2", b"key-cccc3"] {
        assert!(put(&mut whole, key, b"value"));
    }
    let span = Slotted::new(&whole).span(1);
    let damaged = |at: usize, byte: u8| {
        let mut page = whole.clone();
        assert_ne!(page[at], byte);
        page[at] = byte;
        verify(&page).unwrap_err()
    };
    assert_eq!(damaged(12, 6), SlottedFault::Kind);
    assert!(matches!(damaged(HOLES, 1), SlottedFault::Space(_)));
    assert!(matches!(damaged(COUNT + 1, 9), SlottedFault::Space(_)));
    assert!(matches!(
        damaged(span.start + 1, 1),
        SlottedFault::Record { slot: 1, .. }
    ));
    assert_eq!(
        damaged(span.start + 6, b'd'),
        SlottedFault::Order { slot: 2 }
    );
    assert_eq!(damaged(PREFIX, 3), SlottedFault::Head { slot: 0 });
    assert_eq!(damaged(PREFIX, 5), SlottedFault::Prefix(5));
    assert_eq!(
        damaged(BODY + SLOT_BYTES, b'c'),
        SlottedFault::Head { slot: 1 }
    );
}
