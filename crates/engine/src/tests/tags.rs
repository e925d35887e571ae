//! Requests are counted by the tag of the handle that made them.

use super::{BLOCK, Rig, at};
use crate::{Level, Operation, Tag};

const LOG: Tag = Tag::new(0, 1);
const SCAN: Tag = Tag::new(3, 0);
const READ: Tag = Tag::new(15, 0);

#[test]
fn members_of_one_transfer_count_for_their_own_tags() {
    let rig = Rig::new(1, 100);
    let device = rig.file.device();
    let before = device.statistics();
    rig.control.hold();
    let first = rig.file.read(vec![0; BLOCK], at(100), Level::Normal);
    rig.control.wait_seen(1);
    let (scan, read) = (rig.file.tagged(SCAN), rig.file.tagged(READ));
    let mut batch = device.batch();
    let merged = [
        batch.read(&scan, vec![0; BLOCK], at(5), Level::Prefetch),
        batch.read(&scan, vec![0; BLOCK], at(6), Level::Prefetch),
        batch.read(&read, vec![0; BLOCK], at(7), Level::Prefetch),
    ];
    batch.submit();
    let now = device.outstanding().since(&device.outstanding());
    assert_eq!(now.all.count(), 4);
    assert_eq!(now.in_flight.count(), 1);
    assert_eq!(
        now.classes.each_ref().map(|class| class.count()),
        [3, 0, 0, 0]
    );
    rig.control.release();
    for pending in merged {
        pending.unwrap().wait().result.unwrap();
    }
    first.unwrap().wait().result.unwrap();
    assert_eq!(rig.control.seen().len(), 2, "{:?}", rig.control.seen());

    let done = device.statistics().since(&before);
    let of = |tag| done.tag(tag).levels[Level::Prefetch.index()].read.clone();
    assert_eq!((of(SCAN).requests, of(SCAN).bytes), (2, 2 * BLOCK as u64));
    assert_eq!((of(READ).requests, of(READ).bytes), (1, BLOCK as u64));
    assert_eq!((of(SCAN).merged, of(READ).merged), (2, 1));
    assert_eq!(of(SCAN).queued.count(), 2);
    assert_eq!(done.tag(LOG).total().read.requests, 0);
    assert_eq!(done.total().read.requests, 4);
    assert_eq!(done.class(0).count(), 0);
    assert!(done.class(0).times_ns()[3] > 0);
    assert_eq!(done.tag(SCAN).outstanding.times_ns().len(), 3);
}

#[test]
fn every_way_of_asking_carries_the_tag() {
    let rig = Rig::new(4, 100);
    let log = rig.file.tagged(LOG);
    let level = Level::Critical;
    log.write_at(&[1; BLOCK], 0, level).unwrap();
    log.read_at(&mut [0; BLOCK], 0, level).unwrap();
    log.sync_data(level).unwrap();
    let sync = log.clone().submit_sync(Operation::SyncAll, level).unwrap();
    sync.wait().result.unwrap();
    let (sender, receiver) = std::sync::mpsc::channel();
    log.write_then(vec![2; BLOCK], 0, level, move |done| {
        sender.send(done.result.is_ok()).unwrap();
    })
    .unwrap();
    assert!(receiver.recv().unwrap());
    rig.file.write_at(&[3; BLOCK], 0, level).unwrap();

    let statistics = rig.file.device().statistics();
    let total = statistics.tag(LOG).total();
    let counts = [&total.read, &total.write, &total.sync].map(|flow| flow.requests);
    assert_eq!(counts, [1, 2, 2]);
    assert_eq!(statistics.total().write.requests, 3);
    assert_eq!(statistics.class(LOG.class()).count(), 0);
}

#[test]
fn what_is_cancelled_is_no_longer_outstanding() {
    let rig = Rig::new(1, 100);
    rig.control.hold();
    let first = rig.file.read(vec![0; BLOCK], 0, Level::Normal).unwrap();
    rig.control.wait_seen(1);
    let scan = rig.file.tagged(SCAN);
    let queued = scan.read(vec![0; BLOCK], at(50), Level::Prefetch).unwrap();
    let count = || rig.file.device().outstanding().classes[0].count();
    assert_eq!(count(), 1);
    queued.cancel().unwrap();
    assert_eq!(count(), 0);
    rig.control.release();
    first.wait().result.unwrap();
    let scanned = rig.file.device().statistics().tag(SCAN).total();
    assert_eq!(scanned.read.requests, 0);
}
