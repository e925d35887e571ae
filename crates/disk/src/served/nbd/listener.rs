//! The socket, and the clients that came by it.

use std::collections::HashMap;
use std::fs;
use std::io;
use std::net::Shutdown;
use std::os::fd::OwnedFd;
use std::os::unix::fs::{FileTypeExt, MetadataExt, PermissionsExt};
use std::os::unix::net::{UnixListener, UnixStream};
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::thread::{self, JoinHandle};
use std::time::{Duration, Instant};

use super::connection::serve;
use crate::served::server::Server;

/// Clients at once; each may hold two writes of 32 MiB in memory.
const CLIENTS_MAX: usize = 8;
/// How long clients may take to end once they were hung up on.
const END_WAIT_MAX: Duration = Duration::from_secs(1);
const POLL: Duration = Duration::from_millis(5);
/// Before another attempt, when the kernel is out of something.
const PAUSE: Duration = Duration::from_millis(100);

/// Why no socket could be made.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum NbdError {
    /// Somebody answers there.
    #[error("{} is in use by another server", path.display())]
    InUse {
        /// As it was given.
        path: PathBuf,
    },
    /// A file of another kind is in the way.
    #[error("{} exists and is not a socket", path.display())]
    NoSocket {
        /// As it was given.
        path: PathBuf,
    },
    /// The operating system refuses.
    #[error("cannot listen on {}: {source}", path.display())]
    System {
        /// As it was given.
        path: PathBuf,
        /// Why.
        source: io::Error,
    },
}

/// A disk on a Unix socket. Hangs up on all clients and removes the socket
/// when dropped.
pub struct Nbd {
    path: PathBuf,
    /// Device and inode: what is removed at the end must be what was made.
    made: (u64, u64),
    shared: Arc<Shared>,
    /// The listening socket, for its end.
    handle: UnixStream,
    accepting: Option<JoinHandle<()>>,
}

struct Shared {
    server: Arc<Server>,
    stopped: AtomicBool,
    clients: Mutex<HashMap<u64, UnixStream>>,
}

impl Nbd {
    /// Listens on `path`, for this user alone. A socket that a killed server
    /// left there is replaced.
    ///
    /// # Errors
    /// [`NbdError`]; nothing is left behind then.
    pub fn listen(path: &Path, server: Arc<Server>) -> Result<Nbd, NbdError> {
        let system = |source| NbdError::System {
            path: path.to_owned(),
            source,
        };
        remove_left_over(path)?;
        let listener = UnixListener::bind(path).map_err(system)?;
        let (handle, made) = prepare(path, &listener).map_err(|source| {
            let _ = fs::remove_file(path);
            system(source)
        })?;
        let shared = Arc::new(Shared {
            server,
            stopped: AtomicBool::new(false),
            clients: Mutex::default(),
        });
        let own = Arc::clone(&shared);
        let accepting = thread::Builder::new()
            .name("nbd-accept".to_owned())
            .spawn(move || own.accept(&listener));
        let mut nbd = Nbd {
            path: path.to_owned(),
            made,
            shared,
            handle,
            accepting: None,
        };
        nbd.accepting = Some(accepting.map_err(system)?);
        Ok(nbd)
    }

    /// Where it listens.
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// What removes the socket from any thread, once.
    pub fn remover(&self) -> impl FnOnce() + Send + 'static {
        let (path, made) = (self.path.clone(), self.made);
        move || remove(&path, made)
    }
}

impl Drop for Nbd {
    fn drop(&mut self) {
        self.shared.stopped.store(true, Ordering::Relaxed);
        let _ = self.handle.shutdown(Shutdown::Both);
        if let Some(accepting) = self.accepting.take() {
            // A panic of that thread has been reported when it happened.
            let _ = accepting.join();
        }
        for client in self.shared.clients().values() {
            let _ = client.shutdown(Shutdown::Both);
        }
        let start = Instant::now();
        while !self.shared.clients().is_empty() && start.elapsed() < END_WAIT_MAX {
            thread::sleep(POLL);
        }
        remove(&self.path, self.made);
    }
}

/// A listening socket can be shut down like any other, which ends the wait
/// for the next client.
fn prepare(path: &Path, listener: &UnixListener) -> io::Result<(UnixStream, (u64, u64))> {
    fs::set_permissions(path, fs::Permissions::from_mode(0o600))?;
    let handle = UnixStream::from(OwnedFd::from(listener.try_clone()?));
    let metadata = fs::symlink_metadata(path)?;
    Ok((handle, (metadata.dev(), metadata.ino())))
}

fn remove(path: &Path, made: (u64, u64)) {
    let is_ours =
        fs::symlink_metadata(path).is_ok_and(|metadata| (metadata.dev(), metadata.ino()) == made);
    if is_ours {
        let _ = fs::remove_file(path);
    }
}

fn remove_left_over(path: &Path) -> Result<(), NbdError> {
    let system = |source| NbdError::System {
        path: path.to_owned(),
        source,
    };
    match fs::symlink_metadata(path) {
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(()),
        Err(error) => return Err(system(error)),
        Ok(metadata) if !metadata.file_type().is_socket() => {
            return Err(NbdError::NoSocket {
                path: path.to_owned(),
            });
        }
        Ok(_) => {}
    }
    match UnixStream::connect(path) {
        Err(error) if error.kind() == io::ErrorKind::ConnectionRefused => {
            fs::remove_file(path).map_err(system)
        }
        Err(error) => Err(system(error)),
        Ok(_) => Err(NbdError::InUse {
            path: path.to_owned(),
        }),
    }
}

impl Shared {
    fn clients(&self) -> MutexGuard<'_, HashMap<u64, UnixStream>> {
        self.clients.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn accept(self: &Arc<Self>, listener: &UnixListener) {
        for number in 0.. {
            let accepted = listener.accept();
            if self.stopped.load(Ordering::Relaxed) {
                return;
            }
            // Too many: it is hung up on.
            let socket = match accepted {
                Ok((socket, _)) if self.clients().len() < CLIENTS_MAX => socket,
                Ok(_) => continue,
                Err(_) => {
                    thread::sleep(PAUSE);
                    continue;
                }
            };
            let Ok(handle) = socket.try_clone() else {
                continue;
            };
            self.clients().insert(number, handle);
            let own = Arc::clone(self);
            let started = thread::Builder::new()
                .name("nbd-client".to_owned())
                .spawn(move || {
                    // However it ended: there is nobody left to tell.
                    let _ = serve(&socket, &own.server);
                    own.clients().remove(&number);
                });
            if started.is_err() {
                self.clients().remove(&number);
            }
        }
    }
}
