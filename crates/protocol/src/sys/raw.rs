//! System calls without the C library: a process under `iolane run` replaces its
//! `syscall`, and hooks must not touch `errno`.

use std::arch::asm;

/// Calls the kernel. Gives what it gives: minus the error's number on failure.
///
/// # Safety
/// As for the system call.
#[cfg(target_arch = "x86_64")]
pub unsafe fn syscall6(number: i64, arguments: [usize; 6]) -> isize {
    let result: isize;
    // SAFETY: the kernel's calling convention on x86-64 (syscall(2)); rcx and r11
    // are all that it changes. What the call does is the caller's promise.
    unsafe {
        asm!(
            "syscall",
            inlateout("rax") number as isize => result,
            in("rdi") arguments[0],
            in("rsi") arguments[1],
            in("rdx") arguments[2],
            in("r10") arguments[3],
            in("r8") arguments[4],
            in("r9") arguments[5],
            lateout("rcx") _,
            lateout("r11") _,
            options(nostack),
        );
    }
    result
}

/// Calls the kernel. Gives what it gives: minus the error's number on failure.
///
/// # Safety
/// As for the system call.
#[cfg(target_arch = "aarch64")]
pub unsafe fn syscall6(number: i64, arguments: [usize; 6]) -> isize {
    let result: isize;
    // SAFETY: the kernel's calling convention on aarch64 (syscall(2)). What the
    // call does is the caller's promise.
    unsafe {
        asm!(
            "svc 0",
            in("x8") number,
            inlateout("x0") arguments[0] => result,
            in("x1") arguments[1],
            in("x2") arguments[2],
            in("x3") arguments[3],
            in("x4") arguments[4],
            in("x5") arguments[5],
            options(nostack),
        );
    }
    result
}
