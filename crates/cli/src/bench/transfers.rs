//! The skeleton of the sub-commands that transfer blocks on one target: sweep, mix, batch
//! and commit have the same options for the target, the course and the output.

use clap::Args;
use serde::Serialize;

use super::{Bench, Course, Outcome, target_request};
use crate::args::choices::{IoMode, Operation};
use crate::args::common::{OutputArgs, TransferArgs};
use crate::args::needs::Need;
use crate::error::Failure;
use crate::session::Session;
use crate::target::{Target, TargetRequest};

/// What a scratch file holds when no size is given.
pub const SCRATCH_BYTES: u64 = 1 << 30;

/// What a sub-command is called: as [`Bench`] has it.
pub struct Heading {
    pub name: &'static str,
    pub about: &'static str,
    pub schema: &'static str,
}

/// What is done to the target.
pub struct Transfers {
    pub sizes_bytes: Vec<u64>,
    pub operations: Vec<Operation>,
    pub io: Vec<IoMode>,
    /// Of a scratch file for which none is given.
    pub scratch_bytes: u64,
}

/// One sub-command that transfers blocks on one target. All such are a [`Bench`].
pub trait TransferBench: 'static {
    const HEADING: Heading;
    type Arguments: Args;
    type Options: Serialize;
    type Outcome: Outcome;
    /// As [`Bench::NEEDS`].
    const NEEDS: &'static [Need] = &[];

    fn shared(arguments: &Self::Arguments) -> &TransferArgs;

    fn transfers(arguments: &Self::Arguments) -> Transfers;

    /// As [`Bench::options`], with what all such sub-commands have.
    ///
    /// # Errors
    /// Options that contradict each other.
    fn options(
        arguments: Self::Arguments,
        course: Course,
        target: TargetRequest,
    ) -> Result<Self::Options, Failure>;

    fn request(options: &Self::Options) -> &TargetRequest;

    /// As [`Bench::check`].
    ///
    /// # Errors
    /// What this machine cannot do.
    fn check(
        _options: &mut Self::Options,
        _target: Option<&Target>,
        _session: &Session,
    ) -> Result<(), Failure> {
        Ok(())
    }
}

impl<T: TransferBench> Bench for T {
    const NAME: &'static str = T::HEADING.name;
    const ABOUT: &'static str = T::HEADING.about;
    const SCHEMA: &'static str = T::HEADING.schema;
    type Arguments = T::Arguments;
    type Options = T::Options;
    type Outcome = T::Outcome;
    const NEEDS: &'static [Need] = <T as TransferBench>::NEEDS;

    fn output(arguments: &T::Arguments) -> &OutputArgs {
        &T::shared(arguments).output
    }

    fn repeat(arguments: &T::Arguments) -> u64 {
        T::shared(arguments).course.repeat
    }

    fn options(arguments: T::Arguments) -> Result<T::Options, Failure> {
        let shared = T::shared(&arguments);
        let course = Course::from_args(&shared.course);
        let transfers = T::transfers(&arguments);
        let target = TargetRequest {
            transfer_sizes_bytes: transfers.sizes_bytes,
            direct: transfers.io.contains(&IoMode::Direct),
            reads: transfers.operations.contains(&Operation::Read),
            writes: transfers.operations.contains(&Operation::Write),
            ..target_request(&shared.target, transfers.scratch_bytes)
        };
        <T as TransferBench>::options(arguments, course, target)
    }

    fn target(options: &T::Options) -> Option<TargetRequest> {
        Some(T::request(options).clone())
    }

    fn check(
        options: &mut T::Options,
        target: Option<&Target>,
        session: &Session,
    ) -> Result<(), Failure> {
        <T as TransferBench>::check(options, target, session)
    }
}
