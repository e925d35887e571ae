//! A file system on a modelled disk, for one run: the disk is served by this
//! process, a loop device stands on it, and what is done with its files takes
//! the time that the model says.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::sync::Arc;

use iolane_disk::medium::FileMedium;
use iolane_disk::served::backing::{self, Unsynced};
use iolane_disk::served::fuse::Fuse;
use iolane_disk::served::{Server, ServerOptions, usual_latency_ns};

use super::lead::{self, Way};
use super::loop_device::LoopDevice;
use super::{describe, failure, serve};
use crate::args::disk::{LeadChoice, ModelArgs};
use crate::cleanup::{Registration, remove_own};
use crate::error::Failure;
use crate::session::Session;
use crate::survivor::Survivor;
use crate::sys::file::is_root;

/// What ext4 takes for itself, at most: an eighth and so much.
const OWN_BYTES: u64 = 96 << 20;
/// Sizes of disks are multiples of it.
const ALIGN_BYTES: u64 = 1 << 20;
/// No inodes that nobody needs, nothing done later, blocks as large as
/// transfers are multiples of.
const MKFS: [&str; 10] = [
    "-q",
    "-F",
    "-b",
    "4096",
    "-m",
    "0",
    "-N",
    "1024",
    "-E",
    "lazy_itable_init=0,lazy_journal_init=0,nodiscard",
];

/// Gone when dropped, from the outermost to the innermost.
pub struct Volume {
    /// Where its files are.
    pub path: PathBuf,
    _unmount: Registration,
    _device: LoopDevice,
    _take_away: Registration,
    _fuse: Fuse,
    _server: Arc<Server>,
    _remove: Registration,
    _survivor: Survivor,
}

impl Volume {
    /// With room for files of `size_bytes`. What it holds lies in a file in
    /// `parent`.
    ///
    /// # Errors
    /// A disk that does not exist or is too small; a machine without FUSE, loop
    /// devices or ext4, or a user who may not use them.
    pub fn make(
        parent: &Path,
        model: &ModelArgs,
        size_bytes: u64,
        session: &Session,
    ) -> Result<Self, Failure> {
        let description = describe::find(&model.model)?;
        if !is_root() {
            return Err(Failure::setup(
                "a modelled disk under a store needs a mount and a loop device",
                "Run as root, or leave out --model to measure the disk of --directory.",
            ));
        }
        let built = describe::build(&description, model)?;
        let with_own = size_bytes + size_bytes / 8 + OWN_BYTES;
        let size_bytes = with_own.next_multiple_of(ALIGN_BYTES);
        serve::size(Some(size_bytes), &*built)?;

        let place = Place::make(parent, session)?;
        let file =
            backing::open(&place.backing, size_bytes).map_err(|error| failure::backing(&error))?;
        // Before it is served, as that would only take longer.
        tool("mkfs.ext4", &MKFS, &[&place.backing])?;
        let usual_latency_ns = usual_latency_ns(describe::build(&description, model)?);
        let way = Way::Loop(&place.served);
        let options = ServerOptions {
            lead: lead::choose(LeadChoice::Auto, &way, usual_latency_ns, session)?,
            usual_latency_ns,
            ..ServerOptions::default()
        };
        let medium = Arc::new(Unsynced(FileMedium::new(file, size_bytes)));
        let server =
            Server::start(built, medium, &options).map_err(|error| failure::machine(&error))?;
        let server = Arc::new(server);
        let fuse = Fuse::mount(&place.served, serve::FILE_NAME, Arc::clone(&server))
            .map_err(|error| failure::mount(&error))?;
        let take_away = session.cleanups.register(fuse.unmounter());
        let device = LoopDevice::attach(fuse.file(), server.rotating(), &session.cleanups)
            .map_err(|said| failure::no_loop_device(&said))?;
        let options = ["-t", "ext4", "-o", "noatime"];
        tool("mount", &options, &[device.path(), &place.files])?;
        let mounted = place.files.clone();
        let unmount = session.cleanups.register(move || {
            if tool("umount", &[], &[&mounted]).is_err() {
                // Somebody stands in it, such as the run that a second signal
                // ends: it goes with the last of them.
                let _ = tool("umount", &["--lazy"], &[&mounted]);
            }
        });
        Ok(Self {
            path: place.files,
            _unmount: unmount,
            _device: device,
            _take_away: take_away,
            _fuse: fuse,
            _server: server,
            _remove: place.remove,
            _survivor: place.survivor,
        })
    }
}

/// A directory with all that is needed.
struct Place {
    backing: PathBuf,
    /// Where the disk is mounted, as a file.
    served: PathBuf,
    /// Where its file system is.
    files: PathBuf,
    remove: Registration,
    survivor: Survivor,
}

impl Place {
    fn make(parent: &Path, session: &Session) -> Result<Self, Failure> {
        let own = parent.join(format!("iolane-volume-{}.tmp", std::process::id()));
        let refused = |source| Failure::Output {
            path: own.clone(),
            source,
        };
        fs::create_dir(&own).map_err(refused)?;
        let (backing, served, files) = (own.join("backing"), own.join("disk"), own.join("files"));
        let removed = own.clone();
        let remove = session.cleanups.register(move || {
            remove_own(&removed);
        });
        fs::create_dir(&served).map_err(refused)?;
        fs::create_dir(&files).map_err(refused)?;
        let survivor = Survivor::watch(&served, Some(&own), session);
        Ok(Self {
            backing,
            served,
            files,
            remove,
            survivor,
        })
    }
}

/// Runs one of the system's.
fn tool(name: &str, options: &[&str], paths: &[&Path]) -> Result<(), Failure> {
    let output = Command::new(name)
        .args(options)
        .args(paths)
        .stdin(Stdio::null())
        .output();
    let said = match output {
        Ok(output) if output.status.success() => return Ok(()),
        Ok(output) => String::from_utf8_lossy(&output.stderr).trim().to_owned(),
        Err(error) => error.to_string(),
    };
    Err(Failure::setup(
        format!("no file system on the modelled disk: {name}: {said}"),
        "Run as root, with mkfs.ext4 (package e2fsprogs), mount and umount installed.",
    ))
}
