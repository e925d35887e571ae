//! The engine: settings, and the devices in use.

use crate::arena::Arena;
use crate::backend::{self, BackendChoice};
use crate::completion::lock;
use crate::device::{Device, DeviceInfo, DeviceShared, OpenBackend};
use crate::error::OpenError;
use crate::file::{File, OpenOptions};
use crate::ioprio::IoPriority;
#[cfg(feature = "simulated")]
use crate::simulated::SimulatedDisk;
use crate::sys::fork::Process;
use iolane_sched::{Config, ConfigError, Policy, Scheduler};
use std::collections::HashMap;
use std::fmt;
use std::fs;
use std::path::Path;
use std::sync::{Arc, Mutex};

/// Changes the defaults of one device's scheduler.
type Configure = dyn Fn(&DeviceInfo, &mut Config) + Send + Sync;

/// What devices keep of the engine that made them.
pub(crate) struct Settings {
    pub open_backend: Box<OpenBackend>,
    pub io_priority: IoPriority,
    pub arena: Option<Arena>,
}

pub(crate) struct EngineShared {
    /// Whose files are opened, instead of the machine's.
    #[cfg(feature = "simulated")]
    pub(crate) simulated: Option<SimulatedDisk>,
    settings: Arc<Settings>,
    policy: Policy,
    configure: Option<Box<Configure>>,
    devices: Mutex<Devices>,
    process: Process,
}

#[derive(Default)]
struct Devices {
    /// By number of the whole disk.
    by_number: HashMap<(u32, u32), Arc<DeviceShared>>,
    closed: bool,
}

impl EngineShared {
    /// In a child process, nothing is opened.
    pub(crate) fn check_process(&self, path: &Path) -> Result<(), OpenError> {
        match self.process.is_this() {
            true => Ok(()),
            false => Err(OpenError::Forked {
                path: path.to_owned(),
            }),
        }
    }

    /// The device that `info` describes, new on first use.
    pub(crate) fn device(
        &self,
        info: DeviceInfo,
        path: &Path,
    ) -> Result<Arc<DeviceShared>, OpenError> {
        let mut devices = lock(&self.devices);
        if devices.closed {
            let path = path.to_owned();
            return Err(OpenError::Closed { path });
        }
        let number = (info.major, info.minor);
        if let Some(device) = devices.by_number.get(&number) {
            return Ok(Arc::clone(device));
        }
        let config = self.config(&info);
        let device =
            DeviceShared::new(info, config, Arc::clone(&self.settings)).map_err(|source| {
                OpenError::Device {
                    path: path.to_owned(),
                    source,
                }
            })?;
        let device = Arc::new(device);
        devices.by_number.insert(number, Arc::clone(&device));
        Ok(device)
    }

    fn config(&self, info: &DeviceInfo) -> Config {
        let mut config = Config::new(self.policy);
        config.rotational = info.rotational;
        if let Some(bytes) = info.transfer_bytes_max {
            config.transfer_bytes_max = config.transfer_bytes_max.min(bytes);
        }
        if let Some(configure) = &self.configure {
            configure(info, &mut config);
        }
        config
    }

    /// Refuses new requests, and waits for those outstanding. A child has none.
    fn close(&self) {
        if !self.process.is_this() {
            return;
        }
        let devices: Vec<_> = {
            let mut devices = lock(&self.devices);
            devices.closed = true;
            devices
                .by_number
                .drain()
                .map(|(_, device)| device)
                .collect()
        };
        for device in &devices {
            device.close();
        }
        for device in &devices {
            device.join();
        }
    }
}

/// How to set up an [`Engine`].
///
/// ```
/// use iolane::{BackendChoice, Engine, IoPriority, Policy, WindowConfig};
///
/// let engine = Engine::builder()
///     .backend(BackendChoice::Auto)
///     .policy(Policy::PrioDeadline)
///     .io_priority(IoPriority::Off)
///     .configure(|device, config| {
///         if device.rotational {
///             config.window = WindowConfig::Fixed(16);
///         }
///     })
///     .build()?;
/// # Ok::<(), iolane::ConfigError>(())
/// ```
#[derive(Default)]
pub struct EngineBuilder {
    backend: BackendChoice,
    policy: Option<Policy>,
    io_priority: IoPriority,
    configure: Option<Box<Configure>>,
    arena: Option<Arena>,
    open_backend: Option<Box<OpenBackend>>,
    #[cfg(feature = "simulated")]
    simulated: Option<SimulatedDisk>,
}

impl EngineBuilder {
    /// What carries queued requests to the kernel. Default: the first that
    /// works of io_uring, Linux AIO and threads.
    #[must_use]
    pub fn backend(mut self, choice: BackendChoice) -> EngineBuilder {
        self.backend = choice;
        self
    }

    /// Which rule picks the next request. Default: [`Policy::Lanes`]. Can be
    /// changed per device while running ([`Device::set_policy`]).
    #[must_use]
    pub fn policy(mut self, policy: Policy) -> EngineBuilder {
        self.policy = Some(policy);
        self
    }

    /// Whether levels go to the kernel too. Default: [`IoPriority::ByLevel`].
    #[must_use]
    pub fn io_priority(mut self, io_priority: IoPriority) -> EngineBuilder {
        self.io_priority = io_priority;
        self
    }

    /// Has the last word on the scheduler's settings of each device: called
    /// once per device, when its first file is opened, with the defaults of the
    /// policy and what the kernel says of the device already filled in.
    #[must_use]
    pub fn configure(
        mut self,
        configure: impl Fn(&DeviceInfo, &mut Config) + Send + Sync + 'static,
    ) -> EngineBuilder {
        self.configure = Some(Box::new(configure));
        self
    }

    /// Registers the arena's memory with the kernel where the backend can
    /// ([`Device::registered`]), so that transfers to and from its buffers need
    /// not pin their pages.
    #[must_use]
    pub fn arena(mut self, arena: &Arena) -> EngineBuilder {
        self.arena = Some(arena.clone());
        self
    }

    /// Opens the files of this disk instead of the machine's. The choice of a
    /// [`backend`](Self::backend) is of no matter then.
    #[cfg(feature = "simulated")]
    #[must_use]
    pub fn simulated(mut self, disk: &SimulatedDisk) -> EngineBuilder {
        self.simulated = Some(disk.clone());
        let own = disk.clone();
        self.open_backend = Some(Box::new(move |capacity| {
            backend::open_simulated(&own, capacity)
        }));
        self
    }

    /// A backend of one's own: one that fails, for tests.
    #[cfg(test)]
    pub(crate) fn open_backend(mut self, open: Box<OpenBackend>) -> EngineBuilder {
        self.open_backend = Some(open);
        self
    }

    /// The engine. Nothing is opened or started before it is needed.
    ///
    /// # Errors
    /// Settings that [`configure`](Self::configure) makes of the defaults
    /// are checked when a device is first used; here, the policy's own.
    pub fn build(self) -> Result<Engine, ConfigError> {
        let policy = self.policy.unwrap_or(Policy::Lanes);
        Scheduler::new(Config::new(policy))?;
        let choice = self.backend;
        let open_backend = self
            .open_backend
            .unwrap_or_else(|| Box::new(move |capacity| backend::open(choice, capacity)));
        Ok(Engine(EngineShared {
            #[cfg(feature = "simulated")]
            simulated: self.simulated,
            settings: Arc::new(Settings {
                open_backend,
                io_priority: self.io_priority,
                arena: self.arena,
            }),
            policy,
            configure: self.configure,
            devices: Mutex::default(),
            process: Process::this(),
        }))
    }
}

impl fmt::Debug for EngineBuilder {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("EngineBuilder")
            .field("backend", &self.backend)
            .field("policy", &self.policy)
            .field("io_priority", &self.io_priority)
            .finish_non_exhaustive()
    }
}

/// Opens files and owns the devices that they lie on.
///
/// Dropping it closes the devices: new requests fail with
/// [`Cause::Closed`](crate::Cause::Closed), those outstanding are carried out,
/// and the drop waits for them (not inside a completion callback). So whoever
/// drops it knows that nothing is under way any more, which a file that kept
/// the engine open could not say: one in a forgotten [`Pending`](crate::Pending)
/// would do. Files may outlive the engine, but are of no more use. Keep it beside
/// them: `Engine::new()?.open(..)?` drops the engine at the end of the statement.
///
/// # Threads and `fork(2)`
/// Engines, files, devices and arenas may be used from any thread, several at
/// once. A child of `fork` has a copy of them, and none of the threads behind
/// them: each request, blocking or not, fails at once there with
/// [`Cause::Forked`](crate::Cause::Forked), and so does what the child finds
/// [`Pending`](crate::Pending); its parent is not disturbed, whatever the child
/// does with its copies or drops. A child makes an engine of its own, and opens
/// its files by that. Inside a completion callback a child may only call
/// `exec` or `_exit`: when the callback returns there, the child is aborted.
///
/// ```
/// # fn main() -> Result<(), Box<dyn std::error::Error>> {
/// use iolane::{Engine, Level, OpenOptions};
/// # let dir = tempfile::tempdir()?;
/// # let path = dir.path().join("table");
/// # std::fs::write(&path, vec![3; 16384])?;
/// let engine = Engine::new()?;
/// let file = engine.open(&path, OpenOptions::new().read(true))?;
/// // A query waits for this page; it goes past everything less urgent.
/// let mut page = vec![0; 8192];
/// file.read_at(&mut page, 8192, Level::Foreground)?;
/// assert_eq!(page, vec![3; 8192]);
/// # Ok(()) }
/// ```
pub struct Engine(EngineShared);

impl Engine {
    /// With all defaults.
    ///
    /// # Errors
    /// As [`EngineBuilder::build`].
    pub fn new() -> Result<Engine, ConfigError> {
        Engine::builder().build()
    }

    /// For other settings.
    pub fn builder() -> EngineBuilder {
        EngineBuilder::default()
    }

    /// Opens a regular file or a block device.
    ///
    /// # Errors
    /// [`OpenError`], which says what to do about it.
    pub fn open(&self, path: impl AsRef<Path>, options: &OpenOptions) -> Result<File, OpenError> {
        self.0.open_file(path.as_ref(), options)
    }

    /// Takes a regular file or a block device that is open already: by another
    /// library, or handed over by another process. Whether it is read, written,
    /// direct and data-sync is as it was opened. `path` names it in errors.
    ///
    /// ```
    /// # fn main() -> Result<(), Box<dyn std::error::Error>> {
    /// use iolane::{Engine, Level};
    /// # let dir = tempfile::tempdir()?;
    /// # let path = dir.path().join("table");
    /// # std::fs::write(&path, vec![3; 16384])?;
    /// let opened = std::fs::File::open(&path)?;
    /// let engine = Engine::new()?;
    /// let file = engine.adopt(opened, &path)?;
    /// assert_eq!(file.read_at(&mut [0; 10], 0, Level::Normal)?, 10);
    /// assert!(file.write_at(b"x", 0, Level::Normal).is_err());
    /// # Ok(()) }
    /// ```
    ///
    /// # Errors
    /// [`OpenError`]. The file is closed then.
    pub fn adopt(&self, file: fs::File, path: impl AsRef<Path>) -> Result<File, OpenError> {
        self.0.adopt_file(file, path.as_ref())
    }

    /// The devices of all files opened so far. None in a child of the process
    /// that made the engine.
    pub fn devices(&self) -> Vec<Device> {
        if !self.0.process.is_this() {
            return Vec::new();
        }
        let devices = lock(&self.0.devices);
        devices.by_number.values().cloned().map(Device).collect()
    }
}

impl Drop for Engine {
    fn drop(&mut self) {
        self.0.close();
    }
}

impl fmt::Debug for Engine {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Engine")
            .field("devices", &self.devices())
            .finish_non_exhaustive()
    }
}
