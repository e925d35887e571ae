//! `iolane disk`: modelled disks, as real ones.
//!
//! | file | subject |
//! |---|---|
//! | `describe` | which disks there are: `list`, `show` |
//! | `serve` | one of them, until it is told to end |
//! | `cut` | cuts the power of what is served |
//! | `verify` | whether the time of what is served is the model's |
//! | `volume` | one with a file system, for one run |
//! | `in_process` | one in memory, for one run |
//! | `lead` | what the transports take, measured before |
//! | `loop_device` | losetup(8) |
//! | `failure` | what can go wrong, with its remedy |

pub mod cut;
pub mod describe;
mod failure;
mod in_process;
mod lead;
mod loop_device;
pub mod serve;
pub mod verify;
mod volume;

pub use in_process::InProcess;
pub use volume::Volume;
