//! Real servers under `iolane run`: killed while they work, they come back with all
//! that they had acknowledged.

use std::collections::BTreeSet;
use std::fs;
use std::io::Write;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use tempfile::TempDir;

use crate::place::{iolane_run, iolane_run_ahead, iolane_run_uring, scheduled, wait_until};

/// Times that each server is killed, unless the environment says otherwise.
const KILLS: u32 = 2;
/// A server that is told to end does within so long, or is killed.
const END_MAX: Duration = Duration::from_secs(30);
/// So many rows are acknowledged before, and then it works on for a moment.
pub const ROWS_MIN: usize = 50;
pub const WORK: Duration = Duration::from_millis(300);
/// Rows that a client would insert: more than it can before the server is killed.
const ROWS_MAX: u32 = 200_000;

pub fn kills() -> u32 {
    let wanted = std::env::var("IOLANE_RUN_KILLS").ok();
    wanted.map_or(KILLS, |text| {
        text.parse().expect("IOLANE_RUN_KILLS is a number")
    })
}

/// Under the system's directory for files that stay: on a disk, and open to a
/// server's user.
fn place() -> TempDir {
    TempDir::new_in("/var/tmp").unwrap()
}

pub fn has(program: &str) -> bool {
    let which = Command::new("sh")
        .args(["-c", &format!("command -v {program}")])
        .stdout(Stdio::null())
        .status();
    which.is_ok_and(|status| status.success())
}

/// What a server's client inserts.
const INSERT: &str = "INSERT INTO t(v) VALUES (repeat('x', 700)); SELECT max(id) FROM t;\n";

/// Inserts rows one by one, each acknowledged by its number in a file.
pub fn start_inserting(mut client: Command, acknowledged: &Path, insert: &'static str) -> Child {
    let mut child = client
        .stdin(Stdio::piped())
        .stdout(fs::File::create(acknowledged).unwrap())
        .stderr(Stdio::null())
        .spawn()
        .unwrap();
    let mut input = child.stdin.take().unwrap();
    std::thread::spawn(move || {
        for _ in 0..ROWS_MAX {
            // The client ends when its server does.
            if input.write_all(insert.as_bytes()).is_err() {
                return;
            }
        }
    });
    child
}

/// The numbers of acknowledged rows: those in whole lines of a file.
pub fn acknowledged_in(path: &Path) -> BTreeSet<u64> {
    let text = fs::read_to_string(path).unwrap();
    numbers(text.rsplit_once('\n').map_or("", |(whole, _)| whole))
}

fn numbers(text: &str) -> BTreeSet<u64> {
    text.lines()
        .filter_map(|line| line.trim().parse().ok())
        .collect()
}

/// All of them are there. Numbers between may be missing: a server that comes back leaves
/// some out.
pub fn check(acknowledged: &Path, found: &str) {
    let (acknowledged, found) = (acknowledged_in(acknowledged), numbers(found));
    let missing: Vec<_> = acknowledged.difference(&found).collect();
    assert!(
        missing.is_empty(),
        "rows that were acknowledged: {missing:?}"
    );
}

pub fn output(command: &mut Command) -> String {
    let output = command.output().unwrap();
    String::from_utf8_lossy(&output.stdout).trim().to_owned()
}

pub fn kill(process: &str) {
    let sent = Command::new("kill").args(["-KILL", process]).status();
    assert!(sent.unwrap().success());
}

/// `iolane run` with a server, which does not outlive a test that fails.
pub struct Running(Option<Child>);

impl Running {
    /// The exit code.
    pub fn wait(mut self) -> Option<i32> {
        let mut child = self.0.take()?;
        child.wait().unwrap().code()
    }
}

impl Drop for Running {
    fn drop(&mut self) {
        let Some(child) = &mut self.0 else {
            return;
        };
        // It hands the signal on; there is nothing to do where it has ended.
        let number = child.id().to_string();
        let _ = Command::new("kill").args(["-QUIT", &number]).status();
        let asked = Instant::now();
        while matches!(child.try_wait(), Ok(None)) && asked.elapsed() < END_MAX {
            std::thread::sleep(Duration::from_millis(50));
        }
        // MariaDB waits for ever, with or without `iolane run`, if it is told to end at a certain
        // moment of its start (in `init_slave`).
        if matches!(child.try_wait(), Ok(None)) {
            let children = fs::read_to_string(format!("/proc/{number}/task/{number}/children"));
            children
                .unwrap_or_default()
                .split_whitespace()
                .for_each(kill);
        }
        let _ = child.wait();
    }
}

pub struct MariaDb {
    place: TempDir,
    options: Vec<String>,
    /// Which one is started.
    pub program: PathBuf,
    pub run: fn(&Path) -> Command,
}

impl MariaDb {
    pub fn new(options: &[&str], run: fn(&Path) -> Command) -> Option<MariaDb> {
        let programs = ["mariadbd", "mariadb-install-db", "mariadb"];
        if let Some(missing) = programs.iter().find(|program| !has(program)) {
            iolane_testing::skipped(format!("{missing} is not installed"));
            return None;
        }
        let server = MariaDb {
            place: place(),
            options: options.iter().map(|&option| option.to_owned()).collect(),
            program: PathBuf::from("mariadbd"),
            run,
        };
        let installed = Command::new("mariadb-install-db")
            .args(["--no-defaults", "--auth-root-authentication-method=normal"])
            .args(["--skip-test-db", "--innodb-log-file-size=16M"])
            .args(server.user())
            .arg(format!("--datadir={}", server.path("data").display()))
            .arg(server.temporary())
            .output()
            .unwrap();
        assert!(installed.status.success(), "{installed:?}");
        Some(server)
    }

    pub fn path(&self, name: &str) -> PathBuf {
        self.place.path().join(name)
    }

    /// A server that starts removes what others have in its folder for temporary tables.
    fn temporary(&self) -> String {
        format!("--tmpdir={}", self.place.path().display())
    }

    /// Root's server has to be told that it may be.
    fn user(&self) -> Option<&'static str> {
        let is_root = output(Command::new("id").arg("-u")) == "0";
        is_root.then_some("--user=root")
    }

    pub fn start(&self) -> Running {
        let child = (self.run)(&self.path("report.json"))
            .arg(&self.program)
            .args([
                "--no-defaults",
                "--skip-networking",
                "--innodb-buffer-pool-size=8M",
            ])
            .args([
                "--innodb-flush-method=O_DIRECT",
                "--innodb-log-file-size=16M",
            ])
            .args(self.user())
            .arg(format!("--datadir={}", self.path("data").display()))
            .arg(self.temporary())
            .arg(format!("--socket={}", self.path("socket").display()))
            .arg(format!("--pid-file={}", self.path("pid").display()))
            .args(&self.options)
            .stdin(Stdio::null())
            .stdout(Stdio::null())
            .stderr(fs::File::create(self.path("log")).unwrap())
            .spawn()
            .unwrap();
        let running = Running(Some(child));
        wait_until(|| output(self.client().args(["--execute", "SELECT 1"])) == "1");
        running
    }

    pub fn client(&self) -> Command {
        let mut command = Command::new("mariadb");
        command
            .args([
                "--no-defaults",
                "--user=root",
                "--skip-column-names",
                "--unbuffered",
            ])
            .arg(format!("--socket={}", self.path("socket").display()));
        command
    }

    pub fn ask(&self, question: &str) -> String {
        output(self.client().args(["d", "--execute", question]))
    }
}

/// Gives its report, and what it has logged since it came back last.
fn mariadb_survives(
    options: &[&str],
    run: fn(&Path) -> Command,
) -> Option<(serde_json::Value, String)> {
    let server = MariaDb::new(options, run)?;
    let mut running = server.start();
    let made = "CREATE DATABASE d; CREATE TABLE d.t(id BIGINT AUTO_INCREMENT PRIMARY KEY, v TEXT)";
    output(server.client().args(["--execute", made]));
    for _ in 0..kills() {
        let acknowledged = server.path("acknowledged");
        let mut client = server.client();
        client.arg("d");
        let mut inserting = start_inserting(client, &acknowledged, INSERT);
        wait_until(|| acknowledged_in(&acknowledged).len() >= ROWS_MIN);
        std::thread::sleep(WORK);
        kill(fs::read_to_string(server.path("pid")).unwrap().trim());
        assert_eq!(running.wait(), Some(128 + 9));
        inserting.wait().unwrap();
        running = server.start();
        check(&acknowledged, &server.ask("SELECT id FROM t"));
        let checked = server.ask("CHECK TABLE t EXTENDED");
        assert!(checked.ends_with("status\tOK"), "{checked}");
    }
    server.ask("SHUTDOWN");
    assert_eq!(running.wait(), Some(0));
    let report = crate::place::report(&server.path("report.json"));
    assert!(scheduled(&report) > 0, "{report}");
    Some((report, fs::read_to_string(server.path("log")).unwrap()))
}

#[test]
fn mariadb_with_its_own_threads_comes_back() {
    mariadb_survives(&["--innodb-use-native-aio=OFF"], iolane_run);
}

#[test]
fn mariadb_with_native_io_comes_back() {
    mariadb_survives(&[], iolane_run);
}

#[test]
fn mariadb_with_io_uring_comes_back() {
    let Some((report, log)) = mariadb_survives(&[], iolane_run_uring) else {
        return;
    };
    if !log.contains("Using io_uring") {
        iolane_testing::skipped("MariaDB uses no io_uring here");
        return;
    }
    let followed = report["report"]["io_uring"]["followed"].as_u64().unwrap();
    assert!(followed > 0, "{report}");
}

#[test]
fn mariadb_with_logical_read_ahead_comes_back() {
    mariadb_survives(&[], iolane_run_ahead);
}

/// A table whose rows came in random order of their keys is checked while rows change, over and
/// over; the server and its own checksums find nothing wrong.
#[test]
fn mariadb_reads_its_pages_as_it_wrote_them_with_logical_read_ahead() {
    let Some(server) = MariaDb::new(&[], iolane_run_ahead) else {
        return;
    };
    let running = server.start();
    output(server.client().args(["--execute", "CREATE DATABASE d"]));
    server.ask(
        "CREATE TABLE t(id BIGINT PRIMARY KEY, n BIGINT, v VARCHAR(800)); \
         INSERT INTO t SELECT (seq * 40503) % 65536, 0, REPEAT('v', 700) FROM seq_1_to_16000",
    );
    let changes = (1..=7).map(|pass| {
        format!("UPDATE t SET n = n + 1, v = REPEAT(CHAR(65 + {pass} % 26), 600 + {pass}) WHERE id % 7 = {pass} % 7;\n")
    });
    let mut writer = server
        .client()
        .arg("d")
        .stdin(Stdio::piped())
        .stdout(Stdio::null())
        .spawn()
        .unwrap();
    let mut input = writer.stdin.take().unwrap();
    let changes: String = changes.collect();
    std::thread::spawn(move || input.write_all(changes.as_bytes()).unwrap());
    while writer.try_wait().unwrap().is_none() {
        let checked = server.ask("CHECK TABLE t");
        assert!(checked.ends_with("status\tOK"), "{checked}");
        assert_eq!(
            server.ask("SELECT COUNT(*), COUNT(v) FROM t"),
            "16000\t16000"
        );
    }
    // Each row was changed as often as its turn came, however often pages went and came.
    let wrong = "SELECT COUNT(*) FROM t WHERE n <> (SELECT COUNT(*) FROM seq_1_to_7 WHERE seq % 7 = id % 7)";
    assert_eq!(server.ask(wrong), "0");
    server.ask("SHUTDOWN");
    assert_eq!(running.wait(), Some(0));
    let report = crate::place::report(&server.path("report.json"));
    let used = &report["report"]["read_ahead"]["used"];
    assert!(used.as_u64().unwrap() > 0, "{report}");
}

pub struct Postgres {
    place: TempDir,
    programs: PathBuf,
    /// What the server is started by.
    pub starter: Vec<String>,
}

impl Postgres {
    pub fn new() -> Option<Postgres> {
        let versions = fs::read_dir("/usr/lib/postgresql").ok()?.flatten();
        let programs = versions.map(|entry| entry.path().join("bin")).max()?;
        let server = Postgres {
            place: place(),
            programs,
            starter: Vec::new(),
        };
        // What is under the home of the one who builds, the server's user cannot read.
        let library =
            Path::new(env!("CARGO_BIN_EXE_iolane")).with_file_name("deps/libiolane_interpose.so");
        fs::copy(library, server.path("library.so")).unwrap();
        if server.is_root() {
            let owned = Command::new("chown")
                .arg("postgres:")
                .arg(server.place.path())
                .status();
            assert!(owned.unwrap().success());
        }
        let made = server
            .as_user(&server.programs.join("initdb"))
            .args(["--auth=trust", "--username=postgres", "--no-sync", "-D"])
            .arg(server.path("data"))
            .output()
            .unwrap();
        assert!(made.status.success(), "{made:?}");
        Some(server)
    }

    pub fn path(&self, name: &str) -> PathBuf {
        self.place.path().join(name)
    }

    fn is_root(&self) -> bool {
        output(Command::new("id").arg("-u")) == "0"
    }

    /// The words by which a program runs as a user that PostgreSQL accepts.
    fn user(&self) -> &'static [&'static str] {
        if self.is_root() {
            &[
                "setpriv",
                "--reuid=postgres",
                "--regid=postgres",
                "--clear-groups",
            ]
        } else {
            &["env"]
        }
    }

    fn as_user(&self, program: &Path) -> Command {
        let words = self.user();
        let mut command = Command::new(words[0]);
        command.args(&words[1..]).arg(program).current_dir("/");
        command
    }

    pub fn start(&self) -> Running {
        let child = Command::new(env!("CARGO_BIN_EXE_iolane"))
            .args(["run", "--report"])
            .arg(self.path("report.json"))
            .arg("--library")
            .arg(self.path("library.so"))
            .arg("--")
            .args(self.user())
            .args(&self.starter)
            .arg(self.programs.join("postgres"))
            .args(["-c", "listen_addresses=", "-c", "shared_buffers=1MB"])
            .args(["-c", "checkpoint_timeout=30s", "-c", "max_wal_size=32MB"])
            .arg("-k")
            .arg(self.place.path())
            .arg("-D")
            .arg(self.path("data"))
            .current_dir("/")
            .stdin(Stdio::null())
            .stdout(Stdio::null())
            .stderr(fs::File::create(self.path("log")).unwrap())
            .spawn()
            .unwrap();
        let running = Running(Some(child));
        wait_until(|| self.ask("SELECT 1") == "1");
        running
    }

    fn client(&self) -> Command {
        let mut command = Command::new(self.programs.join("psql"));
        command
            .args(["--no-psqlrc", "--quiet", "--tuples-only", "--no-align"])
            .args(["--username=postgres", "--dbname=postgres", "--host"])
            .arg(self.place.path());
        command
    }

    pub fn ask(&self, question: &str) -> String {
        output(self.client().args(["--command", question]))
    }

    /// Every index and heap, as pg_amcheck knows it.
    fn check_everything(&self) {
        let program = self.programs.join("pg_amcheck");
        if !program.exists() {
            iolane_testing::skipped("pg_amcheck is not installed");
            return;
        }
        let checked = Command::new(program)
            .args([
                "--install-missing",
                "--heapallindexed",
                "--username=postgres",
            ])
            .arg("--host")
            .arg(self.place.path())
            .arg("postgres")
            .output()
            .unwrap();
        assert!(checked.status.success(), "{checked:?}");
    }

    pub fn number(&self) -> String {
        let text = fs::read_to_string(self.path("data/postmaster.pid")).unwrap();
        text.lines().next().unwrap().to_owned()
    }

    pub fn stop(&self) {
        let stopped = Command::new("kill").args(["-INT", &self.number()]).status();
        assert!(stopped.unwrap().success());
    }
}

#[test]
fn postgresql_comes_back() {
    let Some(server) = Postgres::new() else {
        iolane_testing::skipped("PostgreSQL is not installed");
        return;
    };
    let mut running = server.start();
    server.ask("CREATE TABLE t(id BIGSERIAL PRIMARY KEY, v TEXT)");
    for _ in 0..kills() {
        let acknowledged = server.path("acknowledged");
        let mut inserting = start_inserting(server.client(), &acknowledged, INSERT);
        wait_until(|| acknowledged_in(&acknowledged).len() >= ROWS_MIN);
        std::thread::sleep(WORK);
        kill(&server.number());
        assert_eq!(running.wait(), Some(128 + 9));
        inserting.wait().unwrap();
        running = server.start();
        check(&acknowledged, &server.ask("SELECT id FROM t"));
        let found = server.ask("SELECT count(*) FROM t");
        server.ask("CHECKPOINT");
        server.ask("VACUUM t");
        assert_eq!(server.ask("SELECT count(v) FROM t"), found);
        server.check_everything();
    }
    server.stop();
    assert_eq!(running.wait(), Some(0));
    let report = crate::place::report(&server.path("report.json"));
    assert!(scheduled(&report) > 0, "{report}");
}
