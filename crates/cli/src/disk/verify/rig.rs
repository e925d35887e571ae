//! A disk that is served for one run, and gone after it.

use std::path::{Path, PathBuf};
use std::sync::Arc;

use iolane_disk::Model;
use iolane_disk::medium::FileMedium;
use iolane_disk::served::backing::{self, Unsynced};
use iolane_disk::served::fuse::Fuse;
use iolane_disk::served::nbd::{self, Nbd};
use iolane_disk::served::{Lead, Server, ServerOptions};

use super::VerifyOptions;
use super::client::{Client, FileClient, NbdClient};
use crate::args::disk::Transport;
use crate::cleanup::{Registration, remove_own};
use crate::disk::lead::{self, Way};
use crate::disk::loop_device::LoopDevice;
use crate::disk::{failure, serve};
use crate::error::Failure;
use crate::session::Session;
use crate::survivor::Survivor;

/// Requests of one run: two minutes of the fastest way through the kernel.
const TAKEN_MAX: usize = 4_000_000;

/// A directory with all that is needed; gone when dropped.
pub struct Place<'a> {
    pub options: &'a VerifyOptions,
    session: &'a Session,
    usual_latency_ns: u64,
    directory: PathBuf,
    _remove: Registration,
    _survivor: Survivor,
}

impl<'a> Place<'a> {
    pub fn new(
        options: &'a VerifyOptions,
        usual_latency_ns: u64,
        session: &'a Session,
    ) -> Result<Self, Failure> {
        let directory = options
            .directory
            .join(format!("iolane-verify-{}", std::process::id()));
        let refused = |source| Failure::Output {
            path: directory.clone(),
            source,
        };
        std::fs::create_dir(&directory).map_err(refused)?;
        let own = directory.clone();
        let remove = session.cleanups.register(move || {
            remove_own(&own);
        });
        let mount = directory.join("mount");
        std::fs::create_dir(&mount).map_err(refused)?;
        let survivor = Survivor::watch(&mount, Some(&directory), session);
        Ok(Self {
            options,
            session,
            usual_latency_ns,
            directory,
            _remove: remove,
            _survivor: survivor,
        })
    }

    fn mount_point(&self) -> PathBuf {
        self.directory.join("mount")
    }

    /// What the transport takes. Fails where there is no such transport.
    pub fn lead(&self, transport: Transport) -> Result<Lead, Failure> {
        let directory = self.mount_point();
        let way = match transport {
            Transport::Loop => Way::Loop(&directory),
            Transport::Nbd => Way::Nbd,
        };
        let choice = self.options.lead;
        lead::choose(choice, &way, self.usual_latency_ns, self.session)
    }
}

/// Fields are dropped from the outermost to the innermost.
pub struct Rig {
    device: Option<LoopDevice>,
    _unmount: Option<Registration>,
    _fuse: Option<Fuse>,
    nbd: Option<Nbd>,
    server: Arc<Server>,
    block_size_bytes: usize,
    writes: bool,
}

impl Rig {
    pub fn serve(
        place: &Place<'_>,
        transport: Transport,
        lead: Lead,
        model: Box<dyn Model>,
    ) -> Result<Self, Failure> {
        let options = place.options;
        let path = place.directory.join("backing");
        let size_bytes = options.size_bytes;
        let file = backing::open(&path, size_bytes).map_err(|error| failure::backing(&error))?;
        let medium = Arc::new(Unsynced(FileMedium::new(file, size_bytes)));
        let server_options = ServerOptions {
            lead,
            usual_latency_ns: place.usual_latency_ns,
            taken_max: TAKEN_MAX,
            ..ServerOptions::default()
        };
        let server = Server::start(model, medium, &server_options)
            .map_err(|error| failure::machine(&error))?;
        let mut rig = Self {
            device: None,
            _unmount: None,
            _fuse: None,
            nbd: None,
            server: Arc::new(server),
            block_size_bytes: options.block_size_bytes as usize,
            writes: options.operation == crate::args::choices::Operation::Write,
        };
        match transport {
            Transport::Loop => rig.attach(&place.mount_point(), place.session)?,
            Transport::Nbd => {
                let path = place.directory.join("socket");
                let nbd = Nbd::listen(&path, Arc::clone(&rig.server));
                rig.nbd = Some(nbd.map_err(|error| failure::nbd(&error))?);
            }
        }
        Ok(rig)
    }

    fn attach(&mut self, directory: &Path, session: &Session) -> Result<(), Failure> {
        let fuse = Fuse::mount(directory, serve::FILE_NAME, Arc::clone(&self.server))
            .map_err(|error| failure::mount(&error))?;
        let fuse = self._fuse.insert(fuse);
        self._unmount = Some(session.cleanups.register(fuse.unmounter()));
        let device = LoopDevice::attach(fuse.file(), self.server.rotating(), &session.cleanups);
        self.device = Some(device.map_err(|said| failure::no_loop_device(&said))?);
        Ok(())
    }

    pub fn server(&self) -> &Server {
        &self.server
    }

    pub fn client(&self) -> Result<Box<dyn Client>, Failure> {
        let opened = match (&self.device, &self.nbd) {
            (Some(device), _) => {
                FileClient::open(device.path(), self.block_size_bytes, self.writes)
                    .map(|client| Box::new(client) as Box<dyn Client>)
            }
            (None, Some(nbd)) => nbd::connect(nbd.path())
                .and_then(|halves| NbdClient::new(halves, self.block_size_bytes, self.writes))
                .map(|client| Box::new(client) as Box<dyn Client>),
            (None, None) => unreachable!("a rig has a transport"),
        };
        opened.map_err(|error| Failure::transfer("opening the served disk", error))
    }
}
