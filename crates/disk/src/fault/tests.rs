//! What each fault does to the contents of a medium.

use super::*;
use crate::medium::{Medium, MemoryMedium};
use std::io;
use std::sync::Arc;

const SIZE: u64 = 1 << 20;
const LENGTH: usize = 16384;

struct Rig {
    medium: FaultyMedium,
    /// The same medium without faults.
    inner: Arc<MemoryMedium>,
    faults: Arc<Faults>,
}

/// Filled with ones.
fn rig(plan: &str) -> Rig {
    let inner = Arc::new(MemoryMedium::new(SIZE));
    inner.write(0, &vec![1; SIZE as usize]).unwrap();
    let faults = Arc::new(Faults::new(plan.parse().unwrap()).unwrap());
    Rig {
        medium: FaultyMedium::new(Arc::clone(&inner) as Arc<dyn Medium>, Arc::clone(&faults)),
        inner,
        faults,
    }
}

impl Rig {
    fn contents(&self) -> Vec<u8> {
        let mut all = vec![0; SIZE as usize];
        assert_eq!(self.inner.read(0, &mut all).unwrap(), all.len());
        all
    }

    fn twos(&self) -> usize {
        self.contents().iter().filter(|byte| **byte == 2).count()
    }

    fn write_twos(&self, offset: u64) -> io::Result<usize> {
        self.medium.write(offset, &[2; LENGTH])
    }
}

fn errno<T: std::fmt::Debug>(result: io::Result<T>) -> Option<i32> {
    result.unwrap_err().raw_os_error()
}

#[test]
fn errors_reach_the_caller_and_nothing_arrives() {
    let rig = rig("eio-read=#1,eio-write=#2,eio-sync=#3,enospc=#4");
    assert_eq!(errno(rig.medium.read(0, &mut [0; 512])), Some(5));
    assert_eq!(errno(rig.write_twos(0)), Some(5));
    assert_eq!(errno(rig.medium.sync()), Some(5));
    assert_eq!(errno(rig.write_twos(0)), Some(28));
    assert_eq!(rig.twos(), 0);
    assert_eq!(rig.write_twos(0).unwrap(), LENGTH);
    rig.medium.sync().unwrap();
    assert_eq!(rig.twos(), LENGTH);
}

#[test]
fn short_transfers_say_how_short() {
    let rig = rig("short=1,seed=2");
    let mut seen = std::collections::HashSet::new();
    for round in 0..50 {
        let offset = round % 10 * LENGTH as u64;
        let bytes = rig.write_twos(offset).unwrap();
        assert!(bytes < LENGTH && bytes > 0 && bytes.is_multiple_of(512));
        seen.insert(bytes);
        let mut memory = [0; LENGTH];
        let bytes = rig.medium.read(offset, &mut memory).unwrap();
        assert!(bytes < LENGTH && bytes > 0);
        assert!(memory[bytes..].iter().all(|byte| *byte == 0));
    }
    assert!(seen.len() > 10, "{seen:?}");
}

#[test]
fn torn_writes_leave_old_units() {
    for (unit, plan) in [(512, "torn=512:1,seed=4"), (4096, "torn=4k:1,seed=4")] {
        let mut arrived = std::collections::HashSet::new();
        let rig = rig(plan);
        for number in 0..60u64 {
            assert_eq!(rig.write_twos(number * LENGTH as u64).unwrap(), LENGTH);
        }
        let contents = rig.contents();
        for write in contents[..60 * LENGTH].chunks(LENGTH) {
            let units: Vec<u8> = write.chunks(unit).map(|unit| unit[0]).collect();
            for chunk in write.chunks(unit) {
                assert!(chunk.iter().all(|byte| *byte == chunk[0]));
            }
            assert!(units.contains(&1), "a torn write has lost something");
            arrived.insert(units);
        }
        assert_eq!(rig.faults.log().total, 60);
        assert!(arrived.len() > 5, "{arrived:?}");
    }
}

#[test]
fn what_shows_after_a_power_cut_is_there_before_it() {
    for plan in ["torn=4k:#1:power-cut,seed=5", "lost=#1:power-cut"] {
        let rig = rig(plan);
        rig.write_twos(8192).unwrap();
        assert_eq!(rig.twos(), LENGTH, "{plan}");
        let reverted = rig.medium.power_cut().unwrap();
        assert_eq!(rig.twos(), LENGTH - reverted as usize, "{plan}");
        assert!(reverted >= 4096, "{plan}");
        assert_eq!(rig.medium.power_cut().unwrap(), 0);
    }
}

#[test]
fn a_sync_or_a_later_write_heals_what_only_the_cache_had() {
    let synced = rig("lost=#1:power-cut");
    synced.write_twos(0).unwrap();
    synced.medium.sync().unwrap();
    assert_eq!(synced.medium.power_cut().unwrap(), 0);
    assert_eq!(synced.twos(), LENGTH);

    // A sync that was lost heals nothing.
    let lied_to = rig("lost=#1:power-cut,lost-sync=#2");
    lied_to.write_twos(0).unwrap();
    lied_to.medium.sync().unwrap();
    assert_eq!(lied_to.medium.power_cut().unwrap(), LENGTH as u64);
    assert_eq!(lied_to.twos(), 0);

    let overwritten = rig("lost=#1:power-cut");
    overwritten.write_twos(0).unwrap();
    overwritten.medium.write(4096, &[3; 4096]).unwrap();
    assert_eq!(
        overwritten.medium.power_cut().unwrap(),
        LENGTH as u64 - 4096
    );
    let contents = overwritten.contents();
    assert!(contents[..4096].iter().all(|byte| *byte == 1));
    assert!(contents[4096..8192].iter().all(|byte| *byte == 3));
    assert!(contents[8192..LENGTH].iter().all(|byte| *byte == 1));
}

#[test]
fn a_second_lost_write_brings_back_what_was_before_the_first() {
    let rig = rig("lost=1:power-cut");
    rig.write_twos(0).unwrap();
    rig.medium.write(512, &[3; 4096]).unwrap();
    rig.medium.power_cut().unwrap();
    assert!(rig.contents().iter().all(|byte| *byte == 1));
}

/// Only what replaced the content takes away what a power cut brings back.
#[test]
fn a_write_that_failed_heals_nothing() {
    for second in ["eio-write=#2", "lost=#2", "misdirected=#2"] {
        let rig = rig(&format!("lost=#1:power-cut,{second},seed=1"));
        rig.write_twos(0).unwrap();
        let _ = rig.medium.write(0, &[3; LENGTH]);
        assert_eq!(rig.medium.power_cut().unwrap(), LENGTH as u64, "{second}");
        assert_eq!(rig.twos(), 0, "{second}");
    }
}

#[test]
fn misdirected_writes_spare_their_own_place() {
    let rig = rig("misdirected=1,seed=6");
    rig.write_twos(65536).unwrap();
    let contents = rig.contents();
    assert_eq!(rig.twos(), LENGTH);
    let at = contents.iter().position(|byte| *byte == 2).unwrap();
    assert!(at.is_multiple_of(4096) && at != 65536);
}

#[test]
fn a_flipped_bit_is_gone_or_stays() {
    let read = |rig: &Rig| {
        let mut memory = [0; LENGTH];
        rig.medium.read(0, &mut memory).unwrap();
        let wrong: u32 = memory.iter().map(|byte| (byte ^ 1).count_ones()).sum();
        wrong
    };
    let on_read = rig("flip-read=#1");
    assert_eq!([read(&on_read), read(&on_read)], [1, 0]);
    let at_rest = rig("flip=#1");
    assert_eq!([read(&at_rest), read(&at_rest)], [1, 1]);
    let line = at_rest.faults.log().to_string();
    assert!(line.contains("flipped on the medium"), "{line}");
}

#[test]
fn stalls_are_the_callers_to_take() {
    let rig = rig("stall=2ms:1,stall=3ms:#1");
    let operation = rig.medium.begin(Access::Write, 0, 512);
    assert_eq!(operation.stall_ns(), 5_000_000);
    assert_eq!(rig.medium.write_as(&operation, 0, &[2; 512]).unwrap(), 512);
    assert_eq!(rig.twos(), 512);
}

/// Threads share the count; each operation is decided by its number.
#[test]
fn threads_meet_the_faults_of_their_operations() {
    let rig = rig("lost=0.5,seed=1");
    std::thread::scope(|scope| {
        for thread in 0..4u64 {
            let medium = &rig.medium;
            scope.spawn(move || {
                for number in 0..100 {
                    medium
                        .write((thread * 100 + number) * 512, &[2; 512])
                        .unwrap();
                }
            });
        }
    });
    let lost = rig.faults.log().total as usize;
    assert_eq!(rig.twos(), (400 - lost) * 512);
    let again = Faults::new(rig.faults.plan().clone()).unwrap();
    for _ in 0..400 {
        again.begin(Access::Write, 0, 512, SIZE);
    }
    assert_eq!(again.log().total as usize, lost);
}
