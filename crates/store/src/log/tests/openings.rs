//! What an opening leaves in the log, and what it shuts out.

use super::*;
use std::collections::BTreeSet;

/// One unit of a disk's writes.
const UNIT: usize = 512;
/// The units that a few records need, at the beginning of the circle.
const UNITS: usize = 4;

/// What the disk has there.
fn units(place: &Place) -> Vec<u8> {
    let mut bytes = vec![0; UNITS * UNIT];
    place.bytes().read_exact_at(&mut bytes, CIRCLE).unwrap();
    bytes
}

/// Everything that power may leave when it fails during a write: some units
/// are `after` it, others as `before`.
fn torn<'a>(before: &'a [u8], after: &'a [u8]) -> impl Iterator<Item = Vec<u8>> + 'a {
    let written = (0..1u32 << UNITS).map(move |written| {
        let mut bytes = before.to_vec();
        for unit in (0..UNITS).filter(|unit| written >> unit & 1 == 1) {
            let range = unit * UNIT..(unit + 1) * UNIT;
            bytes[range.clone()].copy_from_slice(&after[range]);
        }
        bytes
    });
    let each: BTreeSet<_> = written.collect();
    each.into_iter()
}

/// Power fails twice, and after the first time the same is done once more, as
/// recovery does. What the log ended before at the first opening never follows
/// what is written then, whichever units of which write the disk has.
#[test]
fn what_an_opening_did_not_find_does_not_come_back_when_the_same_is_done_again() {
    // Zeros are what the end of a block is filled with, too.
    let again: [Vec<u8>; 3] = [payload(2, 40), payload(2, 500), vec![0; 600]];
    let mut counts = [0; 3];
    for again in again {
        let place = Place::new();
        let log = place.create(0);
        let (_, end) = append(&log, &payload(1, 300));
        log.make_durable(end).unwrap();
        // What stands behind it is of an earlier lap.
        let mut begin = units(&place);
        begin[end.0 as usize..].fill(0xa5);
        append(&log, &again);
        let (_, end) = append(&log, &payload(3, 900));
        log.make_durable(end).unwrap();
        drop(log);
        let first_life = units(&place);
        let file = place.bytes();
        let put = |bytes: &[u8]| file.write_all_at(bytes, CIRCLE).unwrap();
        let payloads = |found: Vec<(u64, Vec<u8>)>| -> Vec<Vec<u8>> {
            found.into_iter().map(|(_, payload)| payload).collect()
        };
        for first_cut in torn(&begin, &first_life) {
            put(&first_cut);
            let (log, found) = place.open();
            let found = payloads(found);
            let opened = units(&place);
            append(&log, &again);
            let (_, end) = append(&log, &payload(4, 200));
            log.make_durable(end).unwrap();
            drop(log);
            let second_life = units(&place);
            for second_cut in torn(&first_cut, &opened) {
                put(&second_cut);
                let now = payloads(place.open().1);
                let both = (found.len(), now.len());
                assert!(now == found, "{both:?} records");
                counts[0] += 1;
            }
            for second_cut in torn(&opened, &second_life) {
                put(&second_cut);
                let now = payloads(place.open().1);
                let mut may = found.clone();
                may.extend([again.clone(), payload(4, 200)]);
                let both = (found.len(), now.len());
                assert!(
                    now.len() >= found.len() && may.starts_with(&now),
                    "{both:?} records"
                );
                counts[1] += 1;
                counts[2] += usize::from(now.len() > found.len());
            }
        }
    }
    assert!(counts.iter().all(|&count| count > 50), "{counts:?}");
}

/// A program may fail again and again while it recovers from a full log.
#[test]
fn openings_that_nothing_follows_take_no_room() {
    let place = Place::new();
    let log = place.create(0);
    while log.pressure() < 0.99 {
        append(&log, &payload(5, 1000));
    }
    log.make_durable(log.end()).unwrap();
    let (end, count) = (log.end(), (log.end().0 / 1012) as usize);
    drop(log);
    let mut heads = BTreeSet::new();
    for _ in 0..300 {
        let (log, found) = place.open();
        assert_eq!((log.end(), found.len()), (behind_opening(end), count));
        let chain = log.lock().chain;
        heads.insert(chain);
    }
    assert!(heads.len() > 290, "{} different openings", heads.len());
}

/// It may reach into one where no record can be.
#[test]
fn an_opening_goes_into_a_block_that_cannot_be_read() {
    for rest in [HEAD, 20, OPENING] {
        let place = Place::new();
        let log = place.create(0);
        let (_, end) = append(&log, &payload(1, 2 * BLOCK as usize - HEAD - rest));
        log.make_durable(end).unwrap();
        drop(log);
        let behind = CIRCLE + 2 * BLOCK..CIRCLE + 3 * BLOCK;
        let (_engine, log, _) = unreadable(&place, std::slice::from_ref(&behind)).unwrap();
        assert_eq!(log.end(), behind_opening(end));
    }
}

/// It becomes one of this version before there is anything new in it.
#[test]
fn a_log_of_version_1_is_opened() {
    let place = Place::new();
    let log = place.create(0);
    let (_, end) = append(&log, &payload(1, 300));
    log.make_durable(end).unwrap();
    drop(log);
    let file = place.bytes();
    for block in 0..2 {
        let at = block * BLOCK_BYTES + 8;
        file.write_all_at(&1u32.to_le_bytes(), at).unwrap();
    }
    let (log, found) = place.open();
    assert_eq!(found.len(), 1);
    let bytes = std::fs::read(&place.path).unwrap();
    assert_eq!([bytes[8], bytes[BLOCK_BYTES as usize + 8]], [2, 2]);
    append(&log, &payload(2, 300));
    // Counted on from what was found.
    log.set_checkpoint(end).unwrap();
    log.make_durable(log.end()).unwrap();
    drop(log);
    assert_eq!(place.open().1.len(), 1);
}
