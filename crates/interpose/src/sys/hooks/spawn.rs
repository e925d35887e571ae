//! What begins programs in processes that are not made by `fork`: such as inherit descriptors can
//! write to files unseen.

use std::arch::naked_asm;
use std::ffi::{c_char, c_int, c_void};

use libc::pid_t;

use crate::ahead;
use crate::sys::real;

macro_rules! spawning {
    ($($name:ident($($argument:ident: $type:ty),*) -> $result:ty;)*) => {
        $(
            /// See the manual page of that name.
            ///
            /// # Safety
            /// As there.
            #[unsafe(no_mangle)]
            #[allow(clippy::missing_safety_doc)]
            pub unsafe extern "C-unwind" fn $name($($argument: $type),*) -> $result {
                ahead::spawns();
                // SAFETY: the caller's promise.
                unsafe { real::$name($($argument),*) }
            }
        )*
    };
}

spawning! {
    posix_spawn(process: *mut pid_t, path: *const c_char, actions: *const c_void, attributes: *const c_void, arguments: *const *const c_char, environment: *const *const c_char) -> c_int;
    posix_spawnp(process: *mut pid_t, name: *const c_char, actions: *const c_void, attributes: *const c_void, arguments: *const *const c_char, environment: *const *const c_char) -> c_int;
    system(command: *const c_char) -> c_int;
    popen(command: *const c_char, mode: *const c_char) -> *mut c_void;
}

/// posix_spawn_file_actions_adddup2(3): the program inherits it, also if it is closed otherwise.
///
/// # Safety
/// As there.
#[unsafe(no_mangle)]
pub unsafe extern "C-unwind" fn posix_spawn_file_actions_adddup2(
    actions: *mut c_void,
    from: c_int,
    to: c_int,
) -> c_int {
    ahead::share(from);
    // SAFETY: the caller's promise.
    unsafe { real::posix_spawn_file_actions_adddup2(actions, from, to) }
}

/// vfork(2). It comes back twice into the same frame of the caller's, so none of ours may be there
/// by then: this one is gone before the jump.
///
/// # Safety
/// As there.
#[unsafe(naked)]
#[unsafe(no_mangle)]
pub unsafe extern "C" fn vfork() -> pid_t {
    #[cfg(target_arch = "x86_64")]
    naked_asm!(
        "endbr64",
        "sub rsp, 8",
        "call {before}",
        "add rsp, 8",
        "jmp rax",
        before = sym before_vfork,
    );
    #[cfg(target_arch = "aarch64")]
    naked_asm!(
        "hint #34",
        "stp x29, x30, [sp, #-16]!",
        "bl {before}",
        "ldp x29, x30, [sp], #16",
        "mov x16, x0",
        "br x16",
        before = sym before_vfork,
    );
}

/// Gives the address of the real one.
extern "C" fn before_vfork() -> *mut c_void {
    ahead::spawns();
    real::vfork()
}
