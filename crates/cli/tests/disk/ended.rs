//! How a served disk ends, and what it leaves.

use std::path::Path;
use std::process::{Command, Stdio};
use std::thread;
use std::time::Duration;

use iolane_disk::served::fuse::loop_devices_on;
use iolane_disk::served::nbd;

use super::{Loop, Place, is_mounted, may_mount, wait};

#[test]
fn the_server_ends_when_its_mount_is_taken_away() {
    let place = Place::new();
    let Some(serving) = place.serve_mounted(&[]) else {
        return;
    };
    assert!(
        Command::new("umount")
            .arg(place.mount())
            .status()
            .unwrap()
            .success()
    );
    let (status, _) = serving.end();
    assert_eq!(status.code(), Some(0));
    assert!(
        place.stderr().contains("the mount was taken away"),
        "{}",
        place.stderr()
    );
}

#[test]
fn after_a_kill_nothing_is_left_of_it() {
    let place = Place::new();
    let Some(serving) = place.serve_mounted(&[]) else {
        return;
    };
    let Some(device) = Loop::attach(&serving.ready) else {
        return;
    };
    serving.signal("KILL");
    assert_eq!(serving.end().0.code(), None);
    wait("the end of the mount", || {
        (!is_mounted(&place.mount())).then_some(())
    });
    wait("the end of the loop device", || {
        let file = device.attribute("loop/backing_file");
        file.is_empty().then_some(())
    });
}

/// While it measures its own transport a thread of it waits for itself: then it
/// cannot even end. The device for that is then being attached, attached, or
/// being detached.
#[test]
fn a_kill_ends_it_while_it_measures_its_transport() {
    if !may_mount() {
        return;
    }
    // The kernel's name for a file whose mount is gone.
    let detached = || loop_devices_on(Path::new("/round-trip"));
    let before = detached();
    for pause_ms in [0, 20, 100, 300] {
        let place = Place::new();
        let mount = place.mount();
        let mut child = Command::new(env!("CARGO_BIN_EXE_iolane"))
            .args(place.arguments(&["--mount", mount.to_str().unwrap()]))
            .stdout(Stdio::null())
            .stderr(Stdio::null())
            .spawn()
            .unwrap();
        wait("the mount", || is_mounted(&mount).then_some(()));
        thread::sleep(Duration::from_millis(pause_ms));
        child.kill().unwrap();
        wait("the end of the server", || child.try_wait().unwrap());
        wait("the end of the mount", || {
            (!is_mounted(&mount)).then_some(())
        });
        let file = mount.join("round-trip");
        wait("the end of the loop device", || {
            let mut lost = detached().into_iter();
            let is_lost = lost.any(|device| !before.contains(&device));
            (loop_devices_on(&file).is_empty() && !is_lost).then_some(())
        });
    }
}

#[test]
fn after_a_kill_of_all_the_next_server_clears_the_mount() {
    let place = Place::new();
    let Some(serving) = place.serve_mounted(&[]) else {
        return;
    };
    serving.kill_its_survivor();
    serving.signal("KILL");
    assert_eq!(serving.end().0.code(), None);
    assert!(is_mounted(&place.mount()));
    let serving = place.serve_mounted(&[]).unwrap();
    assert!(
        place.stderr().contains("it was taken away"),
        "{}",
        place.stderr()
    );
    assert!(place.mount().join("disk").exists());
    serving.terminate();
    assert!(!is_mounted(&place.mount()));
}

#[test]
fn a_signal_ends_it_and_takes_away_the_mount_with_what_stands_on_it() {
    for name in ["INT", "TERM"] {
        let place = Place::new();
        let Some(serving) = place.serve_mounted(&[]) else {
            return;
        };
        let Some(device) = Loop::attach(&serving.ready) else {
            return;
        };
        let file = device.open();
        serving.signal(name);
        let (status, said) = serving.end();
        assert_eq!(status.code(), Some(0), "{name}: {said}");
        assert!(place.stderr().contains("told to end"), "{}", place.stderr());
        assert!(said.contains("0 errors"), "{said}");
        assert!(!is_mounted(&place.mount()));
        drop(file);
        wait("the end of the loop device", || {
            device
                .attribute("loop/backing_file")
                .is_empty()
                .then_some(())
        });
        assert_eq!(std::fs::read_dir(place.mount()).unwrap().count(), 0);
    }
}

#[test]
fn a_signal_ends_an_nbd_server_and_removes_its_socket() {
    let place = Place::new();
    let serving = place.serve_nbd(&[]);
    serving.signal("INT");
    assert_eq!(serving.end().0.code(), Some(0));
    assert!(!place.path("socket").exists());
}

/// Two writes, of which one is followed by a flush, and the end.
#[test]
fn its_end_is_a_power_cut_where_the_faults_say_so() {
    const BYTES: usize = 4096;
    let place = Place::new();
    let serving = place.serve_nbd(&["--faults", "lost=1:power-cut"]);
    let (mut sender, mut receiver) = nbd::connect(&place.path("socket")).unwrap();
    let mut answer = || {
        let answer = receiver.receive().unwrap();
        assert_eq!(answer.error, 0, "{answer:?}");
        answer.data
    };
    sender.write(1, 0, &[1; BYTES], false).unwrap();
    answer();
    sender.flush(2).unwrap();
    answer();
    sender.write(3, BYTES as u64, &[1; BYTES], false).unwrap();
    answer();
    sender.read(4, BYTES as u64, BYTES as u32).unwrap();
    assert_eq!(answer(), [1; BYTES], "the cache has it");
    sender.disconnect().unwrap();
    let said = serving.terminate();
    assert!(said.contains("the power cut took 4096 bytes"), "{said}");
    let held = std::fs::read(place.path("backing")).unwrap();
    assert_eq!(held[..BYTES], [1; BYTES]);
    assert_eq!(held[BYTES..2 * BYTES], [0; BYTES]);
}
