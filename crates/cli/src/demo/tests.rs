use super::*;
use crate::bench::samples;
use unicode_width::UnicodeWidthStr;

fn outcome() -> DemoOutcome {
    let mut runs = samples::store_runs();
    runs.iter_mut().for_each(|run| run.gaps.disk = None);
    DemoOutcome {
        table: samples::table(),
        best_per_second: 5000.0,
        rate_per_second: 2000.0,
        runs: runs.clone(),
        only_processor: None,
        volume: VolumeOutcome {
            model: MODEL,
            table: samples::table(),
            rate_per_second: VOLUME_RATE_PER_SECOND,
            runs,
        },
        server: None,
        disk: "vda (50 GiB)".to_owned(),
        disturbed: false,
        report: Some("plots.html".into()),
    }
}

/// All that the page says below the charts.
fn figures(outcome: &DemoOutcome) -> String {
    let environment =
        environment::Environment::read(&crate::system::SystemPaths::default(), None, String::new());
    let sections = outcome.html();
    crate::output::html::page("demo", &environment, &[], &sections)
}

#[test]
fn each_disk_has_a_chart_and_a_sentence_that_fit_a_terminal() {
    let text = outcome().text(Style::PLAIN);
    let (own, volume) = text.split_once("A cloud volume: aws-gp3").unwrap();
    assert!(own.contains("Your disk: vda (50 GiB)"), "{text}");
    for part in [own, volume] {
        let rows = ["\n  alone ", "\n  without priorities ", "\n  with iolane "];
        let found = rows.map(|row| part.find(row).unwrap());
        assert!(found.is_sorted(), "{text}");
        let said = part.replace('\n', " ");
        assert!(said.contains("times less"), "{text}");
        assert!(said.contains("go on at 90 % of their speed."), "{text}");
    }
    assert!(text.contains("plots.html"), "{text}");
    assert!(text.lines().all(|line| line.width() <= 80), "{text}");
}

#[test]
fn a_disk_on_which_priorities_gain_nothing_is_told_so() {
    let mut same = outcome();
    same.runs[2].load = same.runs[1].load.clone();
    let own = |outcome: &DemoOutcome| {
        let text = outcome.text(Style::PLAIN);
        text.split("A cloud volume").next().unwrap().to_owned()
    };
    let text = own(&same);
    assert!(text.contains("Priorities gain little here"), "{text}");
    assert!(!text.contains("times less"), "{text}");
    // Not where it may be others.
    same.disturbed = true;
    let text = own(&same);
    assert!(!text.contains("Priorities gain little here"), "{text}");
}

#[test]
fn only_what_the_reader_can_do_something_about_is_a_warning() {
    let session = Session::quiet();
    let gathering = session.gathering();
    assert!(!told(&gathering, &session));
    gathering.warn_of(Cause::Host, "stolen");
    assert!(told(&gathering, &session));
    assert!(session.warnings().is_empty());
    gathering.warn_of(Cause::Programs, "one");
    gathering.warn_of(Cause::Programs, "another");
    assert!(told(&gathering, &session));
    let warnings = session.warnings();
    assert_eq!(warnings.len(), 1, "{warnings:?}");
    assert!(warnings[0].contains("a quiet machine"), "{warnings:?}");
}

#[test]
fn a_disk_that_stood_still_is_told_of_on_the_page() {
    let mut still = outcome();
    assert!(!figures(&still).contains("stood still"));
    still.runs[0].gaps.disk = Some(3);
    let page = figures(&still);
    assert!(
        page.contains("3 times in the first run, 0 in the second and 0 in the third"),
        "{page}"
    );
    assert!(!still.text(Style::PLAIN).contains("stood still"));
}

#[test]
fn a_quota_that_stops_the_machine_is_told_of_on_the_page() {
    let mut stopped = outcome();
    assert!(!figures(&stopped).contains("quota"));
    stopped.only_processor = Some(3);
    assert!(figures(&stopped).contains("was measured on processor 3 alone."));
    stopped.runs[1].gaps.cpu_quota = true;
    let page = figures(&stopped);
    assert!(page.contains("only processor 3 worked. That is in"));
    stopped.only_processor = None;
    assert!(figures(&stopped).contains("stopped this machine. That is in"));
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
fn the_page_has_a_plot_for_each_disk() {
    let page = figures(&outcome());
    assert_eq!(page.matches("<svg").count(), 2);
}

#[test]
fn the_cases_differ_in_what_they_compare_only() {
    let options = StoreBench::options(defaults("oltp").unwrap()).unwrap();
    let alone = alone(&options).unwrap();
    let [first, without, with] = settings(alone, 100.0, &VOLUME_BESIDE, VOLUME_TITLES);
    assert!(first.beside.is_empty());
    assert_eq!(without.beside, with.beside);
    assert_eq!(
        (without.priorities, with.priorities),
        (
            crate::args::choices::Switch::Off,
            crate::args::choices::Switch::On
        )
    );
    assert!(
        [&first, &without, &with]
            .iter()
            .all(|one| one.rate_per_second == Some(100.0))
    );
}

#[test]
fn a_quick_demo_is_short_and_small() {
    let options = Demo::options(defaults("--quick").unwrap()).unwrap();
    let long = Demo::options(defaults("").unwrap()).unwrap();
    for (quick, long) in [(options.store, long.store), (options.volume, long.volume)] {
        assert_eq!(quick.course.runtime_ns, QUICK_RUNTIME_NS);
        assert!(quick.course.runtime_ns < long.course.runtime_ns);
        assert!(quick.size_bytes_max() < long.size_bytes_max());
    }
}
