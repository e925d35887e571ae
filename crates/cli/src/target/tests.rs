use std::fs;
use std::os::unix::fs::PermissionsExt;

use super::*;
use crate::error::Kind;
use crate::sys::file::Space;
use crate::system::SystemPaths;

const MIB: u64 = 1 << 20;

fn request() -> TargetRequest {
    TargetRequest {
        file: None,
        directory: None,
        size_bytes: None,
        default_size_bytes: 2 * MIB,
        transfer_sizes_bytes: vec![4096],
        direct: false,
        reads: true,
        writes: false,
        destructive: false,
        named_files: false,
    }
}

fn prepare_file(path: &Path, change: impl FnOnce(&mut TargetRequest)) -> Result<Target, Failure> {
    let mut request = request();
    request.file = Some(path.to_owned());
    change(&mut request);
    Target::prepare(&request, &Session::quiet())
}

fn refusal(result: Result<Target, Failure>) -> (String, String, Kind) {
    let failure = result.expect_err("must be refused");
    (failure.to_string(), failure.remedy(), failure.kind())
}

#[test]
fn a_scratch_file_is_written_in_full_and_has_no_name() {
    let directory = tempfile::tempdir().unwrap();
    let mut request = request();
    request.directory = Some(directory.path().to_owned());
    let target = Target::prepare(&request, &Session::quiet()).unwrap();
    assert_eq!(target.kind, TargetKind::ScratchFile);
    assert_eq!(target.size_bytes, 2 * MIB);
    assert_eq!(fs::read_dir(directory.path()).unwrap().count(), 0);
    let file = target.open(false, true).unwrap();
    assert_eq!(file.metadata().unwrap().len(), 2 * MIB);
    assert_eq!(existing::written_share(&file, 2 * MIB), 1.0);
    let mut content = vec![0; 2 << 20];
    std::os::unix::fs::FileExt::read_exact_at(&file, &mut content, 0).unwrap();
    assert!(
        content
            .chunks(512)
            .all(|block| block.iter().any(|byte| *byte != 0))
    );
}

#[test]
fn the_fallback_leaves_no_name_either() {
    let directory = tempfile::tempdir().unwrap();
    let file = scratch::create_and_unlink(directory.path()).unwrap();
    file.set_len(4096).unwrap();
    assert_eq!(fs::read_dir(directory.path()).unwrap().count(), 0);
}

#[test]
fn an_interrupted_fill_ends_as_interrupted() {
    let directory = tempfile::tempdir().unwrap();
    let mut request = request();
    request.directory = Some(directory.path().to_owned());
    let session = Session::quiet();
    session.stop.raise(libc::SIGINT);
    let failure = Target::prepare(&request, &session).unwrap_err();
    assert!(matches!(failure, Failure::Interrupted { .. }));
    assert_eq!(fs::read_dir(directory.path()).unwrap().count(), 0);
}

#[test]
fn a_missing_file_and_a_directory_are_refused() {
    let directory = tempfile::tempdir().unwrap();
    let (message, remedy, kind) = refusal(prepare_file(&directory.path().join("no"), |_| ()));
    assert!(message.ends_with("no does not exist"), "{message}");
    assert!(remedy.contains("without --file"));
    assert_eq!(kind, Kind::Setup);
    let (message, remedy, _) = refusal(prepare_file(directory.path(), |_| ()));
    assert!(message.ends_with("is a directory"), "{message}");
    assert!(remedy.contains("--directory"));
    let (message, _, _) = refusal(prepare_file(Path::new("/dev/null"), |_| ()));
    assert!(message.contains("neither a regular file nor a block device"));
}

#[test]
fn a_scratch_directory_must_be_one() {
    let file = tempfile::NamedTempFile::new().unwrap();
    let mut request = request();
    request.directory = Some(file.path().to_owned());
    let (message, _, _) = refusal(Target::prepare(&request, &Session::quiet()));
    assert!(message.ends_with("is not a directory"), "{message}");
    request.directory = Some("/nonexistent/here".into());
    let (message, _, _) = refusal(Target::prepare(&request, &Session::quiet()));
    assert!(message.ends_with("does not exist"), "{message}");
}

#[test]
fn a_small_file_is_refused() {
    let file = tempfile::NamedTempFile::new().unwrap();
    file.as_file().set_len(1000).unwrap();
    let (message, _, kind) = refusal(prepare_file(file.path(), |_| ()));
    assert!(
        message.contains("has 1000 B, and 4 KiB are needed"),
        "{message}"
    );
    assert_eq!(kind, Kind::Setup);
    file.as_file().set_len(MIB).unwrap();
    let larger = |request: &mut TargetRequest| request.size_bytes = Some(2 * MIB);
    let (message, _, _) = refusal(prepare_file(file.path(), larger));
    assert!(
        message.contains("has 1 MiB, and 2 MiB are needed"),
        "{message}"
    );
}

#[test]
fn writing_to_an_existing_file_needs_consent() {
    let file = tempfile::NamedTempFile::new().unwrap();
    fs::write(file.path(), vec![1; 8192]).unwrap();
    let writes = |request: &mut TargetRequest| request.writes = true;
    let (message, remedy, kind) = refusal(prepare_file(file.path(), writes));
    assert!(message.contains("would destroy"), "{message}");
    assert!(remedy.contains("--destructive"));
    assert_eq!(kind, Kind::Usage);
    let consented = |request: &mut TargetRequest| {
        request.writes = true;
        request.destructive = true;
    };
    assert!(prepare_file(file.path(), consented).is_ok());
}

#[test]
fn a_file_without_permission_is_refused() {
    if crate::sys::file::is_root() {
        iolane_testing::skipped("root may read everything");
        return;
    }
    let file = tempfile::NamedTempFile::new().unwrap();
    file.as_file().set_len(8192).unwrap();
    fs::set_permissions(file.path(), fs::Permissions::from_mode(0o0)).unwrap();
    let (message, _, _) = refusal(prepare_file(file.path(), |_| ()));
    assert!(message.contains("no permission to read"), "{message}");
}

#[test]
fn open_errors_are_told_apart() {
    let said = |errno, write| {
        TargetError::from_open("/x".into(), write, io::Error::from_raw_os_error(errno)).to_string()
    };
    assert_eq!(said(libc::EACCES, true), "no permission to write to /x");
    assert_eq!(said(libc::EACCES, false), "no permission to read /x");
    assert_eq!(
        said(libc::EROFS, true),
        "/x lies on a read-only file system or device"
    );
    assert_eq!(
        said(libc::EBUSY, true),
        "/x is in use by another program or the kernel"
    );
    assert!(said(libc::EIO, false).starts_with("cannot open /x: "));
}

#[test]
fn direct_transfers_must_be_aligned() {
    let path = Path::new("/x");
    assert!(check_alignment(path, 512, &[4096, 512]).is_ok());
    let error = check_alignment(path, 4096, &[16384, 2048]).unwrap_err();
    assert!(
        error
            .to_string()
            .contains("multiples of 4096 bytes, and 2 KiB is none"),
        "{error}"
    );
}

#[test]
fn proc_takes_no_direct_io() {
    let session = Session::quiet();
    let mut request = request();
    request.direct = true;
    let path = Path::new("/proc/self/status");
    let error = check_direct(path, path, &request, &session).unwrap_err();
    assert!(
        error
            .to_string()
            .contains("takes no direct I/O (file system: proc)"),
        "{error}"
    );
    assert!(error.remedy().contains("--io buffered"));
}

#[test]
fn holes_of_an_existing_file_are_pointed_out() {
    let file = tempfile::NamedTempFile::new().unwrap();
    fs::write(file.path(), vec![1; 1 << 20]).unwrap();
    file.as_file().set_len(4 * MIB).unwrap();
    let mut request = request();
    request.file = Some(file.path().to_owned());
    let session = Session::quiet();
    Target::prepare(&request, &session).unwrap();
    let warnings = session.warnings();
    assert_eq!(warnings.len(), 1);
    assert!(warnings[0].starts_with("75.0 % of "), "{warnings:?}");
}

#[test]
fn a_reserve_of_space_is_left() {
    let room = |available_bytes, total_bytes| Space {
        available_bytes,
        total_bytes,
    };
    let path = Path::new("/x");
    assert!(scratch::check_room(path, MIB, room(3 * MIB, 20 * MIB)).is_ok());
    let error = scratch::check_room(path, 3 * MIB, room(3 * MIB, 20 * MIB)).unwrap_err();
    assert_eq!(
        error.to_string(),
        "/x has 3 MiB free; 3 MiB are needed, and 1 MiB stay in reserve"
    );
    let huge = room(100 << 30, 1000 << 30);
    assert!(scratch::check_room(path, 99 << 30, huge).is_ok());
    assert!(scratch::check_room(path, (99 << 30) + 1, huge).is_err());
}

/// A made-up machine with a disk 8:0 and its partition 8:1.
fn machine(root: &Path) -> (SystemPaths, DeviceNumber) {
    let paths = SystemPaths::below(root);
    let disk = paths.sys.join("dev/block/8:0");
    fs::create_dir_all(disk.join("sda1")).unwrap();
    fs::write(disk.join("sda1/partition"), "1").unwrap();
    fs::write(disk.join("sda1/dev"), "8:1\n").unwrap();
    fs::create_dir_all(paths.sys.join("dev/block/8:1/holders")).unwrap();
    fs::create_dir_all(paths.proc.join("self")).unwrap();
    (paths, DeviceNumber { major: 8, minor: 0 })
}

#[test]
fn devices_in_use_are_refused() {
    let root = tempfile::tempdir().unwrap();
    let (paths, number) = machine(root.path());
    let session = Session::quiet_at(paths.clone());
    let path = Path::new("/dev/sda");
    assert!(device::check_unused(path, number, &session).is_ok());

    fs::create_dir(paths.sys.join("dev/block/8:1/holders/dm-0")).unwrap();
    let error = device::check_unused(path, number, &session).unwrap_err();
    assert_eq!(error.to_string(), "/dev/sda is used by dm-0");

    fs::write(
        paths.proc.join("self/mountinfo"),
        "27 1 8:1 / /data rw - ext4 /dev/sda1 rw\n",
    )
    .unwrap();
    let error = device::check_unused(path, number, &session).unwrap_err();
    assert_eq!(error.to_string(), "/dev/sda is mounted on /data");
    assert!(error.remedy().contains("Unmount"));
}

#[test]
fn the_device_of_the_root_file_system_is_refused() {
    let session = Session::quiet();
    let device = DeviceNumber::from_raw(fs::metadata("/").unwrap().dev());
    if disk_of(&session, device).is_none() {
        iolane_testing::skipped("the root file system lies on no block device");
        return;
    }
    let error = device::check_unused(Path::new("/dev/root"), device, &session).unwrap_err();
    assert!(matches!(error, TargetError::Mounted { .. }), "{error}");
}

#[test]
fn a_scratch_file_takes_direct_transfers() {
    let directory = tempfile::tempdir_in("/var/tmp").unwrap();
    let mut request = request();
    request.directory = Some(directory.path().to_owned());
    request.direct = true;
    let target = match Target::prepare(&request, &Session::quiet()) {
        Err(Failure::Target(TargetError::NoDirectIo { filesystem, .. })) => {
            iolane_testing::skipped(format_args!("{filesystem} on /var/tmp takes no direct I/O"));
            return;
        }
        result => result.unwrap(),
    };
    assert!(target.open(true, false).is_ok());
    let environment = crate::environment::Environment::read(
        &SystemPaths::default(),
        Some(&target),
        String::new(),
    );
    assert!(environment.filesystem.is_some());
    assert_eq!(environment.device.is_some(), target.disk.is_some());
}
