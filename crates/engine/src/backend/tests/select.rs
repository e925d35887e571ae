//! Names, probing and the choice among backends.

use std::os::fd::AsRawFd;

use super::super::select::{open_with, try_open};
use super::*;
use crate::sys::fixture::Transfer;
use crate::sys::seccomp;

#[test]
fn names_round_trip() {
    for name in ["auto", "io_uring", "linux-aio", "threads"] {
        assert_eq!(
            name.parse::<BackendChoice>().expect("known").to_string(),
            name
        );
    }
    assert!("".parse::<BackendChoice>().is_err());
}

#[test]
fn capacity_is_bounded() {
    for capacity in [0, CAPACITY_MAX + 1] {
        let error = open(BackendChoice::Auto, capacity).err().expect("an error");
        assert_eq!(error, BackendError::Capacity { capacity });
    }
    let threads = BackendChoice::Only(BackendKind::Threads);
    assert!(open(threads, CAPACITY_MAX).is_ok());
}

#[test]
fn auto_goes_on_where_one_is_refused() {
    use BackendKind::{LinuxAio, Threads, Uring};
    let without = |refused: &'static [BackendKind]| {
        move |kind, capacity| {
            if refused.contains(&kind) {
                return Err(format!("no {kind} in this test"));
            }
            try_open(kind, capacity)
        }
    };
    for (refused, chosen) in [
        (&[][..], Uring),
        (&[Uring], LinuxAio),
        (&[Uring, LinuxAio], Threads),
    ] {
        let (backend, report) =
            open_with(BackendChoice::Auto, 8, without(refused)).expect("one works");
        assert_eq!((backend.kind(), report.chosen()), (chosen, chosen));
        assert!(report.refused().iter().map(|(kind, _)| kind).eq(refused));
        for kind in refused {
            assert!(
                report
                    .to_string()
                    .contains(&format!("no {kind} in this test"))
            );
        }
    }
    let all = &[Uring, LinuxAio, Threads];
    let error = open_with(BackendChoice::Auto, 8, without(all))
        .err()
        .expect("none works");
    assert!(matches!(error, BackendError::NoneUsable { refused } if refused.len() == 3));
    let only = BackendChoice::Only(LinuxAio);
    let error = open_with(only, 8, without(all))
        .err()
        .expect("it is refused");
    assert!(matches!(
        error,
        BackendError::Refused { kind: LinuxAio, .. }
    ));
}

/// What `auto` finds behind a filter, in a child process.
fn auto_behind_filter(test: &str, forbidden: &[libc::c_long], chosen: BackendKind) {
    const MARK: &str = "IOLANE_TEST_SECCOMP";
    if std::env::var_os(MARK).is_none() {
        child(&format!("backend::tests::select::{test}"), MARK);
        return;
    }
    seccomp::forbid(forbidden).expect("filter");
    let (mut backend, report) = open(BackendChoice::Auto, CAPACITY).expect("one works");
    assert_eq!(report.chosen(), chosen, "{report}");
    assert_eq!(report.refused().len(), forbidden.len(), "{report}");
    for (_, reason) in report.refused() {
        assert!(reason.contains("Operation not permitted"), "{reason}");
        assert!(reason.contains("a seccomp filter"), "{reason}");
    }
    let scratch = Scratch::new();
    let block = Transfer::filled(BLOCK, 4);
    let fd = scratch.buffered();
    let op = block.op(1, OpCode::Write, fd.as_raw_fd(), 0);
    assert_eq!(run(&mut *backend, op) as usize, BLOCK);
}

#[test]
fn auto_without_uring() {
    auto_behind_filter(
        "auto_without_uring",
        &[libc::SYS_io_uring_setup],
        BackendKind::LinuxAio,
    );
}

#[test]
fn auto_without_uring_and_aio() {
    auto_behind_filter(
        "auto_without_uring_and_aio",
        &[libc::SYS_io_uring_setup, libc::SYS_io_setup],
        BackendKind::Threads,
    );
}

/// Setting up is allowed here, and only use shows that it does not work.
#[test]
fn auto_probes_by_a_transfer() {
    const MARK: &str = "IOLANE_TEST_SECCOMP_ENTER";
    if std::env::var_os(MARK).is_none() {
        child("backend::tests::select::auto_probes_by_a_transfer", MARK);
        return;
    }
    seccomp::forbid(&[libc::SYS_io_uring_enter]).expect("filter");
    let (_, report) = open(BackendChoice::Auto, CAPACITY).expect("one works");
    assert_eq!(report.chosen(), BackendKind::LinuxAio, "{report}");
    assert_eq!(report.refused().len(), 1);
}
