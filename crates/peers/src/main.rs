//! iolane-store beside other databases: the same rows, the same disk, the same
//! durability, in turn.

mod args;
mod disk;
mod engines;
mod experiments;
mod measure;
mod process;
mod report;
mod rows;
mod scratch;
mod stop;
#[allow(unsafe_code)]
mod sys;

use anyhow::{Context, Result};
use args::{Args, Format, Task};
use clap::Parser;
use std::process::ExitCode;
use std::time::Duration;

/// Most that the databases of one experiment take on the disk.
const SCRATCH_BYTES: u64 = 6 << 30;

fn main() -> ExitCode {
    match run(&Args::parse()) {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("error: {error:#}");
            ExitCode::from(3)
        }
    }
}

fn run(args: &Args) -> Result<()> {
    let stop = stop::Stop::listening()?;
    let mut experiment = match args.command.task()? {
        Task::Compare(experiment) => experiment,
        Task::MemoryOf(task) => return task.run(stop),
    };
    let bench = experiments::Bench {
        scratch: scratch::Scratch::create(&args.directory, SCRATCH_BYTES, &stop)?,
        stop,
        time: Duration::from_secs_f64(args.seconds),
        repetitions: args.repeat,
        engines: args.engines(),
    };
    let mut results = report::Results::new(experiment.name(), args.repeat);
    let compared = experiments::compare(&mut *experiment, &bench, &mut results);
    if results.is_empty() {
        return compared;
    }
    let document = results.document(compared.is_ok());
    let text = match args.output_format {
        Format::Text => document.text(),
        Format::Json => document.json()? + "\n",
    };
    print!("{text}");
    if let Some(path) = &args.json {
        std::fs::write(path, document.json()? + "\n")
            .with_context(|| path.display().to_string())?;
    }
    compared
}
