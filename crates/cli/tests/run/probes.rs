//! Calls and patterns with and without the library: the same results, errors and
//! contents.

use std::collections::BTreeMap;
use std::fs;
use std::os::unix::fs::MetadataExt;
use std::path::Path;
use std::process::Command;

use crate::place::{
    iolane_run_by, on_disk, on_older_kernel, probe, report, rings_probe, scheduled, text,
    without_calls,
};

/// What all files of a directory hold.
fn contents(directory: &Path) -> BTreeMap<String, Vec<u8>> {
    let entries = fs::read_dir(directory).unwrap().flatten();
    let name = |entry: &fs::DirEntry| entry.file_name().into_string().unwrap();
    entries
        .map(|entry| (name(&entry), fs::read(entry.path()).unwrap()))
        .collect()
}

/// What is asynchronous stands behind everything else: it has to wait.
pub const RULES: &str = "[[rule]]\nrole = 'asynchronous'\nasynchronous = true\nlevel = 'background'\n\
                     [[rule]]\nrole = 'others'\nlevel = 'foreground'\nsinks = true\npaced = true\n";

/// Runs a pattern both ways, and gives how many requests were scheduled.
fn compare(program: &str, pattern: &str) -> u64 {
    scheduled(&report_of(program, pattern))
}

/// Runs a pattern both ways, and gives the report.
fn report_of(program: &str, pattern: &str) -> serde_json::Value {
    report_of_program(&probe(program), pattern)
}

fn report_of_program(program: &Path, pattern: &str) -> serde_json::Value {
    report_of_run(program, pattern, |command| command)
}

fn report_of_run(
    program: &Path,
    pattern: &str,
    wrapped: impl FnOnce(Command) -> Command,
) -> serde_json::Value {
    let (without, with, place) = (on_disk(), on_disk(), on_disk());
    let alone = Command::new(program)
        .arg(pattern)
        .arg(without.path())
        .output()
        .unwrap();
    let to = place.path().join("report.json");
    let rules = place.path().join("rules.toml");
    fs::write(&rules, RULES).unwrap();
    let mut run = iolane_run_by(&rules, &to);
    run.arg(program).arg(pattern).arg(with.path());
    let under = wrapped(run).output().unwrap();
    assert_eq!(text(&alone), text(&under), "{pattern}");
    if pattern != "signals" {
        assert_eq!(contents(without.path()), contents(with.path()), "{pattern}");
    }
    let report = report(&to);
    let reclaimed_max = match pattern {
        // A jump may come at any moment, also while a place is being taken or given back.
        "jumped" => 8,
        // They end with requests under way.
        "exits" | "returns" | "calls" | "executes" => 100,
        _ => 0,
    };
    let reclaimed = report["report"]["reclaimed"].as_u64().unwrap();
    assert!(reclaimed <= reclaimed_max, "{pattern}: {report}");
    report
}

/// So many requests must have gone to the disk at the least, if there is one.
fn expect(scheduled: u64, scheduled_min: u64) {
    let number = fs::metadata(env!("CARGO_TARGET_TMPDIR")).unwrap().dev();
    let (major, minor) = (libc::major(number), libc::minor(number));
    if Path::new(&format!("/sys/dev/block/{major}:{minor}")).exists() {
        assert!(
            scheduled >= scheduled_min,
            "{scheduled} requests were scheduled"
        );
    } else {
        iolane_testing::skipped("the build's directory lies on no disk: nothing is scheduled");
    }
}

/// A test for each pattern; so many requests go to the disk at the least.
macro_rules! patterns {
    ($program:literal: $($name:ident $scheduled_min:literal)*) => {
        $(
            #[test]
            fn $name() {
                expect(compare($program, stringify!($name)), $scheduled_min);
            }
        )*
    };
}

mod calls {
    use super::*;
    patterns! { "probe":
        plain 2
        wrong 0
        direct 8
        large 33
        append 5
        descriptors 0
        passed 1
        forked 6
        cloned 1
        threads 128
        cancelled 20
        signals 300
        jumped 2000
        vforked 20
        confined 0
        sandboxed 0
        streams 50
        crowded 50
        interrupted 300
    }
}

mod linux_aio {
    use super::*;
    patterns! { "probe_aio":
        several 300
        closed 1
        destroyed 1
        mistaken 4
        many 64
        vectored 8
        crowded 9
        forked 200
        parted 64
        uncollected 96
        cancelled 150
        unshared 1
    }

    /// The kernel refuses what has waited: the program learns of it as of a request
    /// that fails.
    #[test]
    fn refused() {
        shows("refused", 60, "failed");
    }

    /// What its thread waits for is as urgent as a read of the thread's own.
    #[test]
    fn waited() {
        shows("waited", 260, "promoted");
    }

    /// A write that has a page locked on which a thread sleeps is as urgent as that thread.
    #[test]
    fn locked() {
        shows("locked", 250, "promoted");
    }

    /// So many requests are scheduled at least, and the report counts some of them in `field`.
    fn shows(pattern: &str, scheduled_min: u64, field: &str) {
        let report = report_of("probe_aio", pattern);
        expect(scheduled(&report), scheduled_min);
        assert!(
            scheduled(&report) == 0 || sum(&report, field) > 0,
            "{report}"
        );
    }

    /// Over all roles.
    fn sum(report: &serde_json::Value, field: &str) -> u64 {
        let disks = report["report"]["disks"].as_array().unwrap().iter();
        let roles = disks.flat_map(|disk| disk["roles"].as_array().unwrap());
        roles.map(|role| role[field].as_u64().unwrap()).sum()
    }
}

mod ends {
    use super::*;
    patterns! { "probe_ends":
        exits 1
        returns 1
        calls 1
        executes 1
        appended 32
        seen 32
    }
}

mod io_uring {
    use super::*;

    /// Runs a pattern both ways. So many requests must have been followed.
    fn compare(pattern: &str, followed_min: u64) {
        let Some(program) = rings_probe() else {
            return;
        };
        let report = report_of_program(&program, pattern);
        if scheduled(&report) > 0 {
            let followed = report["report"]["io_uring"]["followed"].as_u64().unwrap();
            assert!(followed >= followed_min, "{report}");
        } else {
            expect(0, followed_min);
        }
    }

    macro_rules! rings {
        ($($name:ident $followed_min:literal)*) => {
            $(
                #[test]
                fn $name() {
                    compare(stringify!($name), $followed_min);
                }
            )*
        };
    }

    rings! {
        transfers 452
        threads 1800
        mistaken 7
        ordered 20
        registered 2
        waits 512
        closed 190
        forked 1350
        vforked 900
        numbered 1
        renumbered 2
    }
}

/// What lies where no memory is.
mod nowhere {
    use super::*;
    patterns! { "probe_nowhere":
        messages 1
        blocks 20
    }

    /// Descriptors are looked for in messages.
    #[test]
    fn messages_beside_read_ahead() {
        report_of_run(&probe("probe_nowhere"), "messages", |command| {
            let mut ahead = Command::new(command.get_program());
            let mut arguments = command.get_args();
            ahead.args(arguments.next());
            ahead.args(["--read-ahead", "logical"]).args(arguments);
            ahead
        });
    }
}

mod gathered {
    use super::*;
    patterns! { "probe_gather":
        extents 520
        ends 515
        wrong 515
        shut 513
        renumbered 1100
        destroyed 513
        churned 1000
        told 512
        takers 513
    }
}

/// 512 pages that were submitted one by one.
#[test]
fn neighbours_are_read_together() {
    let (directory, place) = (on_disk(), on_disk());
    let rules = place.path().join("rules.toml");
    fs::write(&rules, RULES).unwrap();
    let to = place.path().join("report.json");
    let under = iolane_run_by(&rules, &to)
        .arg(probe("probe_gather"))
        .arg("extents")
        .arg(directory.path())
        .output()
        .unwrap();
    assert_eq!(text(&under), "0 of 512 pages wrong\n");
    let report = report(&to);
    if scheduled(&report) == 0 {
        iolane_testing::skipped("the build's directory lies on no disk: nothing is scheduled");
        return;
    }
    let disks = report["report"]["disks"].as_array().unwrap();
    let reads: Vec<_> = disks
        .iter()
        .flat_map(|disk| disk["roles"].as_array().unwrap())
        .filter(|role| role["role"] == "asynchronous")
        .collect();
    let sum = |field: &str| -> u64 { reads.iter().map(|role| role[field].as_u64().unwrap()).sum() };
    assert_eq!(sum("bytes"), 512 << 14, "{report}");
    assert!(sum("requests") <= 256, "{report}");
}

mod buffered {
    use super::*;
    patterns! { "probe_buffered":
        scan 1
        backwards 1
        scattered 300
        written 3
        bulk 100
        resynced 100
    }

    /// Where nobody else waits, what small reads in order need comes in few requests, soon.
    #[test]
    fn scans_in_small_reads_take_few_requests() {
        // Twice 4 MB in reads of 8 KiB, and syncs.
        let count = compare("probe_buffered", "scan");
        assert!(count <= 30, "{count}");
    }

    /// Where a filter that was there before `iolane run` forbids write-back, writes and syncs succeed as without.
    #[test]
    fn write_back_that_is_forbidden_is_no_error() {
        for pattern in ["bulk", "resynced"] {
            report_of_run(&probe("probe_buffered"), pattern, |command| {
                let call = libc::SYS_sync_file_range;
                without_calls(call, call, &command)
            });
        }
    }

    /// On kernels that do not say what the page cache has and what changed in it.
    mod on_an_older_kernel {
        use super::*;

        /// So many requests are scheduled: a read that the cache serves is none, and a sync
        /// is not preceded by the write-back of what is written back.
        fn compare(pattern: &str, expected: std::ops::Range<u64>) {
            let report = report_of_run(&probe("probe_buffered"), pattern, |command| {
                on_older_kernel(&command)
            });
            let count = scheduled(&report);
            expect(count, expected.start);
            assert!(count < expected.end, "{report}");
        }

        macro_rules! buffered {
            ($($name:ident $expected:expr)*) => {
                $(
                    #[test]
                    fn $name() {
                        compare(stringify!($name), $expected);
                    }
                )*
            };
        }

        buffered! {
            scan 1..200
            backwards 1..600
            scattered 300..600
            written 3..100
            bulk 100..700
            resynced 100..200
        }
    }
}
