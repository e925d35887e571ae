//! Settings and engines.

use super::buffer::iolane_arena;
use super::pointers::{self, free, give, object};
use crate::failure::{Failure, code_of};
use ::engine::{
    Arena, BackendChoice, BackendKind, Config, Deadline, Engine, IoPriority, Level, LevelConfig,
    Policy, WindowConfig,
};

/// How urgent a request is.
#[repr(C)]
#[derive(Clone, Copy)]
pub enum iolane_level {
    /// A commit waits for it: writes and syncs of the log.
    IOLANE_CRITICAL = 0,
    /// A query waits for it: a physical read, the write of a stolen page.
    IOLANE_FOREGROUND = 1,
    /// Unclassified.
    IOLANE_NORMAL = 2,
    /// Work ahead of need: read-ahead, preflush.
    IOLANE_PREFETCH = 3,
    /// Nobody waits: checkpoint without pressure, backup, scrub.
    IOLANE_BACKGROUND = 4,
}

/// Which rule picks the next request of a device.
#[repr(C)]
#[derive(Clone, Copy)]
pub enum iolane_policy {
    /// The default: the highest level with room goes first; lower levels share
    /// a learned window.
    IOLANE_LANES = 0,
    /// Hall and Bonnet (2005): one list per level with a deadline by level,
    /// expired first, otherwise position order.
    IOLANE_PRIO_DEADLINE = 1,
    /// The deadline scheduler of Linux 2.6; ignores levels.
    IOLANE_DEADLINE = 2,
    /// First in, first out; ignores levels.
    IOLANE_NOOP = 3,
}

/// What carries requests to the kernel.
#[repr(C)]
#[derive(Clone, Copy)]
pub enum iolane_backend {
    /// The first of the others that works.
    IOLANE_AUTO = 0,
    /// io_uring(7).
    IOLANE_IO_URING = 1,
    /// io_submit(2).
    IOLANE_LINUX_AIO = 2,
    /// A pool of threads that make blocking calls.
    IOLANE_THREADS = 3,
}

/// Settings of an engine.
#[derive(Default)]
pub struct iolane_options {
    backend: BackendChoice,
    policy: Option<Policy>,
    io_priority: IoPriority,
    window: Option<WindowConfig>,
    deadlines: [Option<Deadline>; Level::COUNT],
    queued_max: [Option<u32>; Level::COUNT],
    arena: Option<Arena>,
}

/// Opens files, and owns the devices that they lie on: each has one scheduler
/// and one thread.
pub struct iolane_engine(pub(super) Engine);

/// The default settings, to be changed by the functions below and given to
/// iolane_engine_new(). One thread at a time may change them. Never blocks,
/// never fails. To be freed by iolane_options_free().
#[unsafe(no_mangle)]
pub extern "C" fn iolane_options_new() -> *mut iolane_options {
    Box::into_raw(Box::default())
}

/// Frees settings; engines that were made with them keep what they need. NULL
/// is allowed. Never blocks.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn iolane_options_free(options: *mut iolane_options) {
    // SAFETY: from `iolane_options_new`, and freed once.
    unsafe { free(options) }
}

/// # Safety
/// `options` is NULL, or settings that nobody else uses now.
unsafe fn change(
    options: *mut iolane_options,
    with: impl FnOnce(&mut iolane_options) -> Result<(), Failure>,
) -> i32 {
    // SAFETY: the caller's promise.
    let Some(options) = (unsafe { options.as_mut() }) else {
        return Failure::argument("options is NULL").report();
    };
    code_of(with(options))
}

/// Which enum iolane_backend carries requests; IOLANE_AUTO by default. Never
/// blocks. Fails with IOLANE_ERROR_ARGUMENT for any other number.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn iolane_options_set_backend(
    options: *mut iolane_options,
    backend: i32,
) -> i32 {
    // SAFETY: C's promise.
    unsafe {
        change(options, |options| {
            options.backend = match backend {
                0 => BackendChoice::Auto,
                1 => BackendChoice::Only(BackendKind::Uring),
                2 => BackendChoice::Only(BackendKind::LinuxAio),
                3 => BackendChoice::Only(BackendKind::Threads),
                _ => return Err(Failure::argument(format!("there is no backend {backend}"))),
            };
            Ok(())
        })
    }
}

/// Which enum iolane_policy picks requests; IOLANE_LANES by default. Never
/// blocks. Fails with IOLANE_ERROR_ARGUMENT for any other number.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn iolane_options_set_policy(
    options: *mut iolane_options,
    policy: i32,
) -> i32 {
    // SAFETY: C's promise.
    unsafe {
        change(options, |options| {
            options.policy = Some(match policy {
                0 => Policy::Lanes,
                1 => Policy::PrioDeadline,
                2 => Policy::Deadline,
                3 => Policy::Noop,
                _ => return Err(Failure::argument(format!("there is no policy {policy}"))),
            });
            Ok(())
        })
    }
}

/// Whether levels are handed on to the kernel as I/O priorities (ioprio_set(2)),
/// so that its schedulers can help: 1, the default, or 0. Never blocks. Fails
/// with IOLANE_ERROR_ARGUMENT.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn iolane_options_set_kernel_priority(
    options: *mut iolane_options,
    enabled: i32,
) -> i32 {
    // SAFETY: C's promise.
    unsafe {
        change(options, |options| {
            options.io_priority = match enabled {
                0 => IoPriority::Off,
                _ => IoPriority::ByLevel,
            };
            Ok(())
        })
    }
}

/// How many transfers a device may have in flight: 1 to 65536, or 0 for what
/// IOLANE_LANES learns while it runs, which is its default. The others have 32,
/// IOLANE_NOOP 1024. Never blocks. Fails with IOLANE_ERROR_ARGUMENT for NULL;
/// other numbers are refused when a file is opened, with IOLANE_ERROR_SETTINGS.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn iolane_options_set_window(
    options: *mut iolane_options,
    transfers: u32,
) -> i32 {
    // SAFETY: C's promise.
    unsafe {
        change(options, |options| {
            options.window = Some(match transfers {
                0 => WindowConfig::Learned,
                transfers => WindowConfig::Fixed(transfers),
            });
            Ok(())
        })
    }
}

/// When a request of a level should go to the device at the latest: this many
/// nanoseconds after its submission. By default 31, 82, 216, 570 and 1500 times
/// what the device needs for one request, with IOLANE_PRIO_DEADLINE 0.25 to 12
/// seconds. IOLANE_NOOP and IOLANE_DEADLINE have none. Never blocks. Fails with
/// IOLANE_ERROR_ARGUMENT.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn iolane_options_set_deadline(
    options: *mut iolane_options,
    level: i32,
    nanoseconds: u64,
) -> i32 {
    // SAFETY: C's promise.
    unsafe {
        change(options, |options| {
            let level = pointers::level(level)?;
            options.deadlines[level.index()] = Some(Deadline::Fixed(nanoseconds));
            Ok(())
        })
    }
}

/// How many requests of a level may be queued per device, 1 to 1048576; 4096 by
/// default. Whoever submits more waits. Never blocks. Fails with
/// IOLANE_ERROR_ARGUMENT; a number out of range is refused when a file is
/// opened, with IOLANE_ERROR_SETTINGS.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn iolane_options_set_queued_max(
    options: *mut iolane_options,
    level: i32,
    requests: u32,
) -> i32 {
    // SAFETY: C's promise.
    unsafe {
        change(options, |options| {
            let level = pointers::level(level)?;
            options.queued_max[level.index()] = Some(requests);
            Ok(())
        })
    }
}

/// Memory that is registered with the kernel where the backend can, so that
/// transfers to and from buffers in it cost less. The engine keeps it. Never
/// blocks. Fails with IOLANE_ERROR_ARGUMENT.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn iolane_options_set_arena(
    options: *mut iolane_options,
    arena: *const iolane_arena,
) -> i32 {
    // SAFETY: C's promise.
    unsafe {
        change(options, |options| {
            options.arena = Some(object(arena, "arena")?.0.clone());
            Ok(())
        })
    }
}

/// Makes an engine with these settings; NULL stands for the defaults. Nothing is
/// opened or started before it is needed. Never blocks. Fails with
/// IOLANE_ERROR_ARGUMENT or IOLANE_ERROR_SETTINGS. To be freed by
/// iolane_engine_free().
#[unsafe(no_mangle)]
pub unsafe extern "C" fn iolane_engine_new(
    options: *const iolane_options,
    engine: *mut *mut iolane_engine,
) -> i32 {
    // SAFETY: C's promise.
    let options = unsafe { options.as_ref() };
    let defaults = iolane_options::default();
    let made = build(options.unwrap_or(&defaults));
    // SAFETY: C's promise.
    code_of(made.and_then(|made| unsafe { give(engine, made) }))
}

fn build(options: &iolane_options) -> Result<iolane_engine, Failure> {
    let mut builder = Engine::builder()
        .backend(options.backend)
        .policy(options.policy.unwrap_or(Policy::Lanes))
        .io_priority(options.io_priority);
    if let Some(arena) = &options.arena {
        builder = builder.arena(arena);
    }
    let (window, deadlines) = (options.window, options.deadlines);
    let queued_max = options.queued_max;
    let engine = builder.configure(move |_, config: &mut Config| {
        config.window = window.unwrap_or(config.window);
        for (index, level) in config.levels.iter_mut().enumerate() {
            *level = LevelConfig {
                deadline: deadlines[index].unwrap_or(level.deadline),
                queued_max: queued_max[index].unwrap_or(level.queued_max),
                ..*level
            };
        }
    });
    Ok(iolane_engine(engine.build()?))
}

/// Frees an engine: requests from now on fail with IOLANE_ERROR_CLOSED; blocks
/// until those outstanding have been carried out and their callbacks have run
/// (not inside a callback, nor in a child process). Files may be freed later.
/// NULL is allowed.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn iolane_engine_free(engine: *mut iolane_engine) {
    // SAFETY: from `iolane_engine_new`, and freed once.
    unsafe { free(engine) }
}
