//! All sub-commands, each with what carries it out.

use crate::app::{self, BenchCommand};
use crate::bench::batch::{self, Batch};
use crate::bench::commit::{self, Commit};
use crate::bench::hugepages::{self, Hugepages};
use crate::bench::mix::{self, Mix};
use crate::bench::regret::{self, Regret};
use crate::bench::store::{self as store_bench, StoreBench};
use crate::bench::sweep::{self, Sweep};
use crate::demo::{self, Demo};
use crate::disk::verify::{self, Verify};
use crate::disk::{cut, describe, serve};
use crate::figures::{self, Figures};
use crate::run;
use crate::store::{create, drop, dump, load, scan, upkeep};

/// In the order of the help.
pub fn all() -> Vec<BenchCommand> {
    vec![
        app::top::<Demo>(demo::measure),
        app::top::<Figures>(figures::measure),
        app::top_action(run::NAME, run::ABOUT, run::run),
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
        app::disk_action(cut::NAME, cut::ABOUT, cut::cut),
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
    ]
}
