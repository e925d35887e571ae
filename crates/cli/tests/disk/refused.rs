//! What cannot be served: cause, remedy, and nothing left.

use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::path::Path;
use std::process::Command;

use iolane_testing::skipped;

use super::{MODEL, Place, cause_and_remedy, iolane, is_mounted, is_root, may_mount};

#[test]
fn what_cannot_be_served_is_refused_with_cause_and_remedy() {
    let place = Place::new();
    let socket = place.path("socket");
    let by_nbd = ["--nbd", socket.to_str().unwrap(), "--lead", "0"];
    fs::create_dir(place.path("backing")).unwrap();
    assert!(
        place
            .refused(&by_nbd)
            .contains("is a directory, not a file")
    );
    fs::remove_dir(place.path("backing")).unwrap();
    fs::write(place.path("backing"), [0; 4096]).unwrap();
    let said = place.refused(&by_nbd);
    assert!(said.contains("has 4096 bytes"), "{said}");
    assert!(!said.contains("--size"), "too small for any: {said}");
    fs::write(place.path("backing"), vec![0; (2 << 20) + 1]).unwrap();
    let said = place.refused(&by_nbd);
    assert!(said.contains("--size 2097152 or less"), "{said}");
    fs::remove_file(place.path("backing")).unwrap();
    let serving = place.serve_nbd(&[]);
    assert!(place.refused(&by_nbd).contains("in use by another server"));
    serving.terminate();
    assert!(!socket.exists());
    if may_mount() {
        fs::write(place.mount().join("file"), "").unwrap();
        let mount = place.mount();
        let by_mount = ["--mount", mount.to_str().unwrap()];
        assert!(place.refused(&by_mount).contains("is not empty"));
        let missing = place.path("missing");
        let by_mount = ["--mount", missing.to_str().unwrap()];
        assert!(place.refused(&by_mount).contains("mkdir"));
    }
}

#[test]
fn commands_that_make_no_sense_are_usage_errors() {
    let no_way = ["disk", "serve", "--model", MODEL, "--backing", "x"];
    let no_model = ["disk", "show", "no-such-disk"];
    let with = |more: [&'static str; 2]| [&no_way[..], &["--nbd", "y"], &more].concat();
    let too_large = with(["--size", "4t"]);
    let bad_faults = with(["--faults", "what"]);
    for arguments in [&no_way[..], &no_model, &too_large, &bad_faults] {
        let output = iolane(arguments);
        assert_eq!(output.status.code(), Some(1), "{arguments:?}: {output:?}");
        assert!(output.stdout.is_empty());
    }
    assert!(!Path::new("x").exists());
}

#[test]
fn an_impossible_disk_is_refused_with_the_line() {
    let place = Place::new();
    let file = place.path("disk.toml");
    let constant = "[model]\nkind = \"constant\"\ncapacity_bytes = 67108864\n";
    for (parameters, cause) in [
        ("queue_max = 0\nlatency_ns = 1\n", "line 4: queue_max is 0"),
        ("queue_max = 1\nlatency_ns = -1\n", "line 5: latency_ns"),
    ] {
        fs::write(&file, format!("{constant}{parameters}")).unwrap();
        let output = iolane(&[
            "disk",
            "serve",
            "--model",
            file.to_str().unwrap(),
            "--backing",
            place.path("backing").to_str().unwrap(),
            "--mount",
            place.mount().to_str().unwrap(),
        ]);
        assert_eq!(output.status.code(), Some(1), "{output:?}");
        let said = String::from_utf8_lossy(&output.stderr);
        assert!(said.contains(cause), "{said}");
        assert!(said.contains("iolane disk show"), "{said}");
        assert!(!place.path("backing").exists());
        assert!(!is_mounted(&place.mount()));
        // Nor is it shown as if it could be served.
        let shown = iolane(&["disk", "show", file.to_str().unwrap()]);
        assert_eq!(shown.status.code(), Some(1), "{shown:?}");
        assert!(shown.stdout.is_empty());
        let said = String::from_utf8_lossy(&shown.stderr);
        assert!(said.contains(cause), "{said}");
    }
}

/// Runs the program with a mount under `wrapper`; gives what it said.
fn refused_under(place: &Place, wrapper: &[&str]) -> String {
    let mount = place.mount();
    let output = Command::new(wrapper[0])
        .args(&wrapper[1..])
        .arg(env!("CARGO_BIN_EXE_iolane"))
        .args(place.arguments(&["--mount", mount.to_str().unwrap()]))
        .output()
        .unwrap();
    let said = cause_and_remedy(&output);
    assert!(!place.path("backing").exists());
    assert!(!is_mounted(&mount));
    said
}

#[test]
fn without_fuse_or_the_right_to_it_nothing_is_mounted_and_nbd_is_offered() {
    if !is_root() {
        skipped("hiding /dev/fuse and becoming somebody else are tested as root");
        return;
    }
    let place = Place::new();
    let hide = "mount -t tmpfs none /dev && exec \"$@\"";
    let said = refused_under(&place, &["unshare", "-m", "sh", "-c", hide, "sh"]);
    assert!(
        said.contains("/dev/fuse cannot be opened: No such"),
        "{said}"
    );
    assert!(
        said.contains("modprobe fuse") && said.contains("--nbd"),
        "{said}"
    );

    let mode = fs::metadata("/dev/fuse").map(|found| found.permissions().mode());
    if mode.is_ok_and(|mode| mode & 0o6 != 0) {
        skipped("anybody may open /dev/fuse");
        return;
    }
    let nobody = [
        "setpriv",
        "--reuid=65534",
        "--regid=65534",
        "--clear-groups",
    ];
    let may_run = Command::new(nobody[0])
        .args(&nobody[1..])
        .args([env!("CARGO_BIN_EXE_iolane"), "--version"])
        .output();
    if !may_run.is_ok_and(|output| output.status.success()) {
        skipped("nobody else may run the program where it stands");
        return;
    }
    let everyone = fs::Permissions::from_mode(0o777);
    fs::set_permissions(place.root.path(), everyone).unwrap();
    let said = refused_under(&place, &nobody);
    assert!(said.contains("Permission denied"), "{said}");
    assert!(
        said.contains("Run as root") && said.contains("--nbd"),
        "{said}"
    );

    // A store needs a file system on the disk: no other way to serve it helps.
    let output = Command::new(nobody[0])
        .args(&nobody[1..])
        .arg(env!("CARGO_BIN_EXE_iolane"))
        .args(["bench", "store", "scan", "--table-size", "16m"])
        .args(["--pool-size", "2m"])
        .args(["--model", MODEL, "--directory"])
        .arg(place.root.path())
        .output()
        .unwrap();
    let said = cause_and_remedy(&output);
    assert!(
        said.contains("Run as root") && !said.contains("--nbd"),
        "{said}"
    );
}
