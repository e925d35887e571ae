//! A directory with one file in it, the disk: FUSE, for loop devices.

mod file_system;
mod loop_devices;
mod mount;
mod watch;

pub use loop_devices::{accounted, loop_devices_on};
pub use mount::{Fuse, MountError, take_away_by_force, unmount_stale};

pub use crate::sys::cut_power;
