//! Mounting, and ending what was mounted.

use std::ffi::OsString;
use std::fs;
use std::io;
use std::os::unix::ffi::{OsStrExt, OsStringExt};
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::sync::Arc;
use std::thread;
use std::time::{Duration, Instant, SystemTime};

use fuser::{BackgroundSession, Config, MountOption, Session};

use super::file_system::FileSystem;
use super::loop_devices::{loop_devices_on, loop_devices_where};
use super::watch::Watch;
use crate::served::server::Server;
use crate::sys::{Unmount, unmount};

/// Threads that take turns at reading requests: so many may wait for the
/// backing file at once without holding up another.
const THREADS: usize = 4;
/// What `mount` shows as the source, by which a left-over mount is known.
const SOURCE: &str = "iolane-disk";
/// How long others, and the kernel, may take to let go of a mount.
const UNUSED_WAIT_MAX: Duration = Duration::from_secs(2);
const POLL: Duration = Duration::from_millis(10);
/// How long threads may take to see that the mount is gone.
const END_WAIT_MAX: Duration = Duration::from_secs(1);

/// Why nothing could be mounted.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum MountError {
    /// Or it cannot be looked at.
    #[error("{} is not a directory to mount on: {source}", directory.display())]
    NoDirectory {
        /// As it was given.
        directory: PathBuf,
        /// Why.
        source: io::Error,
    },
    /// Files would be hidden.
    #[error("{} is not empty", directory.display())]
    NotEmpty {
        /// As it was given.
        directory: PathBuf,
    },
    /// The server of what is mounted there is gone.
    #[error("the mount of a server that has ended is still on {}", directory.display())]
    Stale {
        /// As it was given.
        directory: PathBuf,
    },
    /// The kernel has no FUSE, or the container hides it.
    #[error("/dev/fuse cannot be opened: {0}")]
    NoFuse(io::Error),
    /// Refused by the kernel or by fusermount3.
    #[error("cannot mount on {}: {source}", directory.display())]
    Refused {
        /// As it was given.
        directory: PathBuf,
        /// Why.
        source: io::Error,
    },
}

/// A mounted disk. Unmounted when dropped: those who use it have a short while
/// to let go of it, unless its power is cut; then they get errors.
pub struct Fuse {
    _watch: Option<Watch>,
    session: Option<BackgroundSession>,
    server: Arc<Server>,
    place: Place,
}

/// Where a disk is mounted.
#[derive(Clone)]
struct Place {
    directory: PathBuf,
    /// In it.
    file: PathBuf,
    /// The kernel's number for its connection to the server.
    connection: Option<u32>,
}

impl Fuse {
    /// Mounts `server` on an empty `directory`, as a file called `name`. While
    /// it is used by loop devices alone, the server's lead is kept right by
    /// what the kernel accounts of these
    /// ([`Server::correct_lead`]).
    ///
    /// # Errors
    /// [`MountError`]; nothing is mounted then.
    pub fn mount(
        directory: &Path,
        name: &'static str,
        server: Arc<Server>,
    ) -> Result<Fuse, MountError> {
        let given = directory;
        let directory = check_directory(directory)?;
        let owner = fs::metadata("/proc/self").map_err(MountError::NoFuse)?;
        fs::OpenOptions::new()
            .read(true)
            .write(true)
            .open("/dev/fuse")
            .map_err(MountError::NoFuse)?;
        let file = directory.join(name);
        let refused = |source| MountError::Refused {
            directory: given.to_owned(),
            source,
        };
        let watch = server.can_be_corrected();
        let watch = watch.then(|| Watch::start(&server, &file)).transpose();
        let watch = watch.map_err(refused)?;
        let file_system = FileSystem {
            server: Arc::clone(&server),
            name,
            uid: owner.uid(),
            gid: owner.gid(),
            since: SystemTime::now(),
        };
        let mut config = Config::default();
        config.mount_options = vec![
            MountOption::FSName(SOURCE.to_owned()),
            MountOption::DefaultPermissions,
            MountOption::NoExec,
            MountOption::NoAtime,
        ];
        config.n_threads = Some(THREADS);
        let session = Session::new(file_system, &directory, &config).map_err(refused)?;
        let session = session.spawn().map_err(refused)?;
        let connection = connection(&directory);
        Ok(Fuse {
            _watch: watch,
            session: Some(session),
            server,
            place: Place {
                directory,
                file,
                connection,
            },
        })
    }

    /// The disk's file.
    pub fn file(&self) -> &Path {
        &self.place.file
    }

    /// The mount was taken away.
    pub fn has_ended(&self) -> bool {
        let session = self.session.as_ref();
        session.is_none_or(|session| session.guard.is_finished())
    }

    /// What takes the mount away from any thread, once.
    pub fn unmounter(&self) -> impl FnOnce() + Send + 'static {
        let (place, server) = (self.place.clone(), Arc::clone(&self.server));
        move || place.end(&server)
    }
}

impl Drop for Fuse {
    fn drop(&mut self) {
        let Some(session) = self.session.take() else {
            return;
        };
        if !session.guard.is_finished() {
            self.place.end(&self.server);
        }
        let start = Instant::now();
        while !session.guard.is_finished() && start.elapsed() < END_WAIT_MAX {
            thread::sleep(POLL);
        }
        // Its own end would unmount whatever is mounted there by now. What is
        // leaked is a descriptor.
        std::mem::forget(session);
    }
}

impl Place {
    /// Nobody waits for a disk that fails everything.
    fn end(&self, server: &Server) {
        if !server.has_power() {
            self.abort();
        }
        take_away(self);
    }

    /// Ends the connection to the server, whoever uses it: all that is asked of
    /// it fails from now on. While it is in sight.
    fn abort(&self) {
        if !mounted_by_us(&self.directory) {
            return;
        }
        // Also unmounts it, where nobody uses it.
        let aborted = unmount(&self.directory, Unmount::Force);
        let may_not = |error: &io::Error| error.raw_os_error() == Some(libc::EPERM);
        if let (true, Some(number)) = (aborted.is_err_and(|error| may_not(&error)), self.connection)
        {
            // For its owner, where that file system is mounted.
            let connection = Path::new("/sys/fs/fuse/connections").join(number.to_string());
            let _ = fs::write(connection.join("abort"), "1");
        }
    }
}

/// Of what is mounted there: its device's minor number (fs/fuse/control.c).
fn connection(directory: &Path) -> Option<u32> {
    let metadata = fs::metadata(directory).ok()?;
    Some(libc::minor(metadata.dev()))
}

fn check_directory(given: &Path) -> Result<PathBuf, MountError> {
    let no_directory = |source: io::Error| match source.raw_os_error() {
        Some(libc::ENOTCONN) => MountError::Stale {
            directory: given.to_owned(),
        },
        _ => MountError::NoDirectory {
            directory: given.to_owned(),
            source,
        },
    };
    let directory = fs::canonicalize(given).map_err(no_directory)?;
    let mut entries = fs::read_dir(&directory).map_err(no_directory)?;
    if entries.next().is_some() {
        return Err(MountError::NotEmpty {
            directory: given.to_owned(),
        });
    }
    Ok(directory)
}

/// Unmounts, first loop devices that stand on the disk. Who uses it for longer
/// gets errors. It stays where nobody may unmount it, which cannot be, for who
/// may mount may unmount.
fn take_away(place: &Place) {
    let directory = &place.directory;
    for device in loop_devices_on(&place.file) {
        detach(&device);
    }
    let start = Instant::now();
    loop {
        match unmount(directory, Unmount::WhenUnused) {
            Err(error)
                if error.raw_os_error() == Some(libc::EBUSY)
                    && start.elapsed() < UNUSED_WAIT_MAX =>
            {
                thread::sleep(POLL);
            }
            Err(error) if error.raw_os_error() == Some(libc::EBUSY) => {
                place.abort();
                let _ = unmount(directory, Unmount::Detach);
                return;
            }
            Err(error) if error.raw_os_error() == Some(libc::EPERM) => {
                place.abort();
                let mut helper = Command::new("fusermount3");
                let _ = quiet(helper.args(["-u", "-z", "--"]).arg(directory)).status();
                return;
            }
            Ok(()) | Err(_) => return,
        }
    }
}

fn quiet(command: &mut Command) -> &mut Command {
    command
        .stdin(Stdio::null())
        .stdout(Stdio::null())
        .stderr(Stdio::null())
}

/// Takes away the mount that a killed server left on `directory`. False where
/// what is there is not known to be one.
///
/// # Errors
/// When the system does not let it be unmounted.
pub fn unmount_stale(directory: &Path) -> io::Result<bool> {
    // Its attributes are known to the kernel for ever, once they were asked for.
    let stale =
        fs::read_dir(directory).is_err_and(|error| error.raw_os_error() == Some(libc::ENOTCONN));
    // It cannot be canonicalized itself, but its parent can.
    let absolute = std::path::absolute(directory)?;
    let (Some(parent), Some(name)) = (absolute.parent(), absolute.file_name()) else {
        return Ok(false);
    };
    let directory = fs::canonicalize(parent)?.join(name);
    if !stale || !mounted_by_us(&directory) {
        return Ok(false);
    }
    take_away(&Place {
        file: directory.join("disk"),
        directory: directory.clone(),
        connection: None,
    });
    fs::read_dir(&directory).map(|_| true)
}

/// Takes away the mount of a server that was killed and, as its own threads wait
/// for it, cannot end: first aborts all that is under way, then what is mounted
/// from loop devices that stand on it, these, and the mount. Does nothing where
/// what is there is none of ours, or another has taken its place. Says whether
/// it is gone, after two seconds at the most: what others still use then goes when
/// they let go of it.
///
/// `directory` is a path without symbolic links: nothing may look at it.
pub fn take_away_by_force(directory: &Path) -> bool {
    let start = Instant::now();
    let number = number_of_ours(directory);
    let is_there = || number.is_some() && number_of_ours(directory) == number;
    // A program that was attaching a loop device when the server was killed goes
    // on when its requests are aborted. The device is found while the mount is in
    // sight: afterwards the kernel no longer gives the file's place.
    while is_there() && start.elapsed() < UNUSED_WAIT_MAX {
        let _ = unmount(directory, Unmount::Force);
        if !is_there() {
            break;
        }
        for device in loop_devices_where(|backing| backing.starts_with(directory)) {
            for place in mounts_of(device.as_os_str().as_bytes()) {
                let _ = unmount(&place, Unmount::Detach);
            }
            detach(&device);
        }
        thread::sleep(POLL);
    }
    if is_there() {
        let _ = unmount(directory, Unmount::Detach);
    }
    !is_there()
}

/// The kernel's number of the mount by us that is seen on `directory`: another one has
/// another. proc_pid_mountinfo(5).
fn number_of_ours(directory: &Path) -> Option<u64> {
    let mounts = fs::read("/proc/self/mountinfo").unwrap_or_default();
    let lines = mounts.split(|&byte| byte == b'\n').rev();
    // The last is the one in sight.
    let mut lines = lines.map(|line| line.split(|&byte| byte == b' ').collect::<Vec<_>>());
    let fields = lines.find(|fields| {
        let place = fields.get(4).map(|place| unescaped(place));
        place.is_some_and(|place| place == directory.as_os_str().as_bytes())
    })?;
    let options = fields.iter().position(|&field| field == b"-")?;
    let source = fields.get(options + 2)?;
    let number = std::str::from_utf8(fields[0]).ok()?;
    let is_ours = unescaped(source) == SOURCE.as_bytes();
    is_ours.then(|| number.parse().ok()).flatten()
}

fn mounted_by_us(directory: &Path) -> bool {
    number_of_ours(directory).is_some()
}

fn detach(device: &Path) {
    let _ = quiet(Command::new("losetup").arg("--detach").arg(device)).status();
}

/// Where something from `source` is mounted.
fn mounts_of(source: &[u8]) -> Vec<PathBuf> {
    let mounts = fs::read("/proc/self/mounts").unwrap_or_default();
    let lines = mounts.split(|&byte| byte == b'\n');
    let places = lines.filter_map(|line| {
        let mut fields = line.split(|&byte| byte == b' ');
        let (from, place) = (fields.next()?, fields.next()?);
        (from == source).then(|| PathBuf::from(OsString::from_vec(unescaped(place))))
    });
    places.collect()
}

/// proc(5): white space and backslashes are written as `\040` and the like.
fn unescaped(field: &[u8]) -> Vec<u8> {
    let mut bytes = Vec::new();
    let mut at = 0;
    while at < field.len() {
        let digits = field.get(at + 1..at + 4).filter(|_| field[at] == b'\\');
        let code = digits
            .and_then(|digits| std::str::from_utf8(digits).ok())
            .and_then(|digits| u8::from_str_radix(digits, 8).ok());
        bytes.push(code.unwrap_or(field[at]));
        at += if code.is_some() { 4 } else { 1 };
    }
    bytes
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn mount_points_with_blanks_are_read_as_they_are() {
        assert_eq!(unescaped(br"/mnt/a\040b\134c"), b"/mnt/a b\\c");
        assert_eq!(unescaped(br"/mnt\04"), br"/mnt\04");
    }

    #[test]
    fn only_an_empty_directory_is_mounted_on() {
        let directory = tempfile::tempdir().unwrap();
        let file = directory.path().join("file");
        fs::write(&file, "").unwrap();
        assert!(matches!(
            check_directory(directory.path()),
            Err(MountError::NotEmpty { .. })
        ));
        assert!(matches!(
            check_directory(&file),
            Err(MountError::NoDirectory { .. })
        ));
        assert!(matches!(
            check_directory(&directory.path().join("none")),
            Err(MountError::NoDirectory { .. })
        ));
    }
}
