//! Against a made-up `/sys`: plain files, in which the brackets do not move.

use super::*;

struct Fake {
    _root: tempfile::TempDir,
    paths: SystemPaths,
    cleanups: Cleanups,
}

impl Fake {
    fn new() -> Self {
        let root = tempfile::tempdir().unwrap();
        let paths = SystemPaths::below(root.path());
        let queue = paths.block("vda").join("queue");
        fs::create_dir_all(queue.join("iosched")).unwrap();
        fs::write(queue.join("scheduler"), "none [mq-deadline] kyber bfq\n").unwrap();
        fs::write(queue.join("nr_requests"), "64\n").unwrap();
        fs::write(queue.join("iosched/read_expire"), "123\n").unwrap();
        fs::write(queue.join("iosched/mode"), "[position] level\n").unwrap();
        let process = paths.proc.join(std::process::id().to_string());
        fs::create_dir_all(&process).unwrap();
        let ticks = start_ticks(&SystemPaths::default(), std::process::id()).unwrap();
        let zeros = "0 ".repeat(18);
        fs::write(
            process.join("stat"),
            format!("1 (a) b) S {zeros}{ticks} 0\n"),
        )
        .unwrap();
        Self {
            _root: root,
            paths,
            cleanups: Cleanups::default(),
        }
    }

    fn switch(&self, name: &str) -> Result<SchedulerGuard, SchedulerError> {
        SchedulerGuard::switch(&self.paths, &self.cleanups, "vda", name)
    }

    fn attribute(&self, name: &str) -> String {
        self.paths.queue("vda", name).unwrap()
    }

    /// What the kernel does at a change: tunables fall back to defaults.
    fn reset_tunables(&self) {
        let queue = self.paths.block("vda").join("queue");
        fs::write(queue.join("nr_requests"), "256").unwrap();
        fs::write(queue.join("iosched/read_expire"), "500").unwrap();
        fs::write(queue.join("iosched/mode"), "position [level]").unwrap();
    }

    fn state_exists(&self) -> bool {
        state_path(&self.paths, "vda").exists()
    }
}

#[test]
fn the_offer_is_read() {
    let offer = parse_offer("none [mq-deadline] kyber bfq").unwrap();
    assert_eq!(offer.current, "mq-deadline");
    assert_eq!(offer.available, ["none", "mq-deadline", "kyber", "bfq"]);
    assert_eq!(parse_offer("none"), None);
    // The module of kernel/, when it is loaded.
    let offer = parse_offer("none mq-deadline [prio-deadline]").unwrap();
    assert_eq!(offer.current, "prio-deadline");
    assert_eq!(offer.available, ["none", "mq-deadline", "prio-deadline"]);
}

#[test]
fn a_dropped_guard_puts_everything_back() {
    let fake = Fake::new();
    let mut guard = fake.switch("kyber").unwrap();
    assert_eq!(fake.attribute("scheduler"), "kyber");
    assert!(fake.state_exists());
    guard.set("bfq").unwrap();
    fake.reset_tunables();
    drop(guard);
    assert_eq!(fake.attribute("scheduler"), "mq-deadline");
    assert_eq!(fake.attribute("nr_requests"), "64");
    assert_eq!(fake.attribute("iosched/read_expire"), "123");
    assert_eq!(fake.attribute("iosched/mode"), "position");
    assert!(!fake.state_exists());
}

#[test]
fn clean_ups_put_it_back_without_the_guard() {
    let fake = Fake::new();
    let guard = fake.switch("none").unwrap();
    fake.cleanups.run_all();
    assert_eq!(fake.attribute("scheduler"), "mq-deadline");
    // As at an immediate exit: the guard is never dropped.
    std::mem::forget(guard);
}

#[test]
fn a_panic_puts_it_back() {
    let fake = Fake::new();
    let guard = fake.switch("none").unwrap();
    let panicked = std::thread::spawn(move || {
        let _guard = guard;
        panic!("on purpose");
    })
    .join();
    assert!(panicked.is_err());
    assert_eq!(fake.attribute("scheduler"), "mq-deadline");
}

#[test]
fn unknown_names_change_nothing() {
    let fake = Fake::new();
    let error = fake.switch("cfq").err().unwrap();
    assert!(error.to_string().contains("none, mq-deadline, kyber, bfq"));
    assert_eq!(error.kind(), Kind::Setup);
    assert!(!fake.state_exists());
    let all = resolve(&fake.paths, "vda", &["all".to_owned()]).unwrap();
    assert_eq!(all.len(), 4);
    assert!(matches!(
        offer(&fake.paths, "nvme9n1"),
        Err(SchedulerError::NotSelectable { .. })
    ));
}

#[test]
fn two_runs_do_not_change_one_disk() {
    let fake = Fake::new();
    let _guard = fake.switch("none").unwrap();
    let attribute = fake.paths.block("vda").join("queue/scheduler");
    fs::write(&attribute, "[none] mq-deadline kyber bfq").unwrap();
    let error = fake.switch("bfq").err().unwrap();
    let own = std::process::id();
    assert!(matches!(error, SchedulerError::Busy { process, .. } if process == own));
    assert!(
        restore_leftovers(&fake.paths).is_empty(),
        "the other one is alive"
    );
    assert_eq!(fake.attribute("scheduler"), "[none] mq-deadline kyber bfq");
}

#[test]
fn the_next_run_puts_back_what_a_killed_one_left() {
    let fake = Fake::new();
    std::mem::forget(fake.switch("bfq").unwrap());
    fake.reset_tunables();
    fs::remove_dir_all(fake.paths.proc.join(std::process::id().to_string())).unwrap();
    let said = restore_leftovers(&fake.paths);
    assert_eq!(
        said,
        ["an earlier run was killed; the I/O scheduler of vda is mq-deadline again"]
    );
    assert_eq!(fake.attribute("scheduler"), "mq-deadline");
    assert_eq!(fake.attribute("nr_requests"), "64");
    assert!(!fake.state_exists());
    assert!(restore_leftovers(&fake.paths).is_empty());
}
