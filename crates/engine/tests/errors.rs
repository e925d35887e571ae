//! Bad requests, bad files, full filesystems, ends of files.

mod common;

use common::{BACKENDS, PAGE, engine, folder, numbered, open};
use iolane::{Alignee, Buffer, Cause, Engine, Level, OpenError, OpenOptions, Policy};
use std::path::Path;
use std::process::Command;

const LEVEL: Level = Level::Normal;

#[test]
fn reads_stop_at_the_end_of_the_file() {
    for backend in BACKENDS {
        let Some(engine) = engine(backend, Policy::Lanes) else {
            continue;
        };
        let folder = folder();
        let path = folder.path().join("odd");
        std::fs::write(&path, vec![5; 4096 + 700]).unwrap();
        for direct in [false, true] {
            let file = open(&engine, &path, direct);
            let mut buffer = Buffer::new(PAGE);
            let case = format!("{backend}, direct {direct}");
            assert_eq!(file.read_at(&mut buffer, 0, LEVEL).unwrap(), 4796, "{case}");
            assert_eq!(
                file.read_at(&mut buffer, 4096, LEVEL).unwrap(),
                700,
                "{case}"
            );
            assert_eq!(file.read_at(&mut buffer, 8192, LEVEL).unwrap(), 0, "{case}");
            let pending = file.read(Buffer::new(PAGE), 0, LEVEL).unwrap().wait();
            assert_eq!(pending.result.unwrap(), 4796, "{case}");
            assert!(
                pending.buffer[..4796].iter().all(|&byte| byte == 5),
                "{case}"
            );
            // Merged, the end inside the second, the third behind it.
            let mut batch = file.device().batch();
            let merged: Vec<_> = (0..3)
                .map(|n| {
                    batch
                        .read(&file, Buffer::new(4096), n * 4096, LEVEL)
                        .unwrap()
                })
                .collect();
            batch.submit();
            let lengths: Vec<_> = merged
                .into_iter()
                .map(|pending| pending.wait().result.unwrap())
                .collect();
            assert_eq!(lengths, [4096, 700, 0], "{case}");
        }
    }
}

#[test]
fn a_file_cut_short_gives_what_is_left() {
    let engine = Engine::new().unwrap();
    let folder = folder();
    let path = numbered(&folder, 4);
    let file = open(&engine, &path, true);
    let handle = std::fs::OpenOptions::new().write(true).open(&path).unwrap();
    handle.set_len(PAGE as u64).unwrap();
    let read = file.read(Buffer::new(2 * PAGE), 0, LEVEL).unwrap().wait();
    assert_eq!(read.result.unwrap(), PAGE);
    assert_eq!(file.size().unwrap(), PAGE as u64);
}

#[test]
fn what_the_device_cannot_take_is_named() {
    let engine = Engine::new().unwrap();
    let folder = folder();
    let file = open(&engine, &numbered(&folder, 4), true);
    let needed = file.alignment().offset_bytes;
    assert!(needed >= 512);
    let mut buffer = Buffer::new(PAGE);
    let misaligned = |error: &iolane::Error, expected: Alignee| match error.cause() {
        Cause::Misaligned { what, .. } => assert_eq!(*what, expected, "{error}"),
        _ => panic!("{error}"),
    };
    let error = file.read_at(&mut buffer, 100, LEVEL).unwrap_err();
    misaligned(&error, Alignee::Offset);
    assert!(
        error
            .to_string()
            .contains(&format!("multiple of {needed} bytes; it is 100"))
    );
    misaligned(
        &file.read_at(&mut buffer[..100], 0, LEVEL).unwrap_err(),
        Alignee::Length,
    );
    if file.alignment().memory_bytes > 1 {
        let end = needed as usize + 1;
        let error = file.write_at(&buffer[1..end], 0, LEVEL).unwrap_err();
        misaligned(&error, Alignee::Address);
    }
    let refused = file.read(vec![0; 100], 0, LEVEL).unwrap_err();
    misaligned(&refused.error, Alignee::Length);
    assert_eq!(refused.buffer.len(), 100);
}

#[test]
fn impossible_requests_are_refused_before_anything_happens() {
    let engine = Engine::new().unwrap();
    let folder = folder();
    let path = numbered(&folder, 1);
    let reader = engine.open(&path, OpenOptions::new().read(true)).unwrap();
    let writer = engine.open(&path, OpenOptions::new().write(true)).unwrap();
    assert_eq!(
        reader.write_at(&[1], 0, LEVEL).unwrap_err().os_error(),
        Some(libc::EBADF)
    );
    assert_eq!(
        writer.read_at(&mut [1], 0, LEVEL).unwrap_err().os_error(),
        Some(libc::EBADF)
    );
    let error = reader
        .read_at(&mut [0; 10], u64::MAX - 3, LEVEL)
        .unwrap_err();
    assert!(matches!(error.cause(), Cause::BeyondEnd), "{error}");
    assert_eq!(reader.read_at(&mut [], 0, LEVEL).unwrap(), 0);
    assert_eq!(
        reader.read(vec![], 0, LEVEL).unwrap_err().error.os_error(),
        Some(libc::EINVAL)
    );
    let statistics = reader.device().statistics();
    assert_eq!(
        statistics.total().read.requests + statistics.total().write.requests,
        0
    );
}

#[test]
fn files_that_cannot_be_used_say_why() {
    let engine = Engine::new().unwrap();
    let folder = folder();
    let mut options = OpenOptions::new();
    options.read(true);
    let open = |path: &Path, options: &OpenOptions| engine.open(path, options).unwrap_err();
    let error = open(folder.path(), &options);
    assert!(
        matches!(
            error,
            OpenError::NotAFile {
                what: "a directory",
                ..
            }
        ),
        "{error}"
    );
    let error = open(Path::new("/dev/null"), &options);
    assert!(
        matches!(
            error,
            OpenError::NotAFile {
                what: "a character device",
                ..
            }
        ),
        "{error}"
    );
    let error = open(&folder.path().join("none"), &options);
    assert!(matches!(error, OpenError::Open { .. }), "{error}");
    let pipe = folder.path().join("pipe");
    assert!(
        Command::new("mkfifo")
            .arg(&pipe)
            .status()
            .unwrap()
            .success()
    );
    let error = open(&pipe, &options);
    assert!(
        matches!(error, OpenError::NotAFile { what: "a pipe", .. }),
        "{error}"
    );
    let error = open(&folder.path().join("none"), &OpenOptions::new());
    assert!(matches!(error, OpenError::NoAccess { .. }), "{error}");
    // A memory filesystem of /proc has no direct I/O.
    let error = open(Path::new("/proc/self/status"), options.clone().direct(true));
    assert!(matches!(error, OpenError::NoDirect { .. }), "{error}");
    assert!(error.to_string().contains("open it buffered"));
}

/// Unmounts when dropped, also on a panic.
struct Mounted<'a>(&'a Path);

impl Drop for Mounted<'_> {
    fn drop(&mut self) {
        let _ = Command::new("umount").arg("-l").arg(self.0).status();
    }
}

#[test]
fn a_full_filesystem_reaches_the_writer() {
    let folder = folder();
    let mounted = Command::new("mount")
        .args(["-t", "tmpfs", "-o", "size=64k", "none"])
        .arg(folder.path())
        .status();
    if !mounted.is_ok_and(|status| status.success()) {
        iolane_testing::skipped("mounting a tmpfs needs root");
        return;
    }
    let mount = Mounted(folder.path());
    for backend in BACKENDS {
        let Some(engine) = engine(backend, Policy::Lanes) else {
            continue;
        };
        let path = folder.path().join("file");
        let mut options = OpenOptions::new();
        options.write(true).create(true).truncate(true);
        let file = engine.open(&path, &options).unwrap();
        file.write_at(&[1; PAGE], 0, LEVEL).unwrap();
        for offset in [1 << 20, 2 << 20] {
            let length = 1 << 20;
            let error = file.write_at(&vec![2; length], offset, LEVEL).unwrap_err();
            assert_eq!(error.os_error(), Some(libc::ENOSPC), "{backend}");
            let error = file.write(vec![2; length], offset, LEVEL).unwrap().wait();
            let error = error.result.unwrap_err();
            assert_eq!(error.os_error(), Some(libc::ENOSPC), "{backend}");
            assert_eq!((error.offset(), error.length()), (offset, length as u64));
            assert!(error.to_string().contains(path.to_str().unwrap()));
        }
        let error = engine
            .open(&path, options.clone().size(1 << 30))
            .unwrap_err();
        assert!(matches!(error, OpenError::Size { .. }), "{error}");
        std::fs::remove_file(&path).unwrap();
    }
    drop(mount);
}
