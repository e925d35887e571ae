//! The `iolane` command.

use std::ffi::OsString;
use std::io::IsTerminal;
use std::process::ExitCode;

use iolane_cli::app::{self, Surroundings};
use iolane_cli::bench::batch::{self, Batch};
use iolane_cli::bench::commit::{self, Commit};
use iolane_cli::bench::hugepages::{self, Hugepages};
use iolane_cli::bench::mix::{self, Mix};
use iolane_cli::bench::regret::{self, Regret};
use iolane_cli::bench::store::{self as store_bench, StoreBench};
use iolane_cli::bench::sweep::{self, Sweep};
use iolane_cli::demo::{self, Demo};
use iolane_cli::disk::verify::{self, Verify};
use iolane_cli::disk::{describe, serve};
use iolane_cli::figures::{self, Figures};
use iolane_cli::output::progress::Progress;
use iolane_cli::output::stdout::Stdout;
use iolane_cli::output::text::Style;
use iolane_cli::store::{create, drop, dump, load, scan, upkeep};
use iolane_cli::survivor;
use iolane_cli::system::SystemPaths;

/// Threads at a nice value run beside others here. The system's allocator has locks that
/// they share: one that was preempted with such a lock kept transactions waiting for 130 ms.
#[global_allocator]
static ALLOCATOR: mimalloc::MiMalloc = mimalloc::MiMalloc;

fn main() -> ExitCode {
    let arguments: Vec<OsString> = std::env::args_os().collect();
    if let [_, word, rest @ ..] = &arguments[..]
        && word == survivor::NAME
    {
        survivor::survive(rest);
        return ExitCode::SUCCESS;
    }
    let mut stdout = Stdout::new();
    let no_color = std::env::var_os("NO_COLOR");
    let style = Style::detect(std::io::stdout().is_terminal(), no_color.as_deref());
    ExitCode::from(app::run(
        vec![
            app::top::<Demo>(demo::measure),
            app::top::<Figures>(figures::measure),
            app::bench::<Batch>(batch::measure),
            app::bench::<Commit>(commit::measure),
            app::bench::<Hugepages>(hugepages::measure),
            app::bench::<Sweep>(sweep::measure),
            app::bench::<Mix>(mix::measure),
            app::bench::<Regret>(regret::measure),
            app::bench::<StoreBench>(store_bench::measure),
            app::disk_action(describe::LIST, describe::LIST_ABOUT, describe::list),
            app::disk_action(describe::SHOW, describe::SHOW_ABOUT, describe::show),
            app::disk_action(serve::NAME, serve::ABOUT, serve::serve),
            app::disk::<Verify>(verify::measure),
            app::store_action(create::NAME, create::ABOUT, create::create),
            app::store_action(load::NAME, load::ABOUT, load::load),
            app::store_action(scan::SCAN, scan::SCAN_ABOUT, scan::scan),
            app::store_action(scan::RANGE, scan::RANGE_ABOUT, scan::range),
            app::store_action(upkeep::CHECK, upkeep::CHECK_ABOUT, upkeep::check),
            app::store_action(upkeep::STATS, upkeep::STATS_ABOUT, upkeep::stats),
            app::store_action(upkeep::BACKUP, upkeep::BACKUP_ABOUT, upkeep::backup),
            app::store_action(drop::NAME, drop::ABOUT, drop::drop),
            app::store_action(dump::NAME, dump::ABOUT, dump::dump),
        ],
        &arguments,
        Surroundings {
            stdout: &mut stdout,
            paths: SystemPaths::default(),
            progress: Progress::detect(),
            style,
            signals: true,
        },
    ))
}
