//! Pages that the disk gives back damaged, files that are foreign or full.

mod pages;

use iolane_store::access::{Pages, PagesError};
use iolane_store::ids::PageId;
use iolane_store::{DOUBLEWRITE_FILE, LOG_FILE, PageStore, PageStoreOptions, StoreError};
use pages::*;
use std::fs::OpenOptions;
use std::os::unix::fs::FileExt;
use std::path::Path;
use std::process::Command;

const PAGE: u64 = 4096;

/// Flips one bit in the page's second half.
fn damage(path: &Path, page: u32) {
    let file = OpenOptions::new()
        .read(true)
        .write(true)
        .open(path)
        .unwrap();
    let at = u64::from(page) * PAGE + 3000;
    let mut byte = [0];
    file.read_exact_at(&mut byte, at).unwrap();
    file.write_all_at(&[byte[0] ^ 0x10], at).unwrap();
    file.sync_all().unwrap();
}

/// A store with 60 pages, all of them in the last batches written, and more
/// than the pool holds before them. Returns the older and the newer pages.
fn filled(path: &Path, options: &PageStoreOptions) -> (Vec<PageId>, Vec<PageId>) {
    let store = create(path, options);
    let space = store.create_space("t").unwrap();
    let segment = store.create_segment(space).unwrap();
    let all: Vec<PageId> = (0..500)
        .map(|value| add(&store, segment, value).unwrap().0)
        .collect();
    store.close().unwrap();
    let (store, _) = open(path, options);
    let (old, new) = all.split_at(440);
    for pair in new.chunks(2) {
        update(&store, pair, |value| value + 1000).unwrap();
    }
    store.close().unwrap();
    (old.to_vec(), new.to_vec())
}

#[test]
fn a_torn_page_is_repaired_when_the_store_is_opened() {
    let directory = directory();
    let options = options();
    let (_, new) = filled(directory.path(), &options);
    let file = directory.path().join("t@1.ts");
    for id in &new[10..20] {
        damage(&file, id.page);
    }
    let (store, report) = open(directory.path(), &options);
    assert_eq!(report.restored, 10);
    for (value, &id) in (1440..).zip(&new) {
        assert_eq!(read(&store, id).unwrap(), value);
    }
    store.close().unwrap();
    let (_, report) = open(directory.path(), &options);
    assert_eq!(report.restored, 0);
}

/// Evicts everything else by reading many pages twice.
fn flood(store: &PageStore, ids: &[PageId]) {
    for _ in 0..3 {
        for &id in ids {
            read(store, id).unwrap();
        }
    }
}

#[test]
fn a_damaged_page_is_repaired_when_it_is_read() {
    let directory = directory();
    let options = options();
    let (old, new) = filled(directory.path(), &options);
    let (store, _) = open(directory.path(), &options);
    flood(&store, &old);
    let file = directory.path().join("t@1.ts");
    damage(&file, new[30].page);
    assert_eq!(read(&store, new[30]).unwrap(), 1470);
    // Also by those who read ahead.
    damage(&file, new[31].page);
    store.prefetch(&[new[31]], iolane_store::Role::Scan);
    assert_eq!(read(&store, new[31]).unwrap(), 1471);
    store.close().unwrap();
    // In the file too.
    let (_, report) = open(directory.path(), &options);
    assert_eq!(report.restored, 0);
}

#[test]
fn a_damaged_page_without_a_copy_is_named() {
    let directory = directory();
    let options = options();
    let (old, _) = filled(directory.path(), &options);
    let (store, _) = open(directory.path(), &options);
    damage(&directory.path().join("t@1.ts"), old[5].page);
    let free = store.statistics().pool.free;
    for ahead in [true, false] {
        if ahead {
            store.prefetch(&[old[5]], iolane_store::Role::Scan);
        }
        match read(&store, old[5]) {
            Err(PagesError::Unreadable { page, reason }) => {
                assert_eq!(page, old[5]);
                assert!(
                    reason.contains("t@1.ts") && reason.contains("checksum"),
                    "{reason}"
                );
            }
            other => panic!("{other:?}"),
        }
    }
    // One that was written to another's place.
    let file = OpenOptions::new()
        .read(true)
        .write(true)
        .open(directory.path().join("t@1.ts"))
        .unwrap();
    let mut page = vec![0; PAGE as usize];
    file.read_exact_at(&mut page, u64::from(old[7].page) * PAGE)
        .unwrap();
    file.write_all_at(&page, u64::from(old[6].page) * PAGE)
        .unwrap();
    let refused = read(&store, old[6]).unwrap_err().to_string();
    assert!(refused.contains("wrong place"), "{refused}");
    assert!(free - store.statistics().pool.free < 10);
    // All others can be had.
    flood(&store, &old[8..]);
    assert_eq!(read(&store, old[7]).unwrap(), 7);
}

#[test]
fn files_that_are_not_of_the_store_are_refused() {
    let directory = directory();
    let options = options();
    let [first, second] = ["first", "second"].map(|name| directory.path().join(name));
    filled(&first, &options);
    filled(&second, &options);
    let open_with = |name: &str, bytes: Option<&[u8]>| {
        let kept = std::fs::read(first.join(name)).unwrap();
        match bytes {
            Some(bytes) => std::fs::write(first.join(name), bytes).unwrap(),
            None => std::fs::remove_file(first.join(name)).unwrap(),
        }
        let refused = try_open(&first, &options).err();
        std::fs::write(first.join(name), kept).unwrap();
        refused.unwrap_or_else(|| panic!("{name} was accepted"))
    };
    for name in ["t@1.ts", "system.ts", DOUBLEWRITE_FILE, LOG_FILE] {
        let theirs = std::fs::read(second.join(name)).unwrap();
        let refused = open_with(name, Some(&theirs));
        assert!(
            matches!(refused, StoreError::OtherStore { .. }),
            "{refused}"
        );
        let zeros = vec![0; theirs.len()];
        let refused = open_with(name, Some(&zeros));
        // The tablespace's own pages may have copies; the rest has none.
        let told = matches!(
            refused,
            StoreError::Foreign { .. } | StoreError::Damaged { .. } | StoreError::Log { .. }
        );
        assert!(told, "{refused}");
        open_with(name, Some(b""));
        if name != "t@1.ts" {
            open_with(name, None);
        }
    }
    let mut newer = std::fs::read(first.join(DOUBLEWRITE_FILE)).unwrap();
    newer[12] = 99;
    let refused = open_with(DOUBLEWRITE_FILE, Some(&newer));
    assert!(matches!(refused, StoreError::Version { found: 99, .. }));
    let table = std::fs::read(first.join("t@1.ts")).unwrap();
    let refused = open_with("t@1.ts", Some(&table[..table.len() - 1]));
    assert!(matches!(refused, StoreError::Truncated { .. }), "{refused}");
    // Two files with one number.
    std::fs::copy(first.join("t@1.ts"), first.join("u@1.ts")).unwrap();
    let refused = try_open(&first, &options).err().unwrap();
    assert!(matches!(refused, StoreError::SpaceTwice { .. }));
    std::fs::remove_file(first.join("u@1.ts")).unwrap();
    try_open(&first, &options).unwrap();
}

/// A small file system of its own.
struct Volume {
    mounted: std::path::PathBuf,
    _device: iolane_testing::LoopDevice,
}

impl Volume {
    fn new(directory: &Path, bytes: u64) -> Result<Volume, String> {
        let device = iolane_testing::LoopDevice::new(directory, bytes)?;
        let mounted = directory.join("mounted");
        std::fs::create_dir(&mounted).unwrap();
        let run = |program: &str, args: &[&Path]| {
            let output = Command::new(program).args(args).output();
            let output = output.map_err(|error| format!("{program}: {error}"))?;
            if output.status.success() {
                return Ok(());
            }
            Err(String::from_utf8_lossy(&output.stderr).into_owned())
        };
        run("mkfs.ext4", &[Path::new("-q"), device.path()])?;
        run("mount", &[device.path(), &mounted])?;
        Ok(Volume {
            mounted,
            _device: device,
        })
    }
}

impl Drop for Volume {
    fn drop(&mut self) {
        let _ = Command::new("umount").arg(&self.mounted).status();
    }
}

#[test]
fn a_full_file_system_is_told_and_harms_nothing() {
    let directory = directory();
    let volume = match Volume::new(directory.path(), 24 << 20) {
        Ok(volume) => volume,
        Err(why) => return iolane_testing::skipped(why),
    };
    let path = volume.mounted.join("store");
    let options = options();
    let store = create(&path, &options);
    let space = store.create_space("t").unwrap();
    let segment = store.create_segment(space).unwrap();
    let mut ids = Vec::new();
    let reason = loop {
        match add(&store, segment, ids.len() as u64) {
            Ok((id, _)) => ids.push(id),
            Err(PagesError::NoSpace { reason, .. }) => break reason,
            Err(other) => panic!("{other}"),
        }
        assert!(ids.len() < 24 << 8, "more pages than the volume has");
    };
    assert!(reason.contains("No space left"), "{reason}");
    assert!(matches!(
        store.create_space("u"),
        Err(StoreError::Open(iolane::OpenError::Size { .. }))
    ));
    // Everything that is there can be read, changed and given back.
    for (value, &id) in (0..).zip(&ids) {
        assert_eq!(read(&store, id).unwrap(), value);
    }
    update(&store, &ids[..2], |value| value + 10).unwrap();
    let mut mini = store.begin(&[], 0).unwrap();
    iolane_store::access::MiniTransaction::free(&mut mini, segment, ids[9]);
    iolane_store::access::MiniTransaction::commit(mini);
    let (again, _) = add(&store, segment, 9).unwrap();
    assert_eq!(again, ids[9]);
    store.close().unwrap();
    let (store, _) = open(&path, &options);
    assert_eq!(read(&store, ids[0]).unwrap(), 10);
    assert_eq!(
        read(&store, ids[ids.len() - 1]).unwrap(),
        ids.len() as u64 - 1
    );
    store.close().unwrap();
}
