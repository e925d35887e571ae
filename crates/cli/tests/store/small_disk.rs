//! File systems that are full, and that may only be read: a real one, small.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use iolane_testing::{LoopDevice, skipped};

use crate::{Place, complaint};

const DISK_BYTES: u64 = 64 << 20;
/// A store that fits, with some rows.
const CREATE: [&str; 4] = ["--log-size", "8m", "--table", TABLE];
const TABLE: &str = "t(a integer, b text, primary key(a))";

/// An ext4 of its own, unmounted when dropped.
struct SmallDisk {
    directory: PathBuf,
    // After it is unmounted.
    _device: LoopDevice,
}

fn run(program: &str, arguments: &[&str]) -> Result<(), String> {
    let output = Command::new(program).args(arguments).output();
    let output = output.map_err(|error| format!("{program}: {error}"))?;
    let said = String::from_utf8_lossy(&output.stderr);
    let failed = || format!("{program}: {}", said.trim());
    output.status.success().then_some(()).ok_or_else(failed)
}

impl SmallDisk {
    fn mounted(at: &Path) -> Result<Self, String> {
        let device = LoopDevice::new(Path::new("/var/tmp"), DISK_BYTES)?;
        let name = device.path().to_str().expect("/dev/loopN").to_owned();
        // No share for root, who would not notice that it is full.
        run("mkfs.ext4", &["-q", "-m", "0", &name])?;
        fs::create_dir(at).map_err(|error| error.to_string())?;
        run("mount", &[&name, at.to_str().expect("plain letters")])?;
        Ok(Self {
            directory: at.to_owned(),
            _device: device,
        })
    }

    fn remount(&self, how: &str) {
        let at = self.directory.to_str().expect("plain letters");
        run("mount", &["-o", &format!("remount,{how}"), at]).unwrap();
    }

    fn names(&self) -> Vec<String> {
        let entries = fs::read_dir(&self.directory).unwrap();
        let names = entries.map(|entry| entry.unwrap().file_name().into_string().unwrap());
        names.filter(|name| name != "lost+found").collect()
    }
}

impl Drop for SmallDisk {
    fn drop(&mut self) {
        let at = self.directory.to_str().expect("plain letters");
        if let Err(error) = run("umount", &[at]) {
            eprintln!("{at} stays mounted: {error}");
        }
    }
}

fn rows(range: std::ops::Range<u32>) -> String {
    let row = |number| format!("{number},{}\n", "x".repeat(4000));
    "a,b\n".to_owned() + &range.map(row).collect::<String>()
}

fn create(place: &Place, store: &str) {
    place.good(&[&["create", store][..], &CREATE].concat());
}

#[test]
fn a_full_file_system_is_told_and_loses_nothing() {
    let place = Place::new();
    let disk = match SmallDisk::mounted(&place.path("disk")) {
        Ok(disk) => disk,
        Err(why) => return skipped(why),
    };
    create(&place, "disk/s");
    place.write("some.csv", &rows(0..1000));
    place.good(&["load", "disk/s", "t", "some.csv"]);
    let before = place.good(&["scan", "disk/s", "t"]);

    // More than there is room for, by both methods and into a copy.
    place.write("more.csv", &rows(1000..20_000));
    let load = [
        "load",
        "disk/s",
        "t",
        "more.csv",
        "--transaction-rows",
        "100",
    ];
    let said = place.bad(&load, 3);
    assert!(said.contains("no room for more pages"), "{said}");
    assert!(said.contains("Free some space"), "{said}");
    place.good(&["check", "disk/s"]);
    let after = place.good(&["scan", "disk/s", "t"]);
    assert!(after.starts_with(&before), "what was there is there");
    // The rows that got in are counted, and where to go on is told.
    let more = after.lines().count() - before.lines().count();
    assert!(more > 0 && more.is_multiple_of(100), "{more}");
    let counted = format!("\nLoaded before it: {more} rows, up to line {}. ", more + 1);
    assert!(said.contains(&counted), "{counted}: {said}");
    let copied = place.run(&["backup", "disk/s", "disk/copy"]);
    let said = complaint(&copied, copied.status.code().unwrap(), "backup");
    assert!(
        said.contains("No space left") || said.contains("no room"),
        "{said}"
    );
    assert!(said.contains("Free some space"), "{said}");
    assert_eq!(disk.names(), ["s"], "nothing is left of the copy");

    // Not even room to begin.
    let said = place.bad(&["create", "disk/new", "--log-size", "40m"], 2);
    assert!(said.contains("Free some space"), "{said}");
    assert_eq!(disk.names(), ["s"], "nothing is left of the attempt");
    place.good(&["backup", "disk/s", "copy"]);
    assert_eq!(place.good(&["scan", "copy", "t"]), after);
    fs::remove_dir_all(place.path("disk/s")).unwrap();
    place.good(&["create", "disk/new", "--log-size", "8m"]);
    place.good(&["check", "disk/new"]);
}

#[test]
fn a_read_only_file_system_is_told() {
    let place = Place::new();
    let disk = match SmallDisk::mounted(&place.path("disk")) {
        Ok(disk) => disk,
        Err(why) => return skipped(why),
    };
    create(&place, "disk/s");
    place.write("some.csv", &rows(0..100));
    place.good(&["load", "disk/s", "t", "some.csv"]);
    let before = place.good(&["scan", "disk/s", "t"]);
    disk.remount("ro");
    for arguments in [
        &["check", "disk/s"][..],
        &["scan", "disk/s", "t"],
        &["stats", "disk/s"],
        &["load", "disk/s", "t", "some.csv"],
        &["backup", "disk/s", "copy"],
        &["create", "disk/new"],
    ] {
        let said = place.bad(arguments, 2);
        assert!(
            said.contains("Read-only file system"),
            "{arguments:?}: {said}"
        );
        assert!(said.contains("may write to"), "{arguments:?}: {said}");
    }
    assert!(!place.path("copy").exists() && !place.path("copy.part").exists());
    disk.remount("rw");
    assert_eq!(place.good(&["scan", "disk/s", "t"]), before);
    place.good(&["backup", "disk/s", "copy"]);
    // From a store that may be read to where nothing may be written.
    disk.remount("ro");
    let said = place.bad(&["backup", "copy", "disk/again"], 2);
    assert!(said.contains("Read-only file system"), "{said}");
    assert_eq!(disk.names(), ["s"]);
    disk.remount("rw");
}
