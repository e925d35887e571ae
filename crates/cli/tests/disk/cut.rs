//! The power of a disk that is used, cut in each way that there is: what was
//! answered and flushed is there, and nothing is answered after.

use std::fs::{self, OpenOptions};
use std::io;
use std::os::unix::fs::{FileExt, OpenOptionsExt};
use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::thread;

use iolane::Buffer;
use iolane_disk::served::nbd;

use super::{Loop, Place, Serving, iolane, is_mounted, may_mount, wait};

const SECTOR: usize = 512;
const BLOCK: usize = 8 * SECTOR;
const WRITERS: u64 = 6;
const BLOCKS: u64 = 16;
const BETWEEN_FLUSHES: u64 = 5;
const LOSES: [&str; 2] = [
    "--faults",
    "lost=0.4:power-cut,torn=512:0.5:power-cut,seed=3",
];

/// A way to the disk, one request after the other.
trait Client: Send {
    fn write(&mut self, offset: u64, data: &[u8]) -> io::Result<()>;
    fn flush(&mut self) -> io::Result<()>;
}

impl Client for fs::File {
    fn write(&mut self, offset: u64, data: &[u8]) -> io::Result<()> {
        self.write_all_at(data, offset)
    }

    fn flush(&mut self) -> io::Result<()> {
        self.sync_data()
    }
}

struct Nbd(nbd::Sender, nbd::Receiver);

impl Nbd {
    fn answer(&mut self) -> io::Result<()> {
        match self.1.receive()?.error {
            0 => Ok(()),
            number => Err(io::Error::from_raw_os_error(number as i32)),
        }
    }
}

impl Client for Nbd {
    fn write(&mut self, offset: u64, data: &[u8]) -> io::Result<()> {
        self.0.write(1, offset, data, false)?;
        self.answer()
    }

    fn flush(&mut self) -> io::Result<()> {
        self.0.flush(2)?;
        self.answer()
    }
}

/// By a file: the mounted one, or a loop device.
fn by_file(path: PathBuf) -> impl Fn(u64) -> Box<dyn Client> + Sync {
    move |_| {
        let mut options = OpenOptions::new();
        options.read(true).write(true).custom_flags(libc::O_DIRECT);
        Box::new(options.open(&path).unwrap())
    }
}

fn by_socket(path: PathBuf) -> impl Fn(u64) -> Box<dyn Client> + Sync {
    move |_| {
        let (sender, receiver) = nbd::connect(&path).unwrap();
        Box::new(Nbd(sender, receiver))
    }
}

/// What is known of a block: its versions are numbers.
#[derive(Clone, Copy, Debug, Default)]
struct Known {
    submitted: u64,
    answered: u64,
    durable: u64,
}

/// Each writes its own blocks until something fails, and flushes now and then.
struct Writers {
    has_ended: AtomicBool,
    after_the_end: AtomicU64,
    flushes: AtomicU64,
}

impl Writers {
    /// Runs them, and `end` when they are at it; what they know then, and what
    /// that gave. After it nothing may be answered.
    fn run<T>(
        open: impl Fn(u64) -> Box<dyn Client> + Sync,
        end: impl FnOnce() -> T,
    ) -> (Vec<Known>, T) {
        let writers = Self {
            has_ended: AtomicBool::new(false),
            after_the_end: AtomicU64::new(0),
            flushes: AtomicU64::new(0),
        };
        let known = thread::scope(|scope| {
            let running: Vec<_> = (0..WRITERS)
                .map(|writer| {
                    let (writers, client) = (&writers, open(writer));
                    scope.spawn(move || writers.write(writer, client))
                })
                .collect();
            wait("flushes", || {
                (writers.flushes.load(Ordering::Relaxed) > 20).then_some(())
            });
            let ended = end();
            writers.has_ended.store(true, Ordering::SeqCst);
            let known = running.into_iter().map(|writer| writer.join().unwrap());
            (known.collect::<Vec<_>>().concat(), ended)
        });
        assert_eq!(writers.after_the_end.into_inner(), 0);
        known
    }

    fn write(&self, writer: u64, mut client: Box<dyn Client>) -> Vec<Known> {
        let mut known = vec![Known::default(); BLOCKS as usize];
        let mut data = Buffer::new(BLOCK);
        for number in 0.. {
            let had_ended = self.has_ended.load(Ordering::SeqCst);
            let is_good = if number % BETWEEN_FLUSHES == BETWEEN_FLUSHES - 1 {
                let flushed = client.flush().is_ok();
                if flushed {
                    known.iter_mut().for_each(|of| of.durable = of.answered);
                    self.flushes.fetch_add(1, Ordering::Relaxed);
                }
                flushed
            } else {
                let block = number * 7 % BLOCKS;
                let of = &mut known[block as usize];
                of.submitted += 1;
                fill(&mut data, of.submitted);
                let written = client.write((writer * BLOCKS + block) * BLOCK as u64, &data);
                if written.is_ok() {
                    of.answered = of.submitted;
                }
                written.is_ok()
            };
            self.after_the_end
                .fetch_add(u64::from(is_good && had_ended), Ordering::SeqCst);
            if !is_good || had_ended {
                break;
            }
        }
        known
    }
}

fn fill(data: &mut [u8], version: u64) {
    for sector in data.chunks_mut(SECTOR) {
        sector.fill(version as u8);
        sector[..8].copy_from_slice(&version.to_le_bytes());
    }
}

/// Sectors without their last answered version; each has one that a power cut
/// may leave.
fn missing(image: &Path, known: &[Known]) -> u64 {
    let image = fs::read(image).unwrap();
    let mut missing = 0;
    for (block, of) in image.chunks(BLOCK).zip(known) {
        for sector in block.chunks(SECTOR) {
            let (version, rest) = sector.split_first_chunk().unwrap();
            let version = u64::from_le_bytes(*version);
            assert!(rest.iter().all(|&byte| byte == version as u8));
            let may_be = of.durable..=of.submitted;
            assert!(may_be.contains(&version), "{version} of {of:?}");
            missing += u64::from(version < of.answered);
        }
    }
    missing
}

/// What the server said of a cut.
fn took_bytes(said: &str) -> u64 {
    let (_, took) = said.split_once("the power cut took ").expect(said);
    match took.split_once(' ') {
        Some((bytes, _)) => bytes.parse().expect(said),
        None => {
            assert_eq!(took, "nothing\n");
            0
        }
    }
}

/// Ends it by a signal, and looks at what is left.
fn end_while_used(
    place: &Place,
    serving: Serving,
    signal: &str,
    open: impl Fn(u64) -> Box<dyn Client> + Sync,
    loses: bool,
) {
    let (known, (status, said)) = Writers::run(open, || {
        serving.signal(signal);
        serving.end()
    });
    assert_eq!(status.code(), Some(0), "{said}");
    let missing = missing(&place.path("backing"), &known);
    assert!(!is_mounted(&place.mount()));
    if loses {
        assert!(
            missing * SECTOR as u64 <= took_bytes(&said),
            "{missing}: {said}"
        );
    } else {
        assert_eq!(missing, 0, "{said}");
    }
    assert!(said.contains(" 0 errors"), "{said}");
}

#[test]
fn a_signal_is_a_power_cut_for_those_who_use_the_mounted_file() {
    for (name, loses) in [("INT", true), ("TERM", true), ("INT", false)] {
        let place = Place::new();
        let faults = if loses { &LOSES[..] } else { &[] };
        let Some(serving) = place.serve_mounted(faults) else {
            return;
        };
        let open = by_file(place.mount().join("disk"));
        end_while_used(&place, serving, name, open, loses);
    }
}

#[test]
fn a_signal_is_a_power_cut_for_those_who_use_a_loop_device() {
    let place = Place::new();
    let Some(serving) = place.serve_mounted(&LOSES) else {
        return;
    };
    let Some(device) = Loop::attach(&serving.ready) else {
        return;
    };
    end_while_used(&place, serving, "TERM", by_file(device.0.clone()), true);
}

#[test]
fn a_mount_taken_away_by_force_is_a_power_cut() {
    let place = Place::new();
    let Some(serving) = place.serve_mounted(&LOSES) else {
        return;
    };
    let (known, (status, said)) = Writers::run(by_file(place.mount().join("disk")), || {
        // It is busy, and cannot go; its connection to the server does.
        let _ = Command::new("umount").arg("-f").arg(place.mount()).output();
        serving.end()
    });
    assert_eq!(status.code(), Some(0), "{said}");
    assert!(place.stderr().contains("the mount was taken away"));
    let missing = missing(&place.path("backing"), &known);
    assert!(missing * SECTOR as u64 <= took_bytes(&said), "{said}");
}

#[test]
fn a_signal_is_a_power_cut_for_nbd_clients() {
    for (name, loses) in [("INT", true), ("TERM", false)] {
        let place = Place::new();
        let serving = place.serve_nbd(if loses { &LOSES } else { &[] });
        let open = by_socket(place.path("socket"));
        end_while_used(&place, serving, name, open, loses);
    }
}

/// By both ways at once.
#[test]
fn a_disk_whose_power_was_cut_fails_everything_until_it_is_served_again() {
    if !may_mount() {
        return;
    }
    for how in ["--mount", "--socket", "USR1"] {
        let place = Place::new();
        let (mount, socket) = (place.mount(), place.path("socket"));
        let file = mount.join("disk");
        let nbd = ["--nbd", socket.to_str().unwrap()];
        let serving = place.serve_mounted(&[&nbd[..], &LOSES].concat()).unwrap();
        let (files, sockets) = (by_file(file.clone()), by_socket(socket.clone()));
        let open = |writer| match writer % 2 {
            0 => files(writer),
            _ => sockets(writer),
        };
        let mut said = String::new();
        let (known, ()) = Writers::run(open, || match how {
            "USR1" => {
                serving.signal(how);
                wait("the cut", || {
                    place.stderr().contains("the power was cut").then_some(())
                });
            }
            _ => {
                let at = if how == "--mount" { &mount } else { &socket };
                let cut = iolane(&["disk", "cut", how, at.to_str().unwrap()]);
                assert_eq!(cut.status.code(), Some(0), "{cut:?}");
                said = String::from_utf8(cut.stdout).unwrap();
            }
        });
        let missing_then = missing(&place.path("backing"), &known);
        let (image, mut byte) = (fs::read(place.path("backing")).unwrap(), [0]);
        let read = fs::File::open(&file).unwrap().read_at(&mut byte, 0);
        assert_eq!(read.unwrap_err().raw_os_error(), Some(libc::EIO));
        let mut late = by_socket(socket.clone())(0);
        assert_eq!(late.flush().unwrap_err().raw_os_error(), Some(libc::EIO));
        drop(late);
        let last = serving.terminate();
        assert!(
            said.is_empty() || took_bytes(&said) == took_bytes(&last),
            "{said}{last}"
        );
        assert!(missing_then * SECTOR as u64 <= took_bytes(&last), "{last}");
        assert!(image == fs::read(place.path("backing")).unwrap());

        let serving = place.serve_mounted(&[]).unwrap();
        fs::File::open(&file)
            .unwrap()
            .read_exact_at(&mut byte, 0)
            .unwrap();
        serving.terminate();
    }
}

#[test]
fn only_a_served_disk_has_a_power_to_cut() {
    let place = Place::new();
    fs::write(place.mount().join("disk"), "a file").unwrap();
    for (way, at, why) in [
        ("--mount", place.mount(), "cannot be cut: "),
        ("--mount", place.path("none"), "No such file"),
        ("--socket", place.path("none"), "No such file"),
    ] {
        let cut = iolane(&["disk", "cut", way, at.to_str().unwrap()]);
        assert!(super::cause_and_remedy(&cut).contains(why), "{cut:?}");
    }
    let neither = iolane(&["disk", "cut"]);
    assert_eq!(neither.status.code(), Some(1));
}
