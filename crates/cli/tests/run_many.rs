//! Processes under `iolane run` that come and go by the thousand. A program of its own: they take
//! the processors from all tests beside them.

#[allow(dead_code)]
#[path = "run/place.rs"]
mod place;

use place::{iolane_run, on_disk, probe, report, text};

#[test]
fn the_broker_has_a_number_for_each() {
    let (directory, place) = (on_disk(), on_disk());
    let to = place.path().join("report.json");
    let output = iolane_run(&to)
        .arg(probe("probe"))
        .arg("many")
        .arg(directory.path())
        .output()
        .unwrap();
    assert_eq!(text(&output), "failed = 0\n");
    let report = report(&to);
    assert_eq!(report["report"]["processes_turned_away"], 0, "{report}");
}
