//! Power cuts: what a disk may hold afterwards.
//!
//! A [`Recorder`] keeps every write and sync of one or several files.
//! [`Images`] enumerates, for every moment of the recording, what a power cut
//! at that moment can leave; each [`Image`] costs its differences to what is
//! durable, however large the files are, and image number *k* can be made
//! again from the recording and the plan alone.
//!
//! # What is durable
//!
//! An operation begins when it is handed to the disk and ends when the disk
//! acknowledges it. A write is **durable** at a moment if
//! - a sync of the same file had ended by then that had begun when the write
//!   had already ended, or
//! - it is a durable write (forced unit access, `O_DSYNC`) and has ended.
//!
//! A sync that failed, or that was lost by a [fault](crate::fault), covers
//! nothing. A sync of one file covers no other file. Direct writes are not
//! durable without a sync.
//!
//! A write that had begun and is not durable is **loose**: in flight, or in
//! the disk's cache. At a power cut it may have arrived, or not, or in part,
//! in units of 512 or 4096 bytes on multiples of their size.
//!
//! # What an image is
//!
//! What was durable, and on it any subset of the loose writes, some torn.
//! Where writes overlap, the one handed over later wins, and a loose write
//! never replaces a durable one that was handed over later. That a disk
//! carried out two loose writes in another order is the same as that it lost,
//! where they overlap, the later one; so images with any order are among
//! them. Overlapping writes in flight at the same time have no order on a
//! real disk; here they have that of their beginning (the engine's scheduler
//! never lets them be in flight together).
//!
//! # Sizes and names
//!
//! A write behind the end of a file extends it, if it arrives; what lies
//! between reads as zeros. Other changes of the size (truncation,
//! preallocation) are loose until a sync of the file covers them, or a later
//! change of the file becomes durable. They are kept in order, as in a
//! filesystem's journal: if one is lost, so are the later ones of that file.
//!
//! Creating, renaming and removing a file are loose, too, each in one step,
//! until the names are synced ([`Recorder::sync_names`]), as by `fsync(2)` of
//! the directory. A sync of the file is not enough, as that manual says.
//! Directories are not told apart: a sync covers all names.
//!
//! | file | subject |
//! |---|---|
//! | `cow` | contents that share what they have in common |
//! | `recorder` | what happened |
//! | `replay` | what of it is durable at each moment |
//! | `images`, `image` | what power cuts can leave, and what one left |

mod cow;
mod image;
mod images;
mod recorder;
mod replay;
#[cfg(test)]
mod tests;

pub use cow::CowMedium;
pub use image::Image;
pub use images::{Choice, CrashPlan, CrashPlanError, EXHAUSTIVE_MAX, Images};
pub use recorder::{Begun, Promise, RecordedFile, Recorder, RecorderLimits, Recording};
