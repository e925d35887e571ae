//! A scratch MariaDB server.

use std::env;
use std::fs::File;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::thread;
use std::time::{Duration, Instant};

use super::process::Process;
use crate::error::Failure;
use crate::session::Session;
use crate::sys::file::is_root;
use crate::target::ScratchDirectory;

/// Where Debian has servers, which is not in every user's path.
const FOLDERS: [&str; 3] = ["/usr/sbin", "/usr/local/sbin", "/usr/bin"];
/// A start after a clean end.
const START_MAX: Duration = Duration::from_secs(60);
const LOOK: Duration = Duration::from_millis(50);
/// Of the table's rows: a number and 200 characters.
const ROW_BYTES: u64 = 240;
const WITHOUT_IT: &str = "Run the demo with --server none, which needs no server.";

/// What is installed.
pub struct Programs {
    server: PathBuf,
    install: PathBuf,
    client: PathBuf,
    dump: PathBuf,
}

impl Programs {
    /// `None`: not all of them are.
    pub fn find() -> Option<Self> {
        Some(Self {
            server: find("mariadbd")?,
            install: find("mariadb-install-db")?,
            client: find("mariadb")?,
            dump: find("mariadb-dump")?,
        })
    }
}

fn find(name: &str) -> Option<PathBuf> {
    let path = env::var_os("PATH").unwrap_or_default();
    let folders = env::split_paths(&path).chain(FOLDERS.map(PathBuf::from));
    folders
        .map(|folder| folder.join(name))
        .find(|file| file.is_file())
}

/// Makes an empty database.
///
/// # Errors
/// The program fails.
pub fn install(programs: &Programs, folder: &Path, session: &Session) -> Result<(), Failure> {
    let mut command = Command::new(&programs.install);
    command
        .arg("--no-defaults")
        .arg(format!("--datadir={}", folder.join("data").display()))
        .args([
            "--auth-root-authentication-method=normal",
            "--skip-test-db",
            "--innodb-log-file-size=64M",
        ]);
    as_root(&mut command);
    silenced(&mut command, folder)?;
    Process::start(&mut command, session)?.wait("mariadb-install-db", session)
}

/// In a container everybody is root, and the server wants to be told that this is meant.
fn as_root(command: &mut Command) {
    if is_root() {
        command.arg("--user=root");
    }
}

fn silenced(command: &mut Command, folder: &Path) -> Result<(), Failure> {
    let path = folder.join("log");
    let log = File::options().create(true).append(true).open(&path);
    let log = log.map_err(|source| Failure::Output { path, source })?;
    let other = log.try_clone().map_err(|source| Failure::Output {
        path: folder.join("log"),
        source,
    })?;
    command.stdin(Stdio::null()).stdout(log).stderr(other);
    Ok(())
}

/// It runs until it is dropped.
pub struct Server<'a> {
    programs: &'a Programs,
    socket: PathBuf,
    process: Process,
    /// In the folder of temporary files: the path of a socket has at most 107 bytes.
    _place: ScratchDirectory,
}

impl<'a> Server<'a> {
    /// Starts it, under `iolane run` if wanted, and waits until it answers.
    ///
    /// # Errors
    /// It does not.
    pub fn start(
        programs: &'a Programs,
        folder: &Path,
        under_iolane: bool,
        session: &Session,
    ) -> Result<Self, Failure> {
        let place = ScratchDirectory::make(&env::temp_dir(), "iolane-demo-socket", session)?;
        let socket = place.path.join("socket");
        let mut command = match (&session.program, under_iolane) {
            (Some(program), true) => {
                let mut command = Command::new(program);
                let report = folder.join("report.txt");
                command.arg("run").arg("--report").arg(report).arg("--");
                command.arg(&programs.server);
                command
            }
            _ => Command::new(&programs.server),
        };
        command
            .arg("--no-defaults")
            .arg(format!("--datadir={}", folder.join("data").display()))
            .arg(format!("--socket={}", socket.display()))
            .args([
                "--skip-networking",
                "--skip-log-bin",
                // A tenth of the table.
                "--innodb-buffer-pool-size=16M",
                "--innodb-log-file-size=64M",
                "--innodb-flush-method=O_DIRECT",
                "--performance-schema=OFF",
            ]);
        as_root(&mut command);
        silenced(&mut command, folder)?;
        let process = Process::start(&mut command, session)?;
        let server = Self {
            programs,
            socket,
            process,
            _place: place,
        };
        server.await_answer(session)?;
        Ok(server)
    }

    fn await_answer(&self, session: &Session) -> Result<(), Failure> {
        let begun = Instant::now();
        while self.ask("SELECT 1").is_err() {
            session.stop.check()?;
            if self.process.ended().is_some() || begun.elapsed() > START_MAX {
                return Err(Failure::setup("the server does not start", WITHOUT_IT));
            }
            thread::sleep(LOOK);
        }
        Ok(())
    }

    fn client_of(&self, program: &Path) -> Command {
        let mut command = Command::new(program);
        command
            .args(["--no-defaults", "--user=root"])
            .arg(format!("--socket={}", self.socket.display()))
            .stderr(Stdio::null());
        command
    }

    /// A client that reads statements from a pipe, and answers each with a line.
    pub fn client(&self) -> Command {
        let mut command = self.client_of(&self.programs.client);
        command
            .args(["--batch", "--skip-column-names", "--unbuffered", "demo"])
            .stdin(Stdio::piped())
            .stdout(Stdio::piped());
        command
    }

    /// Writes all of the table to a pipe.
    pub fn dump(&self) -> Command {
        let mut command = self.client_of(&self.programs.dump);
        command
            .args(["--single-transaction", "--quick", "demo"])
            .stdin(Stdio::null())
            .stdout(Stdio::piped());
        command
    }

    fn ask(&self, statement: &str) -> Result<String, Failure> {
        let mut command = self.client_of(&self.programs.client);
        command.args(["--batch", "--skip-column-names", "--execute", statement]);
        let refused = |why: String| Failure::setup(format!("{statement}: {why}"), WITHOUT_IT);
        let output = command.stdin(Stdio::null()).stderr(Stdio::piped()).output();
        let output = output.map_err(|error| refused(error.to_string()))?;
        if !output.status.success() {
            return Err(refused(
                String::from_utf8_lossy(&output.stderr).trim().to_owned(),
            ));
        }
        Ok(String::from_utf8_lossy(&output.stdout).trim().to_owned())
    }

    /// Such as `MariaDB 10.11.6`.
    ///
    /// # Errors
    /// It does not answer.
    pub fn version(&self) -> Result<String, Failure> {
        let version = self.ask("SELECT VERSION()")?;
        let number = version.split('-').next().unwrap_or_default();
        Ok(format!("MariaDB {number}"))
    }

    /// Makes the table, part by part.
    ///
    /// # Errors
    /// What the server refuses, or an interruption.
    pub fn fill(&self, bytes: u64, session: &Session) -> Result<(), Failure> {
        const PARTS: u64 = 16;
        self.ask(
            "CREATE DATABASE demo; CREATE TABLE demo.t (id INT PRIMARY KEY, n INT NOT NULL, filling CHAR(200) NOT NULL) ENGINE=InnoDB CHARACTER SET latin1",
        )?;
        let part = rows(bytes) / PARTS;
        let phase = session.progress.bytes("filling a table", bytes);
        for number in 0..PARTS {
            session.stop.check()?;
            let (first, last) = (number * part + 1, (number + 1) * part);
            self.ask(&format!(
                "INSERT INTO demo.t SELECT seq, 0, REPEAT(MD5(seq), 6) FROM demo.seq_{first}_to_{last}"
            ))?;
            phase.advance(bytes / PARTS);
        }
        Ok(())
    }
}

/// Of a table of so many bytes.
pub fn rows(bytes: u64) -> u64 {
    bytes / ROW_BYTES
}
