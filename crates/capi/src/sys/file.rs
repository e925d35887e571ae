//! Files.

use super::engine::iolane_engine;
use super::pointers::{free, give, object, path};
use crate::failure::{Failure, code_of, number_of};
use ::engine::{BackendKind, File, OpenOptions};
use std::ffi::c_char;
use std::os::fd::{FromRawFd, OwnedFd};

/// How to open a file: any of these together.
#[repr(C)]
#[derive(Clone, Copy)]
pub enum iolane_open {
    /// For reading.
    IOLANE_OPEN_READ = 1,
    /// For writing.
    IOLANE_OPEN_WRITE = 2,
    /// Make it if it does not exist.
    IOLANE_OPEN_CREATE = 4,
    /// Make it, and fail if it exists.
    IOLANE_OPEN_CREATE_NEW = 8,
    /// Empty it.
    IOLANE_OPEN_TRUNCATE = 16,
    /// Past the page cache. Requests must fit the file's alignments then.
    IOLANE_OPEN_DIRECT = 32,
    /// Every write is durable when it has completed (O_DSYNC).
    IOLANE_OPEN_DATA_SYNC = 64,
    /// Of a block device: fail if it is mounted or in use otherwise.
    IOLANE_OPEN_EXCLUSIVE = 128,
}

/// All of them.
const FLAGS: u32 = 255;

/// An open file or block device.
pub struct iolane_file(pub(super) File);

/// Opens a regular file or a block device. `flags` are of enum iolane_open, at
/// least one of IOLANE_OPEN_READ and IOLANE_OPEN_WRITE. The file is made at least
/// `size` bytes long, with the space allocated where the filesystem can; 0 leaves
/// it as it is. Blocks as open(2) does. Requests on one file that overlap, one of
/// them a write, are carried out in the order of their submission. Fails with
/// IOLANE_ERROR_OS, _ARGUMENT, _NOT_A_FILE, _NO_DIRECT, _SETTINGS or _FORKED. To
/// be freed by iolane_file_free().
#[unsafe(no_mangle)]
pub unsafe extern "C" fn iolane_file_open(
    engine: *const iolane_engine,
    name: *const c_char,
    flags: u32,
    size: u64,
    file: *mut *mut iolane_file,
) -> i32 {
    // SAFETY: C's promise.
    code_of(unsafe {
        object(engine, "engine").and_then(|engine| {
            let opened = engine.0.open(path(name)?, &options(flags, size)?)?;
            give(file, iolane_file(opened))
        })
    })
}

fn options(flags: u32, size: u64) -> Result<OpenOptions, Failure> {
    use iolane_open::*;
    if flags & !FLAGS != 0 {
        return Err(Failure::argument(format!(
            "unknown flags {:#x}",
            flags & !FLAGS
        )));
    }
    let has = |flag: iolane_open| flags & flag as u32 != 0;
    let mut options = OpenOptions::new();
    options
        .read(has(IOLANE_OPEN_READ))
        .write(has(IOLANE_OPEN_WRITE))
        .create(has(IOLANE_OPEN_CREATE))
        .create_new(has(IOLANE_OPEN_CREATE_NEW))
        .truncate(has(IOLANE_OPEN_TRUNCATE))
        .direct(has(IOLANE_OPEN_DIRECT))
        .data_sync(has(IOLANE_OPEN_DATA_SYNC))
        .exclusive(has(IOLANE_OPEN_EXCLUSIVE));
    if size > 0 {
        options.size(size);
    }
    Ok(options)
}

/// Takes over a file that is open already, by its descriptor, which is closed
/// with the file, and also on failure. Access, O_DIRECT and O_DSYNC are as it was
/// opened. `name` names it in errors. Never blocks for long. Fails as
/// iolane_file_open(). To be freed by iolane_file_free().
#[unsafe(no_mangle)]
pub unsafe extern "C" fn iolane_file_adopt(
    engine: *const iolane_engine,
    descriptor: i32,
    name: *const c_char,
    file: *mut *mut iolane_file,
) -> i32 {
    if descriptor < 0 {
        return Failure::argument(format!("there is no descriptor {descriptor}")).report();
    }
    // SAFETY: C hands over an open descriptor.
    let owned = unsafe { OwnedFd::from_raw_fd(descriptor) };
    // SAFETY: C's promise.
    code_of(unsafe {
        object(engine, "engine").and_then(|engine| {
            let adopted = engine.0.adopt(owned.into(), path(name)?)?;
            give(file, iolane_file(adopted))
        })
    })
}

/// Frees a file. It is closed when its last request has completed. NULL is
/// allowed. Never blocks but as close(2) does.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn iolane_file_free(file: *mut iolane_file) {
    // SAFETY: from one of the functions above, and freed once.
    unsafe { free(file) }
}

/// Bytes now: a file's end, or a device's capacity. Blocks as fstat(2) does.
/// Fails with IOLANE_ERROR_OS or IOLANE_ERROR_ARGUMENT.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn iolane_file_size(file: *const iolane_file) -> i64 {
    // SAFETY: C's promise.
    let file = unsafe { object(file, "file") };
    number_of(file.and_then(|file| Ok(file.0.size()?)))
}

/// What offsets and lengths must be multiples of, in bytes; 1 of a file that is
/// not direct. Never blocks. Fails with IOLANE_ERROR_ARGUMENT.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn iolane_file_offset_alignment(file: *const iolane_file) -> i64 {
    // SAFETY: C's promise.
    let file = unsafe { object(file, "file") };
    number_of(file.map(|file| u64::from(file.0.alignment().offset_bytes)))
}

/// What addresses of buffers must be multiples of, in bytes; 1 of a file that is
/// not direct. Never blocks. Fails with IOLANE_ERROR_ARGUMENT.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn iolane_file_memory_alignment(file: *const iolane_file) -> i64 {
    // SAFETY: C's promise.
    let file = unsafe { object(file, "file") };
    number_of(file.map(|file| u64::from(file.0.alignment().memory_bytes)))
}

/// The enum iolane_backend that carries requests of the file's device. Starts
/// the device's thread if nothing did before, and waits for that. Fails with
/// IOLANE_ERROR_NO_BACKEND, _ARGUMENT or _FORKED.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn iolane_file_backend(file: *const iolane_file) -> i32 {
    // SAFETY: C's promise.
    let chosen = unsafe { object(file, "file") }.and_then(|file| {
        let device = file.0.device();
        let report = device.backend()?;
        Ok(report.chosen())
    });
    match chosen {
        Ok(BackendKind::Uring) => super::engine::iolane_backend::IOLANE_IO_URING as i32,
        Ok(BackendKind::LinuxAio) => super::engine::iolane_backend::IOLANE_LINUX_AIO as i32,
        Ok(_) => super::engine::iolane_backend::IOLANE_THREADS as i32,
        Err(failure) => failure.report(),
    }
}
