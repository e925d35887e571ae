//! Logical read-ahead: what was read ahead is used, and never shows where the file has
//! changed since, in whatever way.

use std::process::Command;

use crate::place::{iolane_run_ahead, on_disk, probe, report, scheduled, text};

const PROGRAM: &str = "probe_ahead";
/// Leaves that a scan of the probe reads before it changes the next: those were read ahead, or
/// nothing is tested.
const PAGES_MIN: u64 = 60;

/// Runs a way without and with read-ahead: the same is read. So many pages are read ahead at least.
fn compare(way: &str, seed: u32, pages_min: u64) {
    let (without, with, place) = (on_disk(), on_disk(), on_disk());
    let seed = seed.to_string();
    let alone = Command::new(probe(PROGRAM))
        .arg(way)
        .arg(without.path())
        .env("PROBE_SEED", &seed)
        .output()
        .unwrap();
    let to = place.path().join("report.json");
    let under = iolane_run_ahead(&to)
        .arg(probe(PROGRAM))
        .arg(way)
        .arg(with.path())
        .env("PROBE_SEED", &seed)
        .output()
        .unwrap();
    assert_eq!(text(&alone), text(&under), "{way}");
    let report = report(&to);
    if scheduled(&report) == 0 {
        iolane_testing::skipped("the build's directory lies on no disk: nothing is read ahead");
        return;
    }
    let pages = report["report"]["read_ahead"]["pages"].as_u64().unwrap();
    assert!(pages >= pages_min, "{pages} pages were read ahead");
}

macro_rules! ways {
    ($($name:ident)*) => {
        $(
            #[test]
            fn $name() {
                compare(stringify!($name), 1, PAGES_MIN);
            }
        )*
    };
}

ways! {
    pwrite pwritev no_wait write number aio buffered_beside posix_aio list_of_posix_aio aio_from_nowhere into_nowhere stdio other_descriptor duplicate mapped copied
    truncated punched zeroed other_process truncated_by_other inherited inherited_otherwise inherited_by_system inherited_by_popen
    inherited_by_vfork forked cloned sent reopened unlinked
}

/// Its child has the file, too, before anything is read of it: it is not read ahead.
#[test]
fn forked_early() {
    compare("forked_early", 1, 0);
}

/// Passes over the file beside two threads that write, each leaf as it was written last.
#[test]
fn random() {
    let seed = std::env::var("IOLANE_AHEAD_SEED").ok();
    let seed = seed.map_or(std::process::id(), |text| {
        text.parse().expect("a seed is a number")
    });
    println!("seed: {seed} (IOLANE_AHEAD_SEED)");
    compare("random", seed, PAGES_MIN);
}
