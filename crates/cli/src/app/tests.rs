//! The frame around a measurement, with made-up measurements in it.

mod alone;

use std::cell::RefCell;

use serde_json::Value;

use super::*;
use crate::bench::samples;
use crate::bench::sweep::{Sweep, SweepOptions, SweepOutcome};

type Result<T> = std::result::Result<T, Failure>;

fn good(_: &SweepOptions, target: Option<&Target>, session: &Session) -> Result<SweepOutcome> {
    assert!(target.is_some());
    session.warn("made up");
    Ok(samples::sweep())
}

fn broken(_: &SweepOptions, _: Option<&Target>, _: &Session) -> Result<SweepOutcome> {
    let error = io::Error::from_raw_os_error(libc::EIO);
    Err(Failure::transfer("reading 16384 bytes at offset 0", error))
}

fn panicking(_: &SweepOptions, _: Option<&Target>, _: &Session) -> Result<SweepOutcome> {
    panic!("on purpose");
}

fn interrupted(_: &SweepOptions, _: Option<&Target>, session: &Session) -> Result<SweepOutcome> {
    session.stop.raise(libc::SIGTERM);
    session.stop.check()?;
    Ok(samples::sweep())
}

thread_local! {
    static SCRATCH: RefCell<Option<tempfile::TempDir>> = const { RefCell::new(None) };
}

fn scratch() -> std::path::PathBuf {
    SCRATCH.with_borrow_mut(|slot| {
        let directory = slot.get_or_insert_with(|| tempfile::tempdir().unwrap());
        directory.path().to_owned()
    })
}

fn run_with(measure: Measure<Sweep>, line: &str) -> (u8, String) {
    let mut stdout = Vec::new();
    let code = run_to(&mut stdout, measure, line);
    (code, String::from_utf8(stdout).unwrap())
}

fn run_to(stdout: &mut dyn Write, measure: Measure<Sweep>, line: &str) -> u8 {
    let scratch = scratch();
    let words = format!("iolane bench sweep {line}");
    let mut arguments: Vec<OsString> = words.split_whitespace().map(Into::into).collect();
    if !line.contains("--file") {
        arguments.extend([
            "--size".into(),
            "1m".into(),
            "--directory".into(),
            scratch.clone().into(),
        ]);
        arguments.extend(["--io".into(), "buffered".into()]);
    }
    let surroundings = Surroundings {
        stdout,
        paths: SystemPaths {
            run: scratch,
            ..SystemPaths::default()
        },
        progress: Progress::silent(),
        style: Style::PLAIN,
        stderr_style: Style::PLAIN,
        signals: false,
    };
    run(vec![bench::<Sweep>(measure)], &arguments, surroundings)
}

fn json(text: &str) -> Value {
    serde_json::from_str(text).unwrap_or_else(|error| panic!("{error}: {text}"))
}

#[test]
fn text_goes_to_standard_output() {
    let (code, text) = run_with(good, "");
    assert_eq!(code, 0);
    assert!(text.starts_with("depth"), "{text}");
}

#[test]
fn json_is_one_document_with_environment_options_and_warnings() {
    let (code, text) = run_with(good, "--output-format json --seed 7");
    assert_eq!(code, 0);
    let document = json(&text);
    assert_eq!(document["schema"], "iolane.bench.sweep/1");
    assert_eq!(document["options"]["seed"], 7);
    assert_eq!(document["target"]["kind"], "scratch_file");
    assert_eq!(document["warnings"], serde_json::json!(["made up"]));
    assert!(document["environment"]["kernel_release"].is_string());
    assert!(
        document["environment"]["command_line"]
            .as_str()
            .unwrap()
            .starts_with("iolane bench sweep")
    );
    assert_eq!(document["runs"].as_array().unwrap().len(), 9);
}

#[test]
fn failures_keep_their_exit_codes_and_json_stays_valid() {
    let missing = "--file /nonexistent/file";
    for (measure, line, code, kind, message) in [
        (
            good as Measure<Sweep>,
            "--depths 0",
            1,
            "usage",
            "0 is outside 1 to 16384",
        ),
        (good, "--nonsense", 1, "usage", "--nonsense"),
        (good, missing, 2, "setup", "does not exist"),
        (good, "--file /", 2, "setup", "/ is a directory"),
        (
            good,
            "--report /nonexistent/a.html",
            2,
            "setup",
            "cannot write /nonexistent/a.html",
        ),
        (
            broken,
            "",
            3,
            "runtime",
            "reading 16384 bytes at offset 0 failed",
        ),
        (panicking, "", 3, "runtime", "internal error: on purpose"),
        (interrupted, "", 3, "runtime", "stopped by SIGTERM"),
    ] {
        for format in ["--output-format json", "--output-format=json"] {
            let (got, text) = run_with(measure, &format!("{format} {line}"));
            let document = json(&text);
            assert_eq!(got, code, "{line}: {text}");
            assert_eq!(document["schema"], "iolane.error/1");
            assert_eq!(document["error"]["kind"], kind);
            assert!(
                document["error"]["message"]
                    .as_str()
                    .unwrap()
                    .contains(message),
                "{text}"
            );
            assert!(!document["error"]["remedy"].as_str().unwrap().is_empty());
        }
        let (got, text) = run_with(measure, line);
        assert_eq!(
            (got, text.as_str()),
            (code, ""),
            "standard output carries results only"
        );
    }
}

#[test]
fn repetitions_show_their_spread() {
    let (_, text) = run_with(good, "--repeat 3 --output-format json");
    assert_eq!(json(&text)["runs"][0]["spread"]["repetitions"], 3);
    let (_, once) = run_with(good, "--output-format json");
    assert!(json(&once)["runs"][0].get("spread").is_none());
}

#[test]
fn results_go_to_files_and_failures_leave_none() {
    let directory = scratch();
    let [output, report] = ["out.json", "out.html"].map(|name| directory.join(name));
    let line = format!(
        "--output-format json --output {} --report {}",
        output.display(),
        report.display()
    );
    assert_eq!(run_with(broken, &line).0, 3);
    assert!(!output.exists() && !report.exists());
    fs::write(&output, "an older and much longer result ".repeat(10_000)).unwrap();
    assert_eq!(run_with(broken, &line).0, 3);
    assert!(fs::read_to_string(&output).unwrap().starts_with("an older"));
    assert_eq!(run_with(good, &line), (0, String::new()));
    assert_eq!(
        json(&fs::read_to_string(&output).unwrap())["schema"],
        "iolane.bench.sweep/1"
    );
    assert!(fs::read_to_string(&report).unwrap().ends_with("</html>"));
}

struct ClosedPipe;

impl Write for ClosedPipe {
    fn write(&mut self, _: &[u8]) -> io::Result<usize> {
        Err(io::ErrorKind::BrokenPipe.into())
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

#[test]
fn a_closed_pipe_is_no_error() {
    assert_eq!(run_to(&mut ClosedPipe, good, ""), 0);
}

#[test]
fn every_command_line_definition_is_sound() {
    command(&crate::commands::all()).debug_assert();
}

#[test]
fn help_goes_to_standard_output_and_names_units() {
    let (code, text) = run_with(good, "--help");
    assert_eq!(code, 0);
    assert!(text.starts_with(Sweep::ABOUT), "{text}");
    for part in [
        "--depths <LIST>",
        "[default: 16k]",
        "such as 10s or 500ms",
        "--destructive",
    ] {
        assert!(text.contains(part), "{part} in {text}");
    }
}
