use super::*;
use crate::bench::samples;

fn outcome() -> DemoOutcome {
    let mut runs = samples::store_runs();
    runs.iter_mut().for_each(|run| run.gaps.disk = None);
    DemoOutcome {
        table: samples::table(),
        best_per_second: 5000.0,
        rate_per_second: 2000.0,
        runs,
        only_processor: None,
        disk: "vda (50 GiB)".to_owned(),
        disturbed: false,
        report: Some("plots.html".into()),
    }
}

#[test]
fn the_text_says_what_priorities_gain_in_its_last_lines() {
    let text = outcome().text(Style::PLAIN);
    assert!(text.contains("YOUR DISK: vda (50 GiB)"), "{text}");
    assert!(text.contains("plots.html"), "{text}");
    let rows = ["\nalone", "without priorities", "with iolane"];
    let found = rows.map(|row| text.find(row).unwrap());
    assert!(found.is_sorted(), "{text}");
    let (before, last) = text.trim_end().rsplit_once('\n').unwrap();
    assert!(before.contains("times shorter"), "{text}");
    assert!(last.contains("90 % of the work"), "{text}");
}

#[test]
fn a_disk_on_which_priorities_gain_nothing_is_told_so() {
    let mut same = outcome();
    same.runs[2].load = same.runs[1].load.clone();
    let text = same.text(Style::PLAIN);
    assert!(text.contains("Priorities gain little here"), "{text}");
    assert!(!text.contains("times shorter"), "{text}");
    // Not where it may be others.
    same.disturbed = true;
    let text = same.text(Style::PLAIN);
    assert!(!text.contains("Priorities gain little here"), "{text}");
}

#[test]
fn a_disturbed_measurement_is_said_last() {
    let disturbed = DemoOutcome {
        disturbed: true,
        ..outcome()
    };
    let text = disturbed.text(Style::PLAIN);
    assert!(text.trim_end().ends_with("on a quiet machine."), "{text}");
}

#[test]
fn a_disk_that_stood_still_is_told_of() {
    let mut still = outcome();
    assert!(!still.text(Style::PLAIN).contains("stood still"));
    still.runs[0].gaps.disk = Some(3);
    let text = still.text(Style::PLAIN);
    assert!(
        text.contains("3 times in the first run, 0 times in the second"),
        "{text}"
    );
}

#[test]
fn a_quota_that_stops_the_machine_is_told_of() {
    let mut stopped = outcome();
    let last = |outcome: &DemoOutcome| {
        let text = outcome.text(Style::PLAIN);
        text.trim_end().rsplit('\n').next().unwrap().to_owned()
    };
    assert!(!last(&stopped).contains("quota"));
    stopped.only_processor = Some(3);
    assert!(last(&stopped).ends_with("was measured on processor 3 alone."));
    stopped.runs[1].gaps.cpu_quota = true;
    let text = last(&stopped);
    assert!(
        text.contains("only processor 3 worked. That is in"),
        "{text}"
    );
    stopped.only_processor = None;
    assert!(last(&stopped).contains("stopped this machine. That is in"));
}

#[test]
fn nothing_measured_is_no_figure() {
    let mut nothing = outcome();
    for run in &mut nothing.runs {
        run.load = crate::bench::load::Load::empty(std::time::Duration::from_secs(1));
    }
    let text = nothing.text(Style::PLAIN);
    assert!(text.contains("Too few transactions"), "{text}");
}

#[test]
fn the_page_has_its_plots() {
    let sections = outcome().html();
    assert_eq!(sections.len(), 5);
}

#[test]
fn the_cases_differ_in_what_they_compare_only() {
    let options = StoreBench::options(defaults("oltp").unwrap()).unwrap();
    let [first, without, with] = settings(alone(&options).unwrap(), 100.0);
    assert!(first.beside.is_empty());
    assert_eq!(without.beside, with.beside);
    assert_eq!(
        (without.priorities, with.priorities),
        (Switch::Off, Switch::On)
    );
    assert!(
        [&first, &without, &with]
            .iter()
            .all(|one| one.rate_per_second == Some(100.0))
    );
}
