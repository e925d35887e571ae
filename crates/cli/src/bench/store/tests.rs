use super::render::outstanding_over_time;
use super::*;
use crate::bench::samples;
use clap::FromArgMatches;

fn options(line: &str) -> Result<StoreBenchOptions, Failure> {
    use clap::Args;
    let command = StoreBenchArgs::augment_args(clap::Command::new("store").no_binary_name(true));
    let matches = command.try_get_matches_from(line.split_whitespace());
    let arguments = StoreBenchArgs::from_arg_matches(&matches.unwrap()).unwrap();
    StoreBench::options(arguments)
}

fn outcome() -> StoreBenchOutcome {
    StoreBenchOutcome {
        table: samples::table(),
        limit: None,
        runs: samples::store_runs(),
    }
}

#[test]
fn every_combination_is_a_run() {
    let settings = options("scan,oltp --policy conservative,aggressive --priorities on,off")
        .unwrap()
        .settings();
    assert_eq!(settings.len(), 8);
    assert_eq!((settings[0].threads, settings[4].threads), (1, 8));
    let at_a_rate = options("oltp --rate 100/s").unwrap().settings();
    assert_eq!(at_a_rate[0].threads, 32);
    assert!(settings[0].io_policy().priorities && !settings[1].io_policy().priorities);
    let own = options("scan").unwrap().settings();
    let priorities: Vec<bool> = own.iter().map(|one| one.io_policy().priorities).collect();
    assert_eq!(priorities, [false, true, true]);
}

#[test]
fn fixed_windows_are_runs_with_priorities_beside_the_learned_one() {
    let options = options("oltp --policy aggressive --priorities on,off --windows 4,16");
    let settings = options.unwrap().settings();
    let windows: Vec<_> = settings
        .iter()
        .map(|it| (it.priorities, it.window))
        .collect();
    let (on, off) = (Switch::On, Switch::Off);
    assert_eq!(
        windows,
        [(on, None), (on, Some(4)), (on, Some(16)), (off, None)]
    );
    assert_eq!(settings[1].label(), "aggressive, with priorities, window 4");
}

#[test]
fn an_objective_is_for_runs_with_priorities() {
    let asked = options("oltp --priorities on,off --objective slowdown=2").unwrap();
    let slowdown = iolane_sched::Objective::Slowdown(200);
    assert!(asked.settings().iter().all(|one| one.objective == slowdown));
    let refused = options("scan --priorities off --objective slowdown=2");
    assert!(refused.unwrap_err().to_string().contains("--objective"));
}

#[test]
fn read_ahead_replaces_that_of_the_policy() {
    let line = "scan --policy paper --read-ahead none,linear,random,both,logical";
    let settings = options(line).unwrap().settings();
    let chosen: Vec<_> = settings
        .iter()
        .map(|one| one.io_policy())
        .map(|policy| (policy.scan, policy.linear, policy.random))
        .collect();
    let (none, logical) = (ScanReadAhead::None, ScanReadAhead::Logical);
    assert_eq!(
        chosen,
        [
            (none, false, false),
            (none, true, false),
            (none, false, true),
            (none, true, true),
            (logical, false, false),
        ]
    );
}

#[test]
fn what_goes_on_beside_has_a_part_of_a_processor() {
    let line = "oltp --policy aggressive --beside scan,backup";
    let all = options(line).unwrap().settings();
    assert_eq!(all[0].beside_cpu_share, None);
    assert_eq!(all[0].beside_label(), "scan + backup");
    for text in ["25", "25%"] {
        let part = options(&format!("{line} --beside-cpu {text}")).unwrap();
        let setting = &part.settings()[0];
        assert_eq!(setting.beside_cpu_share, Some(0.25));
        let label = "scan + backup, 25 % of a processor each";
        assert_eq!(setting.beside_label(), label);
    }
}

#[test]
fn a_rate_is_for_transactions() {
    assert!(options("oltp,commit --rate 500/s").is_ok());
    let refused = options("scan,oltp --rate 500/s").unwrap_err();
    assert!(refused.to_string().contains("--rate is for transactions"));
}

#[test]
fn text_has_a_row_for_each_run_and_fits_a_wide_terminal() {
    let text = outcome().text(Style::PLAIN);
    for expected in [
        "aggressive, no priorities",
        "scan + checkpoint",
        "170000 rows in 256 MiB",
    ] {
        assert!(text.contains(expected), "{text}");
    }
    let mut lines = text.lines().filter(|line| !line.ends_with('.'));
    assert!(lines.all(|line| line.chars().count() <= 170), "{text}");
}

#[test]
fn repetitions_add_up() {
    let mut twice = outcome();
    twice.merge(outcome());
    let run = &twice.runs[1];
    assert_eq!(run.load.operations, 2 * outcome().runs[1].load.operations);
    let gaps = run.gaps;
    assert_eq!((gaps.above_10_ms, gaps.disk, gaps.own()), (6, Some(2), 4));
    let once = outcome().runs[1].background_rows_per_second();
    assert!((run.background_rows_per_second() - once).abs() < 1.0);
    assert_eq!(run.timeline.len(), outcome().runs[1].timeline.len());
}

#[test]
fn the_page_has_curves_over_time() {
    let sections = outcome().html();
    assert!(sections.len() >= 4);
    let runs = samples::store_runs();
    let named: Vec<_> = runs.iter().map(|run| (run.setting.label(), run)).collect();
    for svg in [
        latency_over_time("p99", &named),
        outstanding_over_time(&named),
    ] {
        let svg = svg.into_string();
        assert_eq!(svg.matches("<path").count(), 3, "{svg}");
    }
}
