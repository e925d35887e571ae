//! However a run ends, nothing is left behind: real processes, real signals.
//!
//! The child is this test program again, with a made-up measurement that
//! changes the scheduler of a made-up disk and then waits for its end.

use std::ffi::OsString;
use std::fs;
use std::io;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, ExitStatus, Stdio};
use std::thread;
use std::time::{Duration, Instant};

use iolane_cli::app::{self, Surroundings};
use iolane_cli::bench::sweep::{Sweep, SweepOptions, SweepOutcome};
use iolane_cli::error::Failure;
use iolane_cli::kernel_scheduler::SchedulerGuard;
use iolane_cli::output::progress::Progress;
use iolane_cli::output::text::Style;
use iolane_cli::session::Session;
use iolane_cli::system::SystemPaths;
use iolane_cli::target::Target;

const ROOT: &str = "IOLANE_TEST_ROOT";
const WAIT_MAX: Duration = Duration::from_secs(120);
const POLL: Duration = Duration::from_millis(10);

fn change_and_wait(
    _: &SweepOptions,
    target: Option<&Target>,
    session: &Session,
) -> Result<SweepOutcome, Failure> {
    let _guard = SchedulerGuard::switch(&session.paths, &session.cleanups, "vda", "kyber")?;
    assert!(target.is_some_and(|target| target.size_bytes == 1 << 20));
    fs::write(root().join("ready"), "").map_err(|error| Failure::transfer("test", error))?;
    let deaf = root().join("deaf").exists();
    if root().join("panic").exists() {
        panic!("on purpose");
    }
    let start = Instant::now();
    while start.elapsed() < WAIT_MAX {
        if !deaf {
            session.stop.check()?;
        }
        thread::sleep(POLL);
    }
    Err(Failure::transfer("waiting", io::ErrorKind::TimedOut.into()))
}

fn root() -> PathBuf {
    std::env::var_os(ROOT)
        .map(PathBuf::from)
        .unwrap_or_default()
}

/// The child's part; without the variable, as in a plain test run, there is
/// nothing to do.
#[test]
fn child() {
    let root = root();
    if root.as_os_str().is_empty() {
        return;
    }
    let paths = SystemPaths {
        sys: root.join("sys"),
        run: root.join("run"),
        ..SystemPaths::default()
    };
    let mut arguments: Vec<OsString> = [
        "iolane",
        "bench",
        "sweep",
        "--size",
        "1m",
        "--io",
        "buffered",
        "--directory",
    ]
    .map(Into::into)
    .into();
    arguments.push(root.join("scratch").into());
    arguments.extend(["--report".into(), root.join("scratch/report.html").into()]);
    let code = app::run(
        vec![app::bench::<Sweep>(change_and_wait)],
        &arguments,
        Surroundings {
            stdout: &mut io::sink(),
            paths,
            progress: Progress::detect(None),
            style: Style::PLAIN,
            stderr_style: Style::PLAIN,
            signals: true,
        },
    );
    std::process::exit(code.into());
}

struct Fake {
    root: tempfile::TempDir,
}

impl Fake {
    fn new(marks: &[&str]) -> Self {
        let fake = Self {
            root: tempfile::tempdir().unwrap(),
        };
        fs::create_dir_all(fake.scheduler().parent().unwrap()).unwrap();
        fs::create_dir_all(fake.path("scratch")).unwrap();
        fs::write(fake.scheduler(), "none [mq-deadline] kyber\n").unwrap();
        for mark in marks {
            fs::write(fake.path(mark), "").unwrap();
        }
        fake
    }

    fn path(&self, name: &str) -> PathBuf {
        self.root.path().join(name)
    }

    fn scheduler(&self) -> PathBuf {
        self.path("sys/block/vda/queue/scheduler")
    }

    fn start(&self) -> Child {
        Command::new(std::env::current_exe().unwrap())
            .args(["--exact", "child", "--nocapture"])
            .env(ROOT, self.root.path())
            .stdout(Stdio::null())
            .stderr(Stdio::from(fs::File::create(self.path("stderr")).unwrap()))
            .spawn()
            .unwrap()
    }

    fn stderr(&self) -> String {
        fs::read_to_string(self.path("stderr")).unwrap()
    }

    fn wait_ready(&self) {
        wait(|| self.path("ready").exists().then_some(()));
        assert_eq!(fs::read_to_string(self.scheduler()).unwrap(), "kyber");
    }

    #[track_caller]
    fn assert_clean(&self) {
        assert_eq!(fs::read_to_string(self.scheduler()).unwrap(), "mq-deadline");
        assert!(!self.state().exists());
        assert!(is_empty(&self.path("scratch")));
    }

    fn state(&self) -> PathBuf {
        self.path("run/iolane/scheduler-vda.json")
    }
}

fn is_empty(directory: &Path) -> bool {
    fs::read_dir(directory).unwrap().next().is_none()
}

fn wait<T>(mut look: impl FnMut() -> Option<T>) -> T {
    let start = Instant::now();
    loop {
        if let Some(found) = look() {
            return found;
        }
        assert!(start.elapsed() < WAIT_MAX, "nothing happened");
        thread::sleep(POLL);
    }
}

fn signal(child: &Child, name: &str) {
    let line = format!("kill -{name} {}", child.id());
    assert!(
        Command::new("sh")
            .args(["-c", &line])
            .status()
            .unwrap()
            .success()
    );
}

fn end(mut child: Child) -> ExitStatus {
    wait(|| child.try_wait().unwrap())
}

#[test]
fn signals_end_a_run_cleanly() {
    for name in ["INT", "TERM", "HUP"] {
        let fake = Fake::new(&[]);
        let child = fake.start();
        fake.wait_ready();
        signal(&child, name);
        assert_eq!(end(child).code(), Some(3), "{name}");
        fake.assert_clean();
        assert!(fake.stderr().contains("stopped by"), "{}", fake.stderr());
    }
}

#[test]
fn a_second_signal_cleans_up_without_waiting() {
    let fake = Fake::new(&["deaf"]);
    let mut child = fake.start();
    fake.wait_ready();
    signal(&child, "INT");
    thread::sleep(Duration::from_millis(200));
    assert!(
        child.try_wait().unwrap().is_none(),
        "the first one is only a request"
    );
    // Until it has noticed a second one: two that come before it looks are one.
    let ended = wait(|| {
        signal(&child, "INT");
        child.try_wait().unwrap()
    });
    assert_eq!(ended.code(), Some(3));
    fake.assert_clean();
}

#[test]
fn a_panic_cleans_up() {
    let fake = Fake::new(&["panic"]);
    assert_eq!(end(fake.start()).code(), Some(3));
    fake.assert_clean();
    assert!(fake.stderr().contains("internal error: on purpose"));
}

#[test]
fn after_a_kill_the_next_run_cleans_up() {
    let fake = Fake::new(&[]);
    let child = fake.start();
    fake.wait_ready();
    signal(&child, "KILL");
    assert_eq!(end(child).code(), None);
    assert!(fake.state().exists());
    assert!(is_empty(&fake.path("scratch")));
    fs::remove_file(fake.path("ready")).unwrap();

    // The kernel would mark the scheduler in use; the made-up file cannot.
    fs::write(fake.scheduler(), "none mq-deadline [kyber]").unwrap();
    let child = fake.start();
    let said = "the I/O scheduler of vda is mq-deadline again";
    wait(|| fake.stderr().contains(said).then_some(()));
    end(child);
    assert_eq!(fs::read_to_string(fake.scheduler()).unwrap(), "mq-deadline");
    assert!(!fake.state().exists());
}
