//! An engine with the target open: what carries the requests of a run.

use iolane::{
    Arena, BackendChoice, BackendError, BackendKind, Config, Engine, File, IoPriority as Handed,
    OpenOptions, Policy, Snapshot,
};

use super::waiting::no_priority;
use crate::args::choices::Backend;
use crate::error::Failure;
use crate::sys::ioprio::{IoPriority, Scoped};
use crate::target::Target;

/// Most requests that a device can have in flight: what the backends hold.
pub const IN_FLIGHT_MAX: u32 = 16_384;

/// How to open a [`Carrier`].
#[derive(Clone, Copy, Debug)]
pub struct CarrierOptions {
    pub backend: Backend,
    pub direct: bool,
    pub writes: bool,
}

/// Dropping it waits for what is outstanding.
pub struct Carrier {
    pub file: File,
    _engine: Engine,
}

impl Carrier {
    /// A fresh engine. `handed` says whether priority levels go to the kernel
    /// too; `configure` has the last word on the scheduler's settings.
    ///
    /// # Errors
    /// What cannot be opened.
    pub fn open(
        options: CarrierOptions,
        policy: Policy,
        handed: Handed,
        target: &Target,
        arena: &Arena,
        configure: impl Fn(&mut Config) + Send + Sync + 'static,
    ) -> Result<Self, Failure> {
        let engine = Engine::builder()
            .backend(choice(options.backend))
            .policy(policy)
            .io_priority(handed)
            .arena(arena)
            .configure(move |_, config| configure(config))
            .build()
            .map_err(|error| Failure::setup(error.to_string(), "Give other settings."))?;
        let mut open = OpenOptions::new();
        open.read(true).write(options.writes).direct(options.direct);
        let file = engine.open(&target.open_path, &open).map_err(|error| {
            Failure::setup(
                format!("{}: {error}", target.path.display()),
                "Check that it can still be opened, or use --io buffered.",
            )
        })?;
        // Starts the driver thread, so that it is not part of what is measured.
        file.device()
            .backend()
            .map_err(|error| no_backend(&error))?;
        Ok(Self {
            file,
            _engine: engine,
        })
    }

    /// With threads that all have this kernel I/O priority.
    ///
    /// # Errors
    /// As [`open`](Self::open), and when the kernel refuses the priority.
    pub fn open_with_priority(
        priority: Option<IoPriority>,
        options: CarrierOptions,
        target: &Target,
        arena: &Arena,
        configure: impl Fn(&mut Config) + Send + Sync + 'static,
    ) -> Result<Self, Failure> {
        let _priority = priority
            .map(Scoped::set)
            .transpose()
            .map_err(|error| no_priority(&error))?;
        Self::open(options, Policy::Noop, Handed::Off, target, arena, configure)
    }

    /// Which backend it is, and why.
    pub fn backend(&self) -> String {
        match self.file.device().backend() {
            Ok(report) => report.to_string(),
            Err(error) => error.to_string(),
        }
    }

    /// The scheduler's state now.
    pub fn snapshot(&self) -> Snapshot {
        self.file.device().snapshot()
    }
}

fn choice(backend: Backend) -> BackendChoice {
    match backend {
        Backend::Auto => BackendChoice::Auto,
        Backend::IoUring => BackendChoice::Only(BackendKind::Uring),
        Backend::LinuxAio => BackendChoice::Only(BackendKind::LinuxAio),
        Backend::Threads => BackendChoice::Only(BackendKind::Threads),
    }
}

fn no_backend(error: &BackendError) -> Failure {
    Failure::setup(
        error.to_string(),
        "Choose another --backend; auto takes the best that this machine allows.",
    )
}
