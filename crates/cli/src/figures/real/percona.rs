//! Percona (2013), "Is there room for more MySQL IO optimization?": a table
//! whose pages lie in no order is scanned nearly twice as fast through the page
//! cache, as InnoDB's read-ahead guesses wrong.

use super::RealRig;
use crate::args::choices::{IoMode, name};
use crate::args::store_bench::ReadAhead;
use crate::bench::store::StoreRun;
use crate::error::Failure;
use crate::figures::report::{Comparison, Data, Figure, Stated};

/// Of the time without the page cache, with it: "almost half".
const BUFFERED_SHARE: f64 = 0.55;
const IN_NO_ORDER: &str = "pages of the document's table lie near the order of their keys, so that the kernel's read-ahead \
                           meets many; ours lie in none, and it meets those few that have their neighbour beside them";
const READ_TOGETHER: &str = "through the page cache the kernel reads neighbours together, so that fewer reads reach the disk";

pub fn scans(rig: &RealRig<'_>) -> Result<Figure, Failure> {
    let words = "scan --order random --policy conservative --read-ahead none,linear,random,both,logical \
                 --io buffered,direct --runtime 10s";
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
    let linear = against(ReadAhead::Linear);
    let why = match linear > BUFFERED_SHARE {
        true => IN_NO_ORDER,
        false => READ_TOGETHER,
    };
    Ok(Figure {
        source: "The text: buffered took almost half the time.",
        method: rig.method([line]),
        comparisons: vec![
            Comparison::new(
                "linear read-ahead: direct against buffered",
                "times",
                Stated::about(BUFFERED_SHARE),
                linear,
            )
            .because(why),
            Comparison::new(
                "logical read-ahead: direct against buffered",
                "times",
                Stated::above(1.0),
                against(ReadAhead::Logical),
            )
            .because(READ_TOGETHER),
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
