//! The functions that the hooks stand in for, found when the library is loaded:
//! `dlsym` allocates, and hooks must not.

use std::ffi::{CStr, c_char, c_int, c_long, c_uint, c_ulong, c_void};
use std::mem;
use std::ptr;
use std::sync::atomic::{AtomicPtr, Ordering};

use libc::{iovec, mmsghdr, mode_t, msghdr, off_t, pid_t, size_t, sockaddr, socklen_t, ssize_t};

/// The function behind ours of that name. It may be called before the library's
/// own beginning, by that of another.
fn find(found: &AtomicPtr<c_void>, name: &CStr) -> *mut c_void {
    let known = found.load(Ordering::Acquire);
    if !known.is_null() {
        return known;
    }
    // SAFETY: a C string; RTLD_NEXT looks behind this library.
    let next = unsafe { libc::dlsym(libc::RTLD_NEXT, name.as_ptr()) };
    found.store(next, Ordering::Release);
    next
}

/// The program calls what does not exist behind us: as without us, it cannot go on.
fn missing() -> ! {
    // SAFETY: ends the process.
    unsafe { libc::abort() }
}

static VFORK: AtomicPtr<c_void> = AtomicPtr::new(ptr::null_mut());

/// `vfork` behind ours: nobody but its caller can call it.
pub fn vfork() -> *mut c_void {
    let found = find(&VFORK, c"vfork");
    if found.is_null() {
        missing();
    }
    found
}

macro_rules! reals {
    ($(fn $name:ident($($argument:ident: $type:ty),*) -> $result:ty;)*) => {
        $(
            #[doc = concat!("`", stringify!($name), "` behind ours.")]
            ///
            /// # Safety
            /// As for the function of that name.
            #[allow(non_snake_case)]
            pub unsafe fn $name($($argument: $type),*) -> $result {
                let found = find(&pointers::$name, names::$name);
                if found.is_null() {
                    missing();
                }
                type Function = unsafe extern "C-unwind" fn($($type),*) -> $result;
                // SAFETY: the C library's function of that name has that type; for its
                // arguments it is the caller's promise.
                unsafe { mem::transmute::<*mut c_void, Function>(found)($($argument),*) }
            }
        )*

        #[allow(non_upper_case_globals)]
        mod pointers {
            use super::*;
            $(pub static $name: AtomicPtr<c_void> = AtomicPtr::new(ptr::null_mut());)*
        }

        #[allow(non_upper_case_globals)]
        mod names {
            use std::ffi::CStr;
            $(pub const $name: &CStr =
                match CStr::from_bytes_with_nul(concat!(stringify!($name), "\0").as_bytes()) {
                    Ok(name) => name,
                    Err(_) => panic!("an identifier holds no zero"),
                };)*
        }

        /// Finds all of them.
        pub fn resolve_all() {
            $(find(&pointers::$name, names::$name);)*
            find(&VFORK, c"vfork");
        }
    };
}

reals! {
    fn read(fd: c_int, buffer: *mut c_void, count: size_t) -> ssize_t;
    fn __read_chk(fd: c_int, buffer: *mut c_void, count: size_t, size: size_t) -> ssize_t;
    fn readv(fd: c_int, pieces: *const iovec, count: c_int) -> ssize_t;
    fn pread64(fd: c_int, buffer: *mut c_void, count: size_t, offset: off_t) -> ssize_t;
    fn __pread64_chk(fd: c_int, buffer: *mut c_void, count: size_t, offset: off_t, size: size_t) -> ssize_t;
    fn preadv64(fd: c_int, pieces: *const iovec, count: c_int, offset: off_t) -> ssize_t;
    fn preadv64v2(fd: c_int, pieces: *const iovec, count: c_int, offset: off_t, flags: c_int) -> ssize_t;
    fn write(fd: c_int, buffer: *const c_void, count: size_t) -> ssize_t;
    fn writev(fd: c_int, pieces: *const iovec, count: c_int) -> ssize_t;
    fn pwrite64(fd: c_int, buffer: *const c_void, count: size_t, offset: off_t) -> ssize_t;
    fn pwritev64(fd: c_int, pieces: *const iovec, count: c_int, offset: off_t) -> ssize_t;
    fn pwritev64v2(fd: c_int, pieces: *const iovec, count: c_int, offset: off_t, flags: c_int) -> ssize_t;
    fn fsync(fd: c_int) -> c_int;
    fn fdatasync(fd: c_int) -> c_int;
    fn aio_write64(block: *mut c_void) -> c_int;
    fn lio_listio64(mode: c_int, blocks: *const *mut c_void, count: c_int, event: *mut c_void) -> c_int;
    fn sync_file_range(fd: c_int, offset: off_t, length: off_t, flags: c_uint) -> c_int;
    fn open64(path: *const c_char, flags: c_int, mode: mode_t) -> c_int;
    fn __open64_2(path: *const c_char, flags: c_int) -> c_int;
    fn openat64(folder: c_int, path: *const c_char, flags: c_int, mode: mode_t) -> c_int;
    fn __openat64_2(folder: c_int, path: *const c_char, flags: c_int) -> c_int;
    fn creat64(path: *const c_char, mode: mode_t) -> c_int;
    fn close(fd: c_int) -> c_int;
    fn unshare(flags: c_int) -> c_int;
    fn close_range(first: c_uint, last: c_uint, flags: c_int) -> c_int;
    fn closefrom(first: c_int) -> ();
    fn fclose(stream: *mut c_void) -> c_int;
    fn pclose(stream: *mut c_void) -> c_int;
    fn closedir(folder: *mut c_void) -> c_int;
    fn freopen64(path: *const c_char, mode: *const c_char, stream: *mut c_void) -> *mut c_void;
    fn fdopen(fd: c_int, mode: *const c_char) -> *mut c_void;
    fn dup(fd: c_int) -> c_int;
    fn dup2(from: c_int, to: c_int) -> c_int;
    fn dup3(from: c_int, to: c_int, flags: c_int) -> c_int;
    fn fcntl64(fd: c_int, command: c_int, argument: usize) -> c_int;
    fn ioctl(fd: c_int, command: c_ulong, argument: usize) -> c_int;
    fn syscall(number: c_long, a: usize, b: usize, c: usize, d: usize, e: usize, f: usize) -> c_long;
    fn recv(fd: c_int, buffer: *mut c_void, count: size_t, flags: c_int) -> ssize_t;
    fn __recv_chk(fd: c_int, buffer: *mut c_void, count: size_t, size: size_t, flags: c_int) -> ssize_t;
    fn recvfrom(fd: c_int, buffer: *mut c_void, count: size_t, flags: c_int, address: *mut sockaddr, length: *mut socklen_t) -> ssize_t;
    fn io_uring_queue_init(entries: c_uint, ring: *mut c_void, flags: c_uint) -> c_int;
    fn io_uring_queue_init_params(entries: c_uint, ring: *mut c_void, parameters: *mut c_void) -> c_int;
    fn io_uring_queue_init_mem(entries: c_uint, ring: *mut c_void, parameters: *mut c_void, memory: *mut c_void, bytes: size_t) -> c_int;
    fn io_uring_queue_mmap(fd: c_int, parameters: *mut c_void, ring: *mut c_void) -> c_int;
    fn io_uring_queue_exit(ring: *mut c_void) -> ();
    fn io_uring_submit(ring: *mut c_void) -> c_int;
    fn io_uring_submit_and_wait(ring: *mut c_void, wanted: c_uint) -> c_int;
    fn io_uring_submit_and_wait_timeout(ring: *mut c_void, completion: *mut c_void, wanted: c_uint, time: *mut c_void, mask: *mut c_void) -> c_int;
    fn io_uring_submit_and_get_events(ring: *mut c_void) -> c_int;
    fn ftruncate64(fd: c_int, length: off_t) -> c_int;
    fn truncate64(path: *const c_char, length: off_t) -> c_int;
    fn fallocate64(fd: c_int, mode: c_int, offset: off_t, length: off_t) -> c_int;
    fn posix_fallocate64(fd: c_int, offset: off_t, length: off_t) -> c_int;
    fn copy_file_range(from: c_int, from_offset: *mut off_t, to: c_int, to_offset: *mut off_t, length: size_t, flags: c_uint) -> ssize_t;
    fn sendfile64(to: c_int, from: c_int, offset: *mut off_t, count: size_t) -> ssize_t;
    fn splice(from: c_int, from_offset: *mut off_t, to: c_int, to_offset: *mut off_t, length: size_t, flags: c_uint) -> ssize_t;
    fn prctl(option: c_int, a: usize, b: usize, c: usize, d: usize) -> c_int;
    fn longjmp(place: *mut c_void, value: c_int) -> !;
    fn _longjmp(place: *mut c_void, value: c_int) -> !;
    fn siglongjmp(place: *mut c_void, value: c_int) -> !;
    fn __longjmp_chk(place: *mut c_void, value: c_int) -> !;
    fn _exit(status: c_int) -> !;
    fn _Exit(status: c_int) -> !;
    fn execve(path: *const c_char, arguments: *const *const c_char, environment: *const *const c_char) -> c_int;
    fn execv(path: *const c_char, arguments: *const *const c_char) -> c_int;
    fn execvp(name: *const c_char, arguments: *const *const c_char) -> c_int;
    fn execvpe(name: *const c_char, arguments: *const *const c_char, environment: *const *const c_char) -> c_int;
    fn fexecve(fd: c_int, arguments: *const *const c_char, environment: *const *const c_char) -> c_int;
    fn execveat(folder: c_int, path: *const c_char, arguments: *const *const c_char, environment: *const *const c_char, flags: c_int) -> c_int;
    fn clone(main: *mut c_void, stack: *mut c_void, flags: c_int, argument: *mut c_void, parent_number: *mut c_void, storage: *mut c_void, child_number: *mut c_void) -> c_int;
    fn _Fork() -> pid_t;
    fn posix_spawn(process: *mut pid_t, path: *const c_char, actions: *const c_void, attributes: *const c_void, arguments: *const *const c_char, environment: *const *const c_char) -> c_int;
    fn posix_spawnp(process: *mut pid_t, name: *const c_char, actions: *const c_void, attributes: *const c_void, arguments: *const *const c_char, environment: *const *const c_char) -> c_int;
    fn posix_spawn_file_actions_adddup2(actions: *mut c_void, from: c_int, to: c_int) -> c_int;
    fn system(command: *const c_char) -> c_int;
    fn popen(command: *const c_char, mode: *const c_char) -> *mut c_void;
    fn sendmsg(fd: c_int, message: *const msghdr, flags: c_int) -> ssize_t;
    fn sendmmsg(fd: c_int, messages: *mut mmsghdr, count: c_uint, flags: c_int) -> c_int;
    fn recvmsg(fd: c_int, message: *mut msghdr, flags: c_int) -> ssize_t;
}
