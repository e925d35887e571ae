use super::*;
use crate::bench::samples;

fn outcome() -> DemoOutcome {
    DemoOutcome {
        sweep: samples::sweep(),
        mix: samples::mix(),
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
    let rows = ["alone on the disk", "without priorities", "with iolane"];
    let found = rows.map(|row| text.find(row).unwrap());
    assert!(found.is_sorted(), "{text}");
    let (before, last) = text.trim_end().rsplit_once('\n').unwrap();
    assert!(
        before.contains("times shorter") && before.contains("255 µs"),
        "{text}"
    );
    assert!(last.ends_with("without priorities."), "{text}");
    assert!(text.lines().all(|line| line.chars().count() <= 160));
}

#[test]
fn a_disk_on_which_priorities_gain_nothing_is_told_so() {
    let mut same = outcome();
    let noop = same.beside("noop").unwrap().clone();
    for run in &mut same.mix.runs {
        if run.policy == "lanes" {
            run.foreground = noop.foreground.clone();
        }
    }
    let text = same.text(Style::PLAIN);
    assert!(text.contains("Priorities gain little here"), "{text}");
    assert!(!text.contains("times shorter"), "{text}");
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
fn nothing_measured_is_no_figure() {
    let mut nothing = outcome();
    for run in &mut nothing.mix.runs {
        run.foreground = crate::bench::load::Load::empty(Duration::from_secs(1));
    }
    let text = nothing.text(Style::PLAIN);
    assert!(text.contains("Too few reads"), "{text}");
}

#[test]
fn the_page_has_every_plot() {
    let page: String = crate::output::html::page(
        "iolane demo",
        &crate::environment::Environment::read(
            &crate::system::SystemPaths::default(),
            None,
            String::new(),
        ),
        &[],
        &outcome().html(),
    );
    assert_eq!(page.matches("<svg").count(), 5);
    for title in [
        "In short",
        "A query's read",
        "A query's waiting against the disk's work",
        "Throughput",
        "All figures of the disk",
    ] {
        assert!(page.contains(&format!("<h2>{title}</h2>")), "{title}");
    }
}

#[test]
fn both_parts_have_the_load_that_the_demo_is_about() {
    let options = Demo::options(defaults().unwrap()).unwrap();
    let document = serde_json::to_value(&options).unwrap();
    let separate = &document["mix"]["load"]["separate"];
    assert_eq!(separate["foreground"]["arrival"]["depth"], 1);
    assert_eq!(separate["background"]["depth"], 128);
    assert_eq!(
        document["mix"]["policies"],
        serde_json::json!(["noop", "lanes"])
    );
    assert_eq!(document["mix"]["runtime_ns"], 8_000_000_000_u64);
    assert_eq!(document["sweep"]["runtime_ns"], 1_000_000_000);
    assert_eq!(document["sweep"]["depths"][0], 1);
    assert_eq!(options.report, Some("iolane-demo.html".into()));
}
