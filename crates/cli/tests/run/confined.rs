//! Servers that AppArmor confines. With `packaging/apparmor/iolane` in their profile they are scheduled;
//! without it they work all the same, and are told of once.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::thread;
use std::time::Duration;

use crate::place::{iolane_run, report, wait_until};
use crate::servers::{MariaDb, Postgres, Running, has, output};

const ABSTRACTION: &str = include_str!("../../../../packaging/apparmor/iolane");
/// Where that file allows the library.
const INSTALLED: &str = "/usr/{,local/}lib/iolane/libiolane_interpose.so";
/// What is to be done, in the warning of `iolane run`.
const REMEDY: &str = "'include <abstractions/iolane>'";
/// What the servers need by themselves: nothing of `iolane run`'s is in it.
const PROFILE: &str = "include <tunables/global>
profile @NAME@ @PROGRAM@ {
  @RULES@
  /{etc,usr}/** r,
  /usr/{bin,sbin,lib}/** mrix,
  @PLACE@/ r,
  @PLACE@/data/{,**} rwk,
  @PLACE@/{socket,pid,.s.PGSQL.*,ib*,#*} rwk,
  @PLACE@/mariadbd mr,
  /dev/{null,urandom} rw,
  /dev/shm/{,PostgreSQL.*} rw,
  /sys/{block,dev,devices}/{,**} r,
  /proc/{meminfo,sys/kernel/cap_last_cap} r,
  @{PROC}/@{pid}/{cgroup,maps} r,
  capability sys_resource,
  network unix stream,
  network netlink raw,
  network inet,
  network inet6,
  signal peer=@NAME@,
}
";
/// A profile without it is of a server that nobody can stop.
const STOPPABLE: &str = "signal (receive) peer=unconfined,";
/// `iolane run` looks 5 s after the start.
const WARNED_AFTER: Duration = Duration::from_secs(6);
const COMMITS: usize = 50;

/// Whether profiles can be loaded here. Otherwise the test is skipped.
fn is_possible() -> bool {
    let enabled = fs::read_to_string("/sys/module/apparmor/parameters/enabled");
    let why = if !enabled.is_ok_and(|text| text.trim() == "Y") {
        "the kernel has no AppArmor"
    } else if output(Command::new("id").arg("-u")) != "0" {
        "AppArmor's profiles are root's to load"
    } else if !Path::new("/sys/kernel/security/apparmor").exists() {
        "securityfs is not mounted"
    } else if !has("apparmor_parser") || !has("aa-exec") {
        "apparmor is not installed"
    } else {
        return true;
    };
    iolane_testing::skipped(why);
    false
}

/// One that the kernel enforces until this is dropped.
struct Profile {
    name: String,
    file: PathBuf,
}

impl Profile {
    /// With more rules. Without a program nothing has it by itself.
    fn load(place: &Path, program: Option<&Path>, rules: &str) -> Profile {
        let name = format!(
            "iolane-test-{}",
            place
                .file_name()
                .unwrap()
                .display()
                .to_string()
                .replace('.', "")
        );
        let program = program.map_or(String::new(), |program| program.display().to_string());
        let text = PROFILE
            .replace("@RULES@", rules)
            .replace("@NAME@", &name)
            .replace("@PROGRAM@", &program)
            .replace("@PLACE@", &place.display().to_string());
        let file = place.join("profile");
        fs::write(&file, text).unwrap();
        let profile = Profile { name, file };
        profile.parse("--replace");
        profile
    }

    fn parse(&self, what: &str) {
        let parsed = Command::new("apparmor_parser")
            .args([what, "--skip-cache"])
            .arg(&self.file)
            .output()
            .unwrap();
        assert!(parsed.status.success(), "{parsed:?}");
    }

    fn confines(&self, process: &str) {
        let label = fs::read_to_string(format!("/proc/{process}/attr/current")).unwrap();
        assert_eq!(label.trim(), format!("{} (enforce)", self.name));
    }

    /// What the kernel has denied by it, but huge pages for PostgreSQL: these have no path.
    fn denied(&self) -> Vec<String> {
        let log = output(&mut Command::new("dmesg"));
        let profile = format!("profile=\"{}\"", self.name);
        log.lines()
            .filter(|line| line.contains("apparmor=\"DENIED\"") && line.contains(&profile))
            .filter(|line| !line.contains("disconnected path"))
            .map(str::to_owned)
            .collect()
    }

    /// After the server was told to end: what was to be seen of it.
    fn end(self, running: Running, rules: Rules) {
        assert_eq!(running.wait(), Some(0));
        let log = fs::read_to_string(self.file.with_file_name("log")).unwrap();
        let report = report(&self.file.with_file_name("report.json"));
        rules.check(&self.denied(), &report, &log);
    }
}

impl Drop for Profile {
    fn drop(&mut self) {
        self.parse("--remove");
    }
}

/// What a profile has of the rules for `iolane run`.
#[derive(Clone, Copy, PartialEq)]
enum Rules {
    All,
    LibraryAlone,
    None,
}

impl Rules {
    fn text(self, library: &Path) -> String {
        let library = library.display().to_string();
        match self {
            Rules::All => {
                assert!(ABSTRACTION.contains(INSTALLED));
                ABSTRACTION.replace(INSTALLED, &library)
            }
            Rules::LibraryAlone => format!("{library} mr, {STOPPABLE}"),
            Rules::None => STOPPABLE.to_owned(),
        }
    }

    /// What is to be seen of a server that has ended.
    fn check(self, denied: &[String], report: &serde_json::Value, log: &str) {
        let warnings = log.matches(REMEDY).count();
        if self == Rules::All {
            assert!(denied.is_empty(), "{denied:#?}");
            assert!(is_critical(report), "{report}");
            assert_eq!(warnings, 0, "{log}");
            return;
        }
        assert!(!is_critical(report), "{report}");
        assert_eq!(warnings, 1, "{log}");
        // The loader's word, and one attempt to come to the broker.
        let is_out = log.contains("cannot be preloaded");
        let attempts = denied.iter().filter(|line| line.contains("seqpacket"));
        assert_eq!(is_out, self == Rules::None, "{log}");
        assert_eq!(attempts.count(), usize::from(!is_out), "{denied:#?}");
    }
}

/// Whether a commit's requests are among those that were scheduled.
fn is_critical(report: &serde_json::Value) -> bool {
    let disks = report["report"]["disks"].as_array().unwrap();
    let mut roles = disks
        .iter()
        .flat_map(|disk| disk["roles"].as_array().unwrap());
    roles.any(|role| role["level"] == "critical" && role["requests"].as_u64() > Some(0))
}

/// Until the warning must have come, if it does.
fn await_warning(rules: Rules, log: &Path) {
    if rules == Rules::All {
        thread::sleep(WARNED_AFTER);
    } else {
        wait_until(|| fs::read_to_string(log).unwrap().contains(REMEDY));
    }
}

/// With read-ahead: of all that the library does it asks the kernel for the most.
fn iolane_run_mariadb(report: &Path) -> Command {
    let mut command = Command::new(env!("CARGO_BIN_EXE_iolane"));
    command.args(["run", "--profile", "mariadb", "--read-ahead", "logical"]);
    command
        .arg("--library")
        .arg(report.with_file_name("library.so"));
    command.arg("--report").arg(report).arg("--");
    command
}

/// A copy of the server has the profile by its path: others go on as they are.
fn mariadb_is_confined(rules: Rules) {
    if !is_possible() {
        return;
    }
    let Some(mut server) = MariaDb::new(&[], iolane_run_mariadb) else {
        return;
    };
    let installed = output(Command::new("sh").args(["-c", "command -v mariadbd"]));
    server.program = server.path("mariadbd");
    fs::copy(installed, &server.program).unwrap();
    let library = server.path("library.so");
    let built =
        Path::new(env!("CARGO_BIN_EXE_iolane")).with_file_name("deps/libiolane_interpose.so");
    fs::copy(built, &library).unwrap();
    let profile = Profile::load(
        library.parent().unwrap(),
        Some(&server.program),
        &rules.text(&library),
    );
    let running = server.start();
    profile.confines(fs::read_to_string(server.path("pid")).unwrap().trim());
    let made = "CREATE DATABASE d; CREATE TABLE d.t(id BIGINT AUTO_INCREMENT PRIMARY KEY, v TEXT)";
    output(server.client().args(["--execute", made]));
    server.ask(&"INSERT INTO t(v) VALUES (repeat('x', 700)); ".repeat(COMMITS));
    await_warning(rules, &server.path("log"));
    server.ask("SHUTDOWN");
    profile.end(running, rules);
    server.run = iolane_run;
    let running = server.start();
    assert_eq!(server.ask("SELECT COUNT(v) FROM t"), COMMITS.to_string());
    let checked = server.ask("CHECK TABLE t EXTENDED");
    assert!(checked.ends_with("status\tOK"), "{checked}");
    server.ask("SHUTDOWN");
    assert_eq!(running.wait(), Some(0));
}

#[test]
fn mariadb_is_scheduled_with_the_abstraction() {
    mariadb_is_confined(Rules::All);
}

#[test]
fn mariadb_works_without_the_library() {
    mariadb_is_confined(Rules::None);
}

#[test]
fn mariadb_works_without_the_way_to_the_broker() {
    mariadb_is_confined(Rules::LibraryAlone);
}

/// PostgreSQL finds its files beside its program: instead of a copy, the server itself is started
/// with the profile.
fn postgresql_is_confined(rules: Rules) {
    if !is_possible() {
        return;
    }
    let Some(mut server) = Postgres::new() else {
        iolane_testing::skipped("PostgreSQL is not installed");
        return;
    };
    let library = server.path("library.so");
    let profile = Profile::load(library.parent().unwrap(), None, &rules.text(&library));
    server.starter = ["aa-exec", "--profile", &profile.name, "--"]
        .map(str::to_owned)
        .to_vec();
    let running = server.start();
    profile.confines(&server.number());
    server.ask("CREATE TABLE t(id BIGSERIAL PRIMARY KEY, v TEXT)");
    for _ in 0..COMMITS {
        server.ask("INSERT INTO t(v) VALUES (repeat('x', 700))");
    }
    await_warning(rules, &server.path("log"));
    server.stop();
    profile.end(running, rules);
    server.starter.clear();
    let running = server.start();
    assert_eq!(server.ask("SELECT count(v) FROM t"), COMMITS.to_string());
    server.stop();
    assert_eq!(running.wait(), Some(0));
}

#[test]
fn postgresql_is_scheduled_with_the_abstraction() {
    postgresql_is_confined(Rules::All);
}

#[test]
fn postgresql_works_without_the_library() {
    postgresql_is_confined(Rules::None);
}
