//! A directory with one file in it, the disk: FUSE, for loop devices.

mod file_system;
mod mount;

pub use mount::{Fuse, MountError, loop_devices_on, take_away_by_force, unmount_stale};
