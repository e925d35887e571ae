//! The end of a context (io_destroy(2)).
//!
//! The call waits for what the kernel has, and long before it comes back another thread may have
//! made a context with the same number. So requests have another name before it, and only those
//! that have it are dropped when it is back.

use std::sync::atomic::{AtomicUsize, Ordering};

use super::{FLYING, LEAVING, PENDING, Pending, clear, flush, give_back};
use crate::contexts;
use crate::gather;

/// Names are odd: contexts begin where a page does.
static NEXT_NAME: AtomicUsize = AtomicUsize::new(1);

/// Destroys a context. `do_it` gives what io_destroy(2) does.
pub fn destroy(context: usize, do_it: impl FnOnce() -> isize) -> isize {
    flush(|of, _| of == context);
    let name = NEXT_NAME.fetch_add(2, Ordering::Relaxed);
    contexts::close(context);
    rename(context, name);
    let result = do_it();
    if result == 0 {
        drop_named(name);
    } else {
        rename(name, context);
    }
    result
}

fn rename(from: usize, to: usize) {
    gather::rename_context(from, to);
    for pending in &PENDING {
        let _ = pending
            .context
            .compare_exchange(from, to, Ordering::Relaxed, Ordering::Relaxed);
    }
}

/// Gives places back of requests whose completions nobody will see.
fn drop_named(name: usize) {
    gather::drop_context(name);
    let has_name = |pending: &Pending| pending.context.load(Ordering::Relaxed) == name;
    for (index, pending) in PENDING.iter().enumerate() {
        if !has_name(pending) || !gather::change(&pending.state, FLYING, LEAVING) {
            continue;
        }
        if has_name(pending) {
            clear(pending);
            give_back(index, 0);
        } else {
            // Another request was noted there between the two looks.
            pending.state.store(FLYING, Ordering::Release);
        }
    }
}
