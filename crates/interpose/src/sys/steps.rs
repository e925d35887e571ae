//! What a handler of a signal may see of the work that it has interrupted: tests look between any
//! two instructions.

use std::arch::asm;
use std::cell::Cell;
use std::ffi::c_int;
use std::ptr;

type Look<'look> = &'look mut dyn FnMut();

thread_local! {
    static LOOK: Cell<*mut Look<'static>> = const { Cell::new(ptr::null_mut()) };
}

/// Does the work, and looks after each of its instructions, with the processor's trap flag. How often
/// it has looked.
pub fn after_each_instruction(work: impl FnOnce(), mut look: impl FnMut()) -> usize {
    let mut looks = 0;
    let mut look = || {
        looks += 1;
        look();
    };
    let mut look: Look<'_> = &mut look;
    LOOK.set((&raw mut look).cast());
    // SAFETY: zeros and a function make a valid action. The flag changes nothing but that the thread
    // gets SIGTRAP after each instruction, from that behind `popfq` to that which clears the flag;
    // `look` lives until then. Memory is taken to change, and the stack pointer is back in its place.
    unsafe {
        let mut action: libc::sigaction = std::mem::zeroed();
        action.sa_sigaction = trapped as *const () as usize;
        assert_eq!(
            libc::sigaction(libc::SIGTRAP, &raw const action, ptr::null_mut()),
            0
        );
        asm!("pushfq", "or qword ptr [rsp], 0x100", "popfq");
        work();
        asm!("pushfq", "and qword ptr [rsp], -0x101", "popfq");
    }
    LOOK.set(ptr::null_mut());
    looks
}

extern "C" fn trapped(_signal: c_int) {
    let look = LOOK.get();
    if !look.is_null() {
        // SAFETY: the thread is in the work of [`after_each_instruction`], which goes on afterwards,
        // and the kernel has cleared the flag for the handler.
        unsafe { (*look)() };
    }
}
