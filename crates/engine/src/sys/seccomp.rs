//! For tests: takes system calls away from the calling thread, as a container
//! does.

use std::io;

// include/uapi/linux/audit.h
#[cfg(target_arch = "x86_64")]
const AUDIT_ARCH: u32 = 0xc000_003e;
#[cfg(target_arch = "aarch64")]
const AUDIT_ARCH: u32 = 0xc000_00b7;

/// Offsets in `struct seccomp_data`.
const DATA_NR: u32 = 0;
const DATA_ARCH: u32 = 4;

/// From now on each of these system calls fails with EPERM in this thread and
/// in what it starts. It cannot be undone.
pub(crate) fn forbid(syscalls: &[libc::c_long]) -> io::Result<()> {
    let count = u8::try_from(syscalls.len()).expect("a handful");
    let load = (libc::BPF_LD | libc::BPF_W | libc::BPF_ABS) as u16;
    let jump_equal = (libc::BPF_JMP | libc::BPF_JEQ | libc::BPF_K) as u16;
    let give_back = (libc::BPF_RET | libc::BPF_K) as u16;
    let step = |code, k, jt, jf| libc::sock_filter { code, jt, jf, k };

    let mut filter = vec![
        step(load, DATA_ARCH, 0, 0),
        // Another architecture: to the "allow" behind the comparisons.
        step(jump_equal, AUDIT_ARCH, 0, count + 1),
        step(load, DATA_NR, 0, 0),
    ];
    for (at, &nr) in syscalls.iter().enumerate() {
        // To the "forbid" behind "allow".
        filter.push(step(jump_equal, nr as u32, count - at as u8, 0));
    }
    filter.push(step(give_back, libc::SECCOMP_RET_ALLOW, 0, 0));
    filter.push(step(
        give_back,
        libc::SECCOMP_RET_ERRNO | libc::EPERM as u32,
        0,
        0,
    ));

    let program = libc::sock_fprog {
        len: filter.len() as u16,
        filter: filter.as_mut_ptr(),
    };
    // SAFETY: the program and its steps outlive the calls, which copy them.
    let result = unsafe {
        if libc::prctl(libc::PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) != 0 {
            return Err(io::Error::last_os_error());
        }
        libc::prctl(
            libc::PR_SET_SECCOMP,
            libc::SECCOMP_MODE_FILTER,
            &raw const program,
        )
    };
    if result != 0 {
        return Err(io::Error::last_os_error());
    }
    Ok(())
}
