//! Percona (2013), "Is there room for more MySQL IO optimization?": a table
//! whose pages lie in no order is scanned nearly twice as fast through the page
//! cache, as InnoDB's read-ahead guesses wrong.

use super::{RealRig, method};
use crate::args::choices::{IoMode, name};
use crate::args::store_bench::ReadAhead;
use crate::bench::store::StoreRun;
use crate::error::Failure;
use crate::figures::report::{Comparison, Data, Figure, Stated};

pub fn scans(rig: &RealRig<'_>) -> Result<Figure, Failure> {
    let words = "scan --order random --policy conservative --read-ahead none,linear,random,both,logical \
                 --io buffered,direct";
    let (line, outcome) = rig.bench(words, 12)?;
    let rate = |read_ahead: ReadAhead, io: IoMode| {
        let is =
            |run: &&StoreRun| run.setting.read_ahead == Some(read_ahead) && run.setting.io == io;
        let found = outcome.runs.iter().find(is);
        found.map_or(0.0, |run| run.load.operations_per_second())
    };
    let columns = [
        ("read-ahead", ""),
        ("buffered", "rows/s"),
        ("direct", "rows/s"),
        ("direct against buffered", "%"),
    ];
    let mut data = Data::new("Scan of a table loaded in random order", &columns);
    let all = [
        ReadAhead::None,
        ReadAhead::Linear,
        ReadAhead::Random,
        ReadAhead::Both,
        ReadAhead::Logical,
    ];
    for read_ahead in all {
        let (buffered, direct) = (
            rate(read_ahead, IoMode::Buffered),
            rate(read_ahead, IoMode::Direct),
        );
        data.row([
            name(read_ahead).into(),
            buffered.into(),
            direct.into(),
            (direct / buffered.max(1.0) * 100.0).into(),
        ]);
    }
    let against =
        |read_ahead| rate(read_ahead, IoMode::Direct) / rate(read_ahead, IoMode::Buffered).max(1.0);
    Ok(Figure {
        source: "The text: buffered took almost half the time.",
        method: method(&line),
        comparisons: vec![
            Comparison::new("linear read-ahead: direct against buffered", "times", Stated::about(0.55), against(ReadAhead::Linear))
                .because("the kernel's own read-ahead and a host's cache depend on the machine"),
            Comparison::new("logical read-ahead: direct against buffered", "times", Stated::above(1.0), against(ReadAhead::Logical)),
        ],
        tables: vec![data],
        notes: vec![
            "The document's is CHECK TABLE of a table of 30 GB that grew naturally, on four spinning disks; \
             there is no logical read-ahead in it: that direct is at least as fast is this project's goal."
                .to_owned(),
        ],
        ..Figure::default()
    })
}
