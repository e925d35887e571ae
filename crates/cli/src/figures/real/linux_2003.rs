//! The Linux Symposium's paper of 2003 on databases, section 5: a checkpoint by
//! asynchronous I/O instead of helper threads.

use super::RealRig;
use crate::error::Failure;
use crate::figures::report::{Comparison, Data, Figure, Stated};

pub fn checkpoints(rig: &RealRig<'_>) -> Result<Figure, Failure> {
    let words = "oltp --beside checkpoint --policy aggressive --backend threads,auto --log-size 16m --runtime 10s";
    let (line, outcome) = rig.bench(words, 25)?;
    let columns = [
        ("backend", ""),
        ("transactions", "1/s"),
        ("context switches", "per transaction"),
        ("checkpoints", ""),
    ];
    let mut data = Data::new("Transactions beside checkpoints", &columns);
    let mut figures = Vec::new();
    for run in &outcome.runs {
        let rate = run.load.operations_per_second();
        let switches = run.cpu_time.context_switches as f64 / run.load.operations.max(1) as f64;
        figures.push((rate, switches));
        data.row([
            crate::args::choices::name(run.setting.backend).into(),
            rate.into(),
            switches.into(),
            (run.counts.checkpoints as f64).into(),
        ]);
    }
    let (threads, native) = (figures[0], figures[1]);
    // Of both: what the transactions share.
    let log_busy = outcome
        .runs
        .iter()
        .map(|run| 1.0 - run.outstanding.log.idle_share);
    let differs = format!(
        "requests to the log are outstanding for {:.0} % of the time here, and transactions wait and switch for them; the \
         document's gain is of the processors' time",
        log_busy.fold(1.0, f64::min) * 100.0
    );
    let percent = |after: f64, before: f64| (after / before.max(1e-9) - 1.0) * 100.0;
    Ok(Figure {
        source: "Section 5, figures 5.3 and 5.4.",
        method: rig.method([line]),
        comparisons: vec![
            Comparison::new(
                "transactions: asynchronous against threads",
                "% more",
                Stated::about(10.0),
                percent(native.0, threads.0),
            )
            .because(&differs),
            Comparison::new(
                "context switches: asynchronous against threads",
                "% more",
                Stated::about(-12.0),
                percent(native.1, threads.1),
            )
            .because(&differs),
        ],
        tables: vec![data],
        ..Figure::default()
    })
}
