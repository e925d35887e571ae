//! Every unsafe block of this crate: thin wrappers around system calls.

mod awake;
mod clock;
mod cut;
mod lock;
mod mount;
mod priority;
mod send;
mod timer;

pub use awake::Awake;
pub use clock::now_ns;
pub use cut::{POWER_CUT, cut_power};
pub use lock::{Locking, lock_exclusively};
pub use mount::{Unmount, unmount};
pub use priority::go_first;
pub use send::{send_now, unread_bytes};
pub use timer::Timer;
