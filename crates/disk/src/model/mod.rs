//! What every modelled disk is: commands in, completions out, time given.

mod check;
pub mod cloud;
mod constant;
pub mod flash;
#[cfg(test)]
mod foresight;
#[cfg(test)]
mod loops;
mod raid;
mod rotating;
mod seeded;

pub use cloud::{Cloud, CloudParameters};
pub use constant::{Constant, ConstantParameters};
pub use flash::{Flash, FlashParameters};
pub use raid::{Raid10, Raid10Parameters};
pub use rotating::{Rotating, RotatingParameters, Zone};

/// What a command does.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Kind {
    /// Reads the range.
    Read,
    /// Writes the range. Done when the disk says so: with a write-back cache
    /// that is before the data are durable.
    Write,
    /// Makes every write that was done before it durable. Has no range.
    Flush,
}

/// One command, as a disk gets it from its host.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Command {
    /// The host's name for it, unique among its outstanding commands and
    /// below [`Model::queue_max`] or not, as the host likes: the model only
    /// hands it back.
    pub tag: u32,
    /// What it does.
    pub kind: Kind,
    /// First byte, a multiple of [`Model::block_bytes`].
    pub offset: u64,
    /// Bytes, a multiple of [`Model::block_bytes`]; 0 for a flush.
    pub length: u32,
    /// A write that is done only when it is durable (forced unit access).
    pub durable: bool,
}

/// A command that has ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Done {
    /// The command's tag.
    pub tag: u32,
    /// When the disk announced it, in nanoseconds of the caller's clock.
    pub at_ns: u64,
}

/// A disk in virtual time: a deterministic state machine.
///
/// The caller owns the clock and never turns it back. It calls
/// [`advance`](Model::advance) up to the present, then
/// [`submit`](Model::submit)s, and looks at
/// [`next_event_ns`](Model::next_event_ns) for when to come back. The same
/// calls, on models made with the same parameters and seed, give the same
/// completions. Nothing blocks and nothing fails: faults are the
/// [`Medium`](crate::Medium)'s.
pub trait Model: Send {
    /// Bytes that the disk holds.
    fn capacity_bytes(&self) -> u64;

    /// Smallest unit of a command, in bytes (the logical sector).
    fn block_bytes(&self) -> u32 {
        512
    }

    /// How many commands it takes at once (tagged queue). The host holds back
    /// what goes beyond.
    fn queue_max(&self) -> usize;

    /// Whether the disk moves a head: position order then pays.
    fn rotating(&self) -> bool {
        false
    }

    /// Gives the disk a command at `now_ns`, up to which it has been advanced.
    ///
    /// # Panics
    /// With more than [`queue_max`](Model::queue_max) commands outstanding, or
    /// a range that is not aligned or lies beyond the capacity: these are
    /// errors of the host's program.
    fn submit(&mut self, now_ns: u64, command: Command);

    /// When the command that was submitted last will end, as far as the disk
    /// can say while it begins: commands that come later may delay it where
    /// they share a bus. `None` where that is decided on the way.
    fn foreseen_ns(&self) -> Option<u64> {
        None
    }

    /// The next instant at which something happens inside by itself, never
    /// before the time it was last advanced to. Not every such instant ends a
    /// command. `None` when nothing happens without another command.
    fn next_event_ns(&self) -> Option<u64>;

    /// Lets everything happen that is due until `now_ns`, inclusive, and
    /// appends the commands that ended, in order of their
    /// [`at_ns`](Done::at_ns).
    fn advance(&mut self, now_ns: u64, done: &mut Vec<Done>);
}

impl<M: Model + ?Sized> Model for Box<M> {
    fn capacity_bytes(&self) -> u64 {
        (**self).capacity_bytes()
    }

    fn block_bytes(&self) -> u32 {
        (**self).block_bytes()
    }

    fn queue_max(&self) -> usize {
        (**self).queue_max()
    }

    fn rotating(&self) -> bool {
        (**self).rotating()
    }

    fn submit(&mut self, now_ns: u64, command: Command) {
        (**self).submit(now_ns, command);
    }

    fn foreseen_ns(&self) -> Option<u64> {
        (**self).foreseen_ns()
    }

    fn next_event_ns(&self) -> Option<u64> {
        (**self).next_event_ns()
    }

    fn advance(&mut self, now_ns: u64, done: &mut Vec<Done>) {
        (**self).advance(now_ns, done);
    }
}

/// A parameter with which no disk can be built.
#[derive(Clone, Debug, PartialEq, thiserror::Error)]
#[error("{parameter} is {value}: {requirement}")]
pub struct ParameterError {
    /// Name of the parameter, as written in a model's description.
    pub parameter: String,
    /// What it was set to.
    pub value: String,
    /// What it must be, and why where that is not obvious.
    pub requirement: String,
}

impl ParameterError {
    /// An error about one parameter.
    pub fn new(
        parameter: impl Into<String>,
        value: impl ToString,
        requirement: impl Into<String>,
    ) -> ParameterError {
        ParameterError {
            parameter: parameter.into(),
            value: value.to_string(),
            requirement: requirement.into(),
        }
    }
}

/// What the host got wrong, for the panics that [`Model::submit`] promises.
pub(crate) fn assert_valid(model: &dyn Model, outstanding: usize, command: &Command) {
    assert!(
        outstanding < model.queue_max(),
        "the disk's queue of {} commands is full",
        model.queue_max()
    );
    let block = u64::from(model.block_bytes());
    assert!(
        command.offset.is_multiple_of(block) && u64::from(command.length).is_multiple_of(block),
        "{command:?} is not aligned to blocks of {block} bytes"
    );
    assert!(
        (command.kind == Kind::Flush) == (command.length == 0),
        "{command:?}: a flush has no length, all others have one"
    );
    let end = command.offset.checked_add(u64::from(command.length));
    assert!(
        end.is_some_and(|end| end <= model.capacity_bytes()),
        "{command:?} lies beyond the capacity of {} bytes",
        model.capacity_bytes()
    );
}
