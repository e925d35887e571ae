//! `iolane disk serve`: the built program, a real mount, a real loop device,
//! real clients. What the machine does not allow is skipped and counted.

mod cut;
mod ended;
mod refused;

use std::fs::{self, OpenOptions};
use std::io::{BufRead, BufReader, Read};
use std::os::unix::fs::{FileExt, OpenOptionsExt};
use std::path::{Path, PathBuf};
use std::process::{Child, ChildStdout, Command, ExitStatus, Output, Stdio};
use std::sync::mpsc;
use std::thread;
use std::time::{Duration, Instant};

use iolane::Buffer;
use iolane_disk::served::nbd;
use iolane_testing::skipped;

const WAIT_MAX: Duration = Duration::from_secs(60);
const POLL: Duration = Duration::from_millis(10);
const SIZE_BYTES: u64 = 64 << 20;
/// Its model answers everything after 100 us.
const MODEL: &str = "constant-100us";

fn iolane(arguments: &[&str]) -> Output {
    Command::new(env!("CARGO_BIN_EXE_iolane"))
        .args(arguments)
        .output()
        .unwrap()
}

fn wait<T>(what: &str, mut look: impl FnMut() -> Option<T>) -> T {
    let start = Instant::now();
    loop {
        if let Some(found) = look() {
            return found;
        }
        assert!(start.elapsed() < WAIT_MAX, "{what}: nothing happened");
        thread::sleep(POLL);
    }
}

/// A directory for a mount, a backing file and a socket.
struct Place {
    root: tempfile::TempDir,
}

impl Place {
    fn new() -> Self {
        let place = Self {
            root: tempfile::tempdir_in("/var/tmp").unwrap(),
        };
        fs::create_dir(place.mount()).unwrap();
        place
    }

    fn path(&self, name: &str) -> PathBuf {
        self.root.path().join(name)
    }

    fn mount(&self) -> PathBuf {
        self.path("mount")
    }

    fn arguments(&self, more: &[&str]) -> Vec<String> {
        let backing = self.path("backing");
        let size = SIZE_BYTES.to_string();
        let model = ["--model", MODEL];
        let model = if more.contains(&"--model") {
            &[][..]
        } else {
            &model
        };
        let fixed = ["disk", "serve", "--size", &size, "--backing"];
        let fixed = fixed.into_iter().map(str::to_owned);
        fixed
            .chain([backing.to_str().unwrap().to_owned()])
            .chain(model.iter().map(|&one| one.to_owned()))
            .chain(more.iter().map(|&one| one.to_owned()))
            .collect()
    }

    fn serve(&self, more: &[&str]) -> Serving {
        let mut child = Command::new(env!("CARGO_BIN_EXE_iolane"))
            .args(self.arguments(more))
            .stdout(Stdio::piped())
            .stderr(Stdio::from(fs::File::create(self.path("stderr")).unwrap()))
            .spawn()
            .unwrap();
        let mut stdout = BufReader::new(child.stdout.take().unwrap());
        let (sender, line) = mpsc::channel();
        let reading = thread::spawn(move || {
            let mut text = String::new();
            stdout.read_line(&mut text).unwrap();
            let _ = sender.send(text);
            stdout
        });
        // Ends it where it does not get ready.
        let mut serving = Serving {
            ready: String::new(),
            child: Some(child),
            stdout: None,
        };
        let line = line.recv_timeout(WAIT_MAX).unwrap();
        serving.ready = line.trim().to_owned();
        serving.stdout = Some(reading.join().unwrap());
        serving
    }

    /// With the mount; nothing where this machine does not mount.
    fn serve_mounted(&self, more: &[&str]) -> Option<Serving> {
        if !may_mount() {
            return None;
        }
        Some(self.serve_by("--mount", &self.mount(), more, "losetup --direct-io=on"))
    }

    fn serve_nbd(&self, more: &[&str]) -> Serving {
        let socket = self.path("socket");
        self.serve_by("--nbd", &socket, more, "nbd+unix:///disk?socket=/")
    }

    /// Its first line begins with `ready`.
    fn serve_by(&self, way: &str, at: &Path, more: &[&str], ready: &str) -> Serving {
        let fixed = [way, at.to_str().unwrap()];
        let lead = ["--lead", "0"];
        let lead = if more.contains(&"--lead") {
            &[][..]
        } else {
            &lead
        };
        let serving = self.serve(&[&fixed, lead, more].concat());
        assert!(serving.ready.starts_with(ready), "{}", self.stderr());
        serving
    }

    fn stderr(&self) -> String {
        fs::read_to_string(self.path("stderr")).unwrap_or_default()
    }

    fn refused(&self, more: &[&str]) -> String {
        let output = Command::new(env!("CARGO_BIN_EXE_iolane"))
            .args(self.arguments(more))
            .output()
            .unwrap();
        cause_and_remedy(&output)
    }
}

/// What a program that could not do its work has said.
fn cause_and_remedy(output: &Output) -> String {
    assert_eq!(output.status.code(), Some(2), "{output:?}");
    assert!(output.stdout.is_empty());
    let said = String::from_utf8_lossy(&output.stderr).into_owned();
    assert_eq!(said.lines().count(), 2, "cause and remedy: {said}");
    said
}

struct Serving {
    ready: String,
    child: Option<Child>,
    stdout: Option<BufReader<ChildStdout>>,
}

impl Serving {
    fn signal(&self, name: &str) {
        let id = self.child.as_ref().unwrap().id();
        let status = Command::new("kill")
            .args([format!("-{name}"), id.to_string()])
            .status();
        assert!(status.unwrap().success());
    }

    /// The process that would take away what it leaves.
    fn kill_its_survivor(&self) {
        let id = self.child.as_ref().unwrap().id();
        let mut survivors = Vec::new();
        for thread in fs::read_dir(format!("/proc/{id}/task")).unwrap() {
            let children = thread.unwrap().path().join("children");
            let children = fs::read_to_string(children).unwrap();
            survivors.extend(children.split_whitespace().map(str::to_owned));
        }
        assert_eq!(survivors.len(), 1, "{survivors:?}");
        let killed = Command::new("kill").args(["-KILL", &survivors[0]]).status();
        assert!(killed.unwrap().success());
    }

    /// Gives how it ended, and what it said last.
    fn end(mut self) -> (ExitStatus, String) {
        // A pipe does not hold all that it may say of faults.
        let mut stdout = self.stdout.take().unwrap();
        let reading = thread::spawn(move || {
            let mut text = String::new();
            stdout.read_to_string(&mut text).unwrap();
            text
        });
        let child = self.child.as_mut().unwrap();
        let status = wait("the end of the server", || child.try_wait().unwrap());
        self.child = None;
        let text = reading.join().unwrap();
        (status, text)
    }

    fn terminate(self) -> String {
        self.signal("TERM");
        let (status, said) = self.end();
        assert_eq!(status.code(), Some(0), "{said}");
        said
    }
}

impl Drop for Serving {
    fn drop(&mut self) {
        if let Some(mut child) = self.child.take() {
            // A test that fails must leave nothing mounted: first politely.
            let _ = Command::new("kill").arg(child.id().to_string()).status();
            thread::sleep(Duration::from_secs(1));
            let _ = child.kill();
            let _ = child.wait();
        }
    }
}

fn is_root() -> bool {
    let output = Command::new("id").arg("-u").output();
    output.is_ok_and(|output| output.stdout == b"0\n")
}

fn may_mount() -> bool {
    let opened = OpenOptions::new().read(true).write(true).open("/dev/fuse");
    if let Err(error) = &opened {
        skipped(format!("/dev/fuse: {error}"));
    } else if !is_root() {
        skipped("mounting is tested as root");
    }
    opened.is_ok() && is_root()
}

fn is_mounted(directory: &Path) -> bool {
    let mounts = fs::read_to_string("/proc/self/mounts").unwrap();
    let directory = fs::canonicalize(directory.parent().unwrap())
        .unwrap()
        .join(directory.file_name().unwrap());
    mounts
        .lines()
        .any(|line| line.split(' ').nth(1) == directory.to_str())
}

/// Runs the line that the server printed. Detached when dropped, unless the
/// server did it.
struct Loop(PathBuf);

impl Loop {
    fn attach(line: &str) -> Option<Self> {
        let output = Command::new("sh").args(["-c", line]).output().unwrap();
        if !output.status.success() {
            skipped(String::from_utf8_lossy(&output.stderr));
            return None;
        }
        Some(Self(
            String::from_utf8(output.stdout).unwrap().trim().into(),
        ))
    }

    fn open(&self) -> fs::File {
        OpenOptions::new()
            .read(true)
            .write(true)
            .custom_flags(libc::O_DIRECT)
            .open(&self.0)
            .unwrap()
    }

    fn name(&self) -> &str {
        self.0.file_name().unwrap().to_str().unwrap()
    }

    fn attribute(&self, name: &str) -> String {
        let path = Path::new("/sys/block").join(self.name()).join(name);
        fs::read_to_string(path)
            .unwrap_or_default()
            .trim()
            .to_owned()
    }
}

impl Drop for Loop {
    fn drop(&mut self) {
        let _ = Command::new("losetup")
            .arg("--detach")
            .arg(&self.0)
            .stderr(Stdio::null())
            .status();
    }
}

fn pattern(length: usize, seed: u64) -> Buffer {
    let mut buffer = Buffer::new(length);
    let mut state = seed;
    for byte in buffer.iter_mut() {
        state = state
            .wrapping_mul(6_364_136_223_846_793_005)
            .wrapping_add(1);
        *byte = (state >> 56) as u8;
    }
    buffer
}

#[test]
fn a_loop_device_on_the_served_disk_holds_data_and_outlives_a_restart() {
    let place = Place::new();
    let Some(serving) = place.serve_mounted(&[]) else {
        return;
    };
    let file = place.mount().join("disk");
    assert_eq!(fs::metadata(&file).unwrap().len(), SIZE_BYTES);
    let Some(device) = Loop::attach(&serving.ready) else {
        return;
    };
    assert_eq!(device.attribute("loop/dio"), "1");
    assert_eq!(device.attribute("queue/logical_block_size"), "512");
    // Odd sizes and places, all multiples of a sector.
    let ranges: [(u64, usize); 5] = [
        (0, 512),
        (512, 4096),
        (1 << 20, 1 << 20),
        ((33 << 20) + 512, (3 << 20) + 1536),
        (SIZE_BYTES - 4096, 4096),
    ];
    {
        let disk = device.open();
        for (seed, (offset, length)) in (1..).zip(ranges) {
            disk.write_all_at(&pattern(length, seed), offset).unwrap();
        }
        disk.sync_data().unwrap();
        for (seed, (offset, length)) in (1..).zip(ranges) {
            let mut back = Buffer::new(length);
            let start = Instant::now();
            disk.read_exact_at(&mut back, offset).unwrap();
            assert!(
                start.elapsed() >= Duration::from_micros(100),
                "the model's time"
            );
            assert!(back[..] == pattern(length, seed)[..], "{offset} {length}");
        }
    }
    // Before the server detaches it.
    drop(device);
    let said = serving.terminate();
    assert!(said.contains(" 0 errors; "), "{said}");
    // More than the model's 100 us for those that stood behind others.
    let latency = said.split_once("mean latency by model ").unwrap().1;
    let (latency, rest) = latency.split_once(' ').unwrap();
    let is_longer = latency.parse::<f64>().unwrap() >= 100.0 && rest.starts_with("µs; late by ");
    assert!(is_longer || rest.starts_with("ms; late by "), "{said}");
    assert!(!is_mounted(&place.mount()));

    let serving = place.serve_mounted(&[]).unwrap();
    let disk = OpenOptions::new().read(true).open(&file).unwrap();
    for (seed, (offset, length)) in (1..).zip(ranges) {
        let mut back = vec![0; length];
        // As any file: through the disk all the same.
        disk.read_exact_at(&mut back, offset).unwrap();
        assert!(back[..] == pattern(length, seed)[..], "{offset} {length}");
    }
    let mut unaligned = [0; 100];
    disk.read_exact_at(&mut unaligned, 700).unwrap();
    assert_eq!(unaligned[..], pattern(4096, 2)[188..288]);
    assert_eq!(disk.read_at(&mut unaligned, SIZE_BYTES).unwrap(), 0);
    drop(disk);
    serving.terminate();
}

#[test]
fn the_lead_follows_what_a_loop_devices_requests_take() {
    let place = Place::new();
    // Its answers can go out still earlier when the way takes long, as on a
    // machine that does much besides; those of a faster disk have come to the
    // instant of the request by then.
    let serving = place.serve_mounted(&["--lead", "auto", "--model", "cloud-1ms"]);
    let Some(serving) = serving else {
        return;
    };
    let Some(device) = Loop::attach(&serving.ready) else {
        return;
    };
    let disk = device.open();
    let mut back = Buffer::new(4096);
    for _ in 0..1000 {
        disk.read_exact_at(&mut back, 0).unwrap();
    }
    drop(disk);
    drop(device);
    let said = format!("{}{}", serving.terminate(), place.stderr());
    // By how much depends on the machine; not at all is by chance once in
    // tens of thousands.
    let (_, rest) = said
        .split_once("at the end answers went out ")
        .expect(&said);
    let follows = ["earlier", "later"].map(|side| format!("s {side} than was measured"));
    assert!(
        follows.iter().any(|follows| rest.contains(follows)),
        "{said}"
    );
}

#[test]
fn a_kernel_scheduler_and_a_file_system_stand_on_the_served_disk() {
    let place = Place::new();
    let Some(serving) = place.serve_mounted(&[]) else {
        return;
    };
    let Some(device) = Loop::attach(&serving.ready) else {
        return;
    };
    let path = Path::new("/sys/block")
        .join(device.name())
        .join("queue/scheduler");
    for name in ["mq-deadline", "none"] {
        match fs::write(&path, name) {
            Ok(()) => assert!(
                device
                    .attribute("queue/scheduler")
                    .contains(&format!("[{name}]"))
            ),
            Err(error) => skipped(format!("no scheduler {name}: {error}")),
        }
    }
    match Command::new("mkfs.ext4").arg("-q").arg(&device.0).output() {
        Err(error) => skipped(format!("mkfs.ext4: {error}")),
        Ok(output) => assert!(output.status.success(), "{output:?}"),
    }
    let check = Command::new("fsck.ext4")
        .args(["-f", "-n"])
        .arg(&device.0)
        .output();
    match check {
        Err(error) => skipped(format!("fsck.ext4: {error}")),
        Ok(output) => assert!(output.status.success(), "{output:?}"),
    }
    // With the device still there: the server takes it along.
    let name = device.name().to_owned();
    serving.terminate();
    assert!(!is_mounted(&place.mount()));
    wait("the loop device's end", || {
        let backing = Path::new("/sys/block")
            .join(&name)
            .join("loop/backing_file");
        let backing = fs::read_to_string(backing).unwrap_or_default();
        (!backing.contains(place.mount().to_str().unwrap())).then_some(())
    });
}

#[test]
fn the_disks_can_be_listed_and_shown() {
    let list = iolane(&["disk", "list"]);
    assert!(list.status.success());
    assert!(String::from_utf8_lossy(&list.stdout).contains(MODEL));
    let show = iolane(&["disk", "show", MODEL]);
    assert!(show.status.success());
    assert!(String::from_utf8_lossy(&show.stdout).contains("latency_ns"));
}

/// The script of docs/disks.md, in a place of its own.
#[test]
fn the_documented_script_runs_as_written() {
    if !may_mount() || !is_root() {
        return skipped("the documented script mounts and needs loop devices");
    }
    if let Err(why) = iolane_testing::LoopDevice::new(Path::new("/var/tmp"), 1 << 20) {
        return skipped(why);
    }
    let place = Place::new();
    let documents = include_str!("../../../../docs/disks.md");
    let (_, script) = documents.split_once("\n```sh\nset -e\n").unwrap();
    let (script, _) = script.split_once("```").unwrap();
    let root = place.root.path().to_str().unwrap();
    let script = script
        .replace("--size 2g", "--size 64m")
        .replace("iolane-peers range --directory", "ls")
        .replace("/mnt/", &format!("{root}/script/"));
    let programs = Path::new(env!("CARGO_BIN_EXE_iolane")).parent().unwrap();
    let path = std::env::var("PATH").unwrap();
    let ran = Command::new("sh")
        .args(["-e", "-c", &script])
        .current_dir(root)
        .env("PATH", format!("{}:{path}", programs.display()))
        .output()
        .unwrap();
    assert!(ran.status.success(), "{ran:?}");
    let said = String::from_utf8_lossy(&ran.stdout);
    assert!(said.contains("lost+found"), "{said}");
    assert!(!is_mounted(&place.path("script/disk")));
}

#[test]
fn nbd_data_outlive_a_restart_and_faults_are_counted() {
    let place = Place::new();
    let serving = place.serve_nbd(&[]);
    let data = pattern(1 << 20, 9);
    {
        let (mut sender, mut receiver) = nbd::connect(&place.path("socket")).unwrap();
        sender.write(1, 512, &data, true).unwrap();
        assert_eq!(receiver.receive().unwrap().error, 0);
    }
    serving.terminate();
    let serving = place.serve_nbd(&["--faults", "eio=#2", "--durable"]);
    let (mut sender, mut receiver) = nbd::connect(&place.path("socket")).unwrap();
    sender.read(1, 512, 1 << 20).unwrap();
    assert!(receiver.receive().unwrap().data[..] == data[..]);
    sender.read(2, 512, 1 << 20).unwrap();
    assert_eq!(receiver.receive().unwrap().error, 5);
    let said = serving.terminate();
    assert!(said.contains("2 requests: 2 reads"), "{said}");
    assert!(said.contains("1 faults\n"), "{said}");
}

/// Runs another program's client; nothing where it is not installed.
fn client(program: &str, arguments: &[&str]) -> Option<Output> {
    match Command::new(program).args(arguments).output() {
        Ok(output) => Some(output),
        Err(error) => {
            skipped(format!("{program}: {error}"));
            None
        }
    }
}

#[test]
fn other_programs_speak_to_the_nbd_server() {
    let place = Place::new();
    let serving = place.serve_nbd(&[]);
    let address = serving.ready.clone();
    if let Some(output) = client("nbdinfo", &["--size", &address]) {
        assert!(output.status.success(), "{output:?}");
        assert_eq!(
            String::from_utf8_lossy(&output.stdout).trim(),
            SIZE_BYTES.to_string()
        );
    }
    if let Some(output) = client("nbdinfo", &["--list", &address.replace("/disk?", "/?")]) {
        assert!(
            String::from_utf8_lossy(&output.stdout).contains("export=\"disk\""),
            "{output:?}"
        );
    }
    let image = place.path("image");
    let copy = place.path("copy");
    fs::write(&image, &pattern(SIZE_BYTES as usize, 4)[..]).unwrap();
    let (image, copy) = (image.to_str().unwrap(), copy.to_str().unwrap());
    if let Some(output) = client("nbdcopy", &["--flush", image, &address]) {
        assert!(output.status.success(), "{output:?}");
        let output = client("nbdcopy", &[&address, copy]).unwrap();
        assert!(output.status.success(), "{output:?}");
        assert!(fs::read(image).unwrap() == fs::read(copy).unwrap());
    }
    let commands = ["write -P 0x5a 1M 64k", "flush", "read -P 0x5a 1M 64k"];
    let mut arguments = vec!["-f", "raw"];
    arguments.extend(commands.iter().flat_map(|command| ["-c", command]));
    arguments.push(&address);
    if let Some(output) = client("qemu-io", &arguments) {
        assert!(output.status.success(), "{output:?}");
        assert!(
            !String::from_utf8_lossy(&output.stdout).contains("failed"),
            "{output:?}"
        );
    }
    if let Some(output) = client("qemu-img", &["info", "--output=json", &address]) {
        assert!(String::from_utf8_lossy(&output.stdout).contains(&SIZE_BYTES.to_string()));
    }
    serving.terminate();
}

#[test]
fn verify_gives_its_document() {
    let verify = |runtime: &str| {
        iolane(&[
            "disk",
            "verify",
            "--model",
            MODEL,
            "--transports",
            "nbd",
            "--size",
            "64m",
            "--runtime",
            runtime,
            "--rates",
            "1000",
            "--depths",
            "1,2",
            "--output-format",
            "json",
        ])
    };
    // Where the machine stalls for as long as a run, nothing is completed in it.
    let is_empty = |output: &Output| {
        String::from_utf8_lossy(&output.stdout).contains("did not complete a single request")
    };
    let runs = ["300ms", "3s", "30s"].into_iter().map(verify);
    let output = { runs }.find(|output| !is_empty(output)).unwrap();
    assert_eq!(output.status.code(), Some(0), "{output:?}");
    let document: serde_json::Value = serde_json::from_slice(&output.stdout).unwrap();
    assert_eq!(document["schema"], "iolane.disk.verify/1");
    let runs = document["runs"].as_array().unwrap();
    assert_eq!(runs.len(), 3);
    assert_eq!(runs[0]["transport"], "nbd");
    assert_eq!(runs[0]["load"]["kind"], "open");
    assert_eq!(runs[0]["judged"], true);
    assert_eq!(runs[0]["model"]["mean_latency_ns"], 100_000.0);
    // Depth 2 of a disk of 100 us is 20,000 a second: not judged.
    assert_eq!(runs[2]["judged"], false);
    assert!(document["good"].is_boolean());
}
