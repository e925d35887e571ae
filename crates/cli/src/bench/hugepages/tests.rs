use std::sync::atomic::{AtomicBool, Ordering};

use super::*;

fn small(dir: &tempfile::TempDir) -> HugepagesOptions {
    HugepagesOptions {
        cache_bytes: 8 << 20,
        lookups: 2_000,
        reads: 50,
        direct_reads: 5,
        repeats: 3,
        processes: 2,
        scratch_dir: dir.path().to_owned(),
        scratch_bytes: 1 << 20,
        ..HugepagesOptions::default()
    }
}

fn measured(result: &HugepagesResult, pages: Pages) -> &Measured {
    let kind = result.kinds.iter().find(|kind| kind.pages == pages);
    match &kind.unwrap().outcome {
        Outcome::Measured(measured) => measured,
        Outcome::Skipped(skip) => panic!("{pages:?} was skipped: {skip:?}"),
    }
}

#[test]
fn plain_pages_are_measured_and_the_rest_measured_or_explained() {
    let dir = tempfile::tempdir().unwrap();
    let mut seen = Vec::new();
    let mut progress = |done| seen.push(done);
    let options = small(&dir);
    let result = run(&options, &mut progress, &AtomicBool::new(false)).unwrap();

    assert_eq!(result.cache_bytes, 8 << 20);
    assert_eq!(result.kinds.len(), 4);
    let plain = measured(&result, Pages::Plain);
    assert_eq!(plain.huge_bytes, Some(0));
    assert_eq!(plain.lookup_ns.samples.len(), 3);
    assert!(plain.lookup_ns.min > 0.0 && plain.buffered_read.cpu_ns.min > 0.0);
    assert!(plain.direct_read.is_none());
    // One entry of 8 bytes for each base page, at least. Of this process
    // itself nothing can be said: other tests map and unmap meanwhile.
    let entries_bytes = (8 << 20) / result.base_page_bytes * 8;
    let ProcessTables::Measured {
        per_process_bytes, ..
    } = &plain.process_tables
    else {
        panic!("{plain:?}");
    };
    assert_eq!(per_process_bytes.len(), 2);
    assert!(
        per_process_bytes
            .iter()
            .all(|bytes| *bytes >= entries_bytes)
    );

    let Outcome::Skipped(skip) = &result.kinds[3].outcome else {
        panic!("8 MiB cannot stand on a page of 1 GiB");
    };
    assert!(!skip.remedy.is_empty());
    assert!(seen.is_sorted() && *seen.last().unwrap() == 1.0, "{seen:?}");
    let left = dir.path().read_dir().unwrap().count();
    assert_eq!(left, 0, "the scratch file is gone");
    let json = serde_json::to_value(&result).unwrap();
    assert_eq!(json["kinds"][0]["outcome"]["outcome"], "measured");
    assert_eq!(json["kinds"][3]["pages"], "huge_1gib");
}

#[test]
fn a_direct_file_is_read() {
    let dir = tempfile::tempdir_in("/var/tmp").unwrap();
    let path = dir.path().join("data");
    std::fs::write(&path, vec![1u8; 1 << 20]).unwrap();
    let mut options = small(&dir);
    options.direct_path = Some(path.clone());
    let stop = AtomicBool::new(false);
    match run(&options, &mut |_| (), &stop) {
        Ok(result) => {
            let cost = measured(&result, Pages::Plain).direct_read.as_ref();
            assert!(cost.unwrap().reads_per_s.min > 0.0);
        }
        // A file system without direct I/O, tmpfs before Linux 6.6.
        Err(HugepagesError::File { source, .. }) => {
            assert_eq!(source.raw_os_error(), Some(libc::EINVAL));
        }
        Err(other) => panic!("{other}"),
    }
    std::fs::write(&path, "short").unwrap();
    let refused = run(&options, &mut |_| (), &stop).unwrap_err();
    let HugepagesError::DirectTooSmall { bytes, .. } = refused else {
        panic!("{refused}");
    };
    assert_eq!(bytes, 5);
}

#[test]
fn a_raised_flag_stops_it_at_any_point() {
    let dir = tempfile::tempdir().unwrap();
    let stop = AtomicBool::new(false);
    for after in [0, 1, 5, 12] {
        let mut steps = 0;
        let mut progress = |_| {
            steps += 1;
            stop.store(steps >= after, Ordering::Relaxed);
        };
        stop.store(after == 0, Ordering::Relaxed);
        let ended = run(&small(&dir), &mut progress, &stop);
        assert!(matches!(ended, Err(HugepagesError::Stopped)));
        assert!(steps <= after + 1, "{steps} steps after a stop at {after}");
    }
}

#[test]
fn options_out_of_range_are_refused() {
    let dir = tempfile::tempdir().unwrap();
    let good = small(&dir);
    let bad = [
        HugepagesOptions {
            cache_bytes: 1 << 20,
            ..good.clone()
        },
        HugepagesOptions {
            lookups: 0,
            ..good.clone()
        },
        HugepagesOptions {
            reads: 0,
            ..good.clone()
        },
        HugepagesOptions {
            repeats: 0,
            ..good.clone()
        },
        HugepagesOptions {
            processes: PROCESSES_MAX + 1,
            ..good
        },
    ];
    for options in bad {
        let refused = run(&options, &mut |_| (), &AtomicBool::new(false)).unwrap_err();
        assert!(
            matches!(refused, HugepagesError::Option { .. }),
            "{refused}"
        );
    }
}
