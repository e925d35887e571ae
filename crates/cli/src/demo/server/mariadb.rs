//! MariaDB.

use std::ffi::OsString;
use std::path::{Path, PathBuf};
use std::process::Command;

use signal_hook::consts::SIGTERM;

use super::database::{Database, find};
use super::process::{Process, silenced};
use crate::error::Failure;
use crate::session::Session;
use crate::sys::file::is_root;

/// Where Debian has servers, which is not in every user's path.
const FOLDERS: [&str; 3] = ["/usr/sbin", "/usr/local/sbin", "/usr/bin"];

/// What is installed.
pub struct MariaDb {
    server: PathBuf,
    install: PathBuf,
    client: PathBuf,
    dump: PathBuf,
}

impl MariaDb {
    /// `None`: not all of it is.
    pub fn find() -> Option<Self> {
        let folders = FOLDERS.map(PathBuf::from);
        Some(Self {
            server: find("mariadbd", &folders)?,
            install: find("mariadb-install-db", &folders)?,
            client: find("mariadb", &folders)?,
            dump: find("mariadb-dump", &folders)?,
        })
    }

    fn client_of(&self, program: &Path, place: &Path) -> Command {
        let mut command = Command::new(program);
        command
            .args(["--no-defaults", "--user=root", "--socket"])
            .arg(socket(place));
        command
    }

    fn answering(&self, place: &Path) -> Command {
        let mut command = self.client_of(&self.client, place);
        command.args(["--batch", "--skip-column-names"]);
        command
    }
}

fn socket(place: &Path) -> PathBuf {
    place.join("socket")
}

fn option(name: &str, path: &Path) -> OsString {
    let mut word = OsString::from(name);
    word.push(path);
    word
}

fn data(folder: &Path) -> OsString {
    option("--datadir=", &folder.join("data"))
}

/// Where its temporary tables are. A server that starts removes those of others that it finds
/// there, and in `/tmp` they may be a running server's.
fn temporary(folder: &Path) -> OsString {
    option("--tmpdir=", folder)
}

/// In a container everybody is root, and the server wants to be told that this is meant.
fn as_root() -> Option<&'static str> {
    is_root().then_some("--user=root")
}

impl Database for MariaDb {
    fn name(&self) -> &'static str {
        "MariaDB"
    }

    fn install(&self, folder: &Path, session: &Session) -> Result<(), Failure> {
        let mut command = Command::new(&self.install);
        command
            .arg("--no-defaults")
            .arg(data(folder))
            .arg(temporary(folder))
            .args([
                "--auth-root-authentication-method=normal",
                "--skip-test-db",
                "--innodb-log-file-size=64M",
            ])
            .args(as_root());
        silenced(&mut command, folder)?;
        Process::start(&mut command, session)?.wait("mariadb-install-db", session)
    }

    /// It runs as who starts it.
    fn own(&self, _: &Path) -> Result<(), Failure> {
        Ok(())
    }

    fn server(&self, folder: &Path, place: &Path) -> Vec<OsString> {
        let mut words: Vec<OsString> = vec![self.server.clone().into(), "--no-defaults".into()];
        words.push(data(folder));
        words.push(temporary(folder));
        words.push("--socket".into());
        words.push(socket(place).into());
        words.extend(
            [
                "--skip-networking",
                "--skip-log-bin",
                // A fifth of the table. With less, the undo logs' 128 headers are read again
                // for each change.
                "--innodb-buffer-pool-size=32M",
                // As few pages are freed at a time as fit so small a pool. The server's default
                // is most of it, and then one burst of page writes holds up all changes.
                "--innodb-lru-scan-depth=128",
                "--innodb-log-file-size=64M",
                "--innodb-flush-method=O_DIRECT",
                "--performance-schema=OFF",
            ]
            .map(OsString::from),
        );
        words.extend(as_root().map(OsString::from));
        words
    }

    fn scaled_down(&self) -> &'static str {
        "Its buffer pool has 32 MiB, and it frees 128 pages at a time (innodb_lru_scan_depth), as fits that"
    }

    fn end_signal(&self) -> i32 {
        SIGTERM
    }

    fn client(&self, place: &Path) -> Command {
        let mut command = self.answering(place);
        command.args(["--unbuffered", "demo"]);
        command
    }

    fn asks(&self, place: &Path, statement: &str) -> Command {
        let mut command = self.answering(place);
        command.args(["--execute", statement]);
        command
    }

    fn dump(&self, place: &Path) -> Command {
        let mut command = self.client_of(&self.dump, place);
        command.args(["--single-transaction", "--quick", "demo"]);
        command
    }

    fn version(&self) -> &'static str {
        "SELECT VERSION()"
    }

    fn table(&self) -> &'static str {
        "CREATE DATABASE demo; CREATE TABLE demo.t (id INT PRIMARY KEY, n INT NOT NULL, filling CHAR(200) NOT NULL) ENGINE=InnoDB CHARACTER SET latin1"
    }

    fn rows(&self, first: u64, last: u64) -> String {
        format!(
            "INSERT INTO demo.t SELECT seq, 0, REPEAT(MD5(seq), 6) FROM demo.seq_{first}_to_{last}"
        )
    }

    fn look_up(&self, row: u64) -> String {
        format!("SELECT n FROM t WHERE id = {row};\n")
    }

    fn change(&self, row: u64) -> String {
        format!("UPDATE t SET n = n + 1 WHERE id = {row}; SELECT 1;\n")
    }

    /// It reads past the page cache.
    fn cached_files(&self) -> Option<&'static str> {
        None
    }
}
