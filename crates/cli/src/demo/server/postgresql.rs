//! PostgreSQL.

use std::ffi::OsString;
use std::fs;
use std::os::unix::fs::chown;
use std::path::{Path, PathBuf};
use std::process::Command;

use signal_hook::consts::SIGINT;

use super::database::{Database, WITHOUT_IT, find};
use super::process::{Process, silenced};
use crate::error::Failure;
use crate::session::Session;
use crate::sys::file::is_root;

/// Where Debian has a folder for each version.
const VERSIONS: &str = "/usr/lib/postgresql";
/// The server refuses to run as root.
const USER: &str = "postgres";
const USERS: &str = "/etc/passwd";

/// What is installed.
pub struct PostgreSql {
    server: PathBuf,
    install: PathBuf,
    client: PathBuf,
    dump: PathBuf,
    /// Whom the server runs as, if this program is root.
    user: Option<User>,
}

struct User {
    number: u32,
    group: u32,
    setpriv: PathBuf,
}

impl PostgreSql {
    /// `None`: not all of it is.
    pub fn find() -> Option<Self> {
        let folders = folders();
        let user = match is_root() {
            true => Some(User::find()?),
            false => None,
        };
        Some(Self {
            server: find("postgres", &folders)?,
            install: find("initdb", &folders)?,
            client: find("psql", &folders)?,
            dump: find("pg_dump", &folders)?,
            user,
        })
    }

    /// A program of the server's, by the user that the server runs as.
    fn as_user(&self, program: &Path) -> Vec<OsString> {
        let mut words = Vec::new();
        if let Some(user) = &self.user {
            words.push(user.setpriv.clone().into_os_string());
            words.push(format!("--reuid={}", user.number).into());
            words.push(format!("--regid={}", user.group).into());
            words.push("--clear-groups".into());
        }
        words.push(program.into());
        words
    }

    fn client_of(&self, program: &Path, place: &Path) -> Command {
        let mut command = Command::new(program);
        command
            .arg("--host")
            .arg(place)
            .args(["--username", USER, "--dbname", USER]);
        command
    }

    fn psql(&self, place: &Path) -> Command {
        let mut command = self.client_of(&self.client, place);
        command.args(["--no-psqlrc", "--quiet", "--no-align", "--tuples-only"]);
        command
    }
}

/// The newest version first.
fn folders() -> Vec<PathBuf> {
    let entries = fs::read_dir(VERSIONS).into_iter().flatten().flatten();
    let number = |folder: &PathBuf| -> Option<u32> { folder.file_name()?.to_str()?.parse().ok() };
    let mut folders: Vec<PathBuf> = entries.map(|entry| entry.path()).collect();
    folders.sort_by_key(|folder| std::cmp::Reverse(number(folder)));
    folders.iter().map(|folder| folder.join("bin")).collect()
}

impl User {
    fn find() -> Option<Self> {
        let users = fs::read_to_string(USERS).ok()?;
        let (number, group) = numbers(&users)?;
        let setpriv = find("setpriv", &[])?;
        Some(Self {
            number,
            group,
            setpriv,
        })
    }
}

/// passwd(5): a line for each user, with the numbers of user and group behind the password.
fn numbers(users: &str) -> Option<(u32, u32)> {
    let mut lines = users.lines().map(|line| line.split(':'));
    let mut fields =
        lines.find_map(|mut fields| (fields.next() == Some(USER)).then_some(fields))?;
    let number = fields.nth(1)?.parse().ok()?;
    Some((number, fields.next()?.parse().ok()?))
}

impl Database for PostgreSql {
    fn name(&self) -> &'static str {
        "PostgreSQL"
    }

    fn install(&self, folder: &Path, session: &Session) -> Result<(), Failure> {
        let data = folder.join("data");
        fs::create_dir(&data).map_err(|source| Failure::Output {
            path: data.clone(),
            source,
        })?;
        self.own(&data)?;
        let words = self.as_user(&self.install);
        let mut command = Command::new(&words[0]);
        command.args(&words[1..]).arg("--pgdata").arg(data).args([
            "--auth=trust",
            "--username",
            USER,
            "--no-sync",
        ]);
        silenced(&mut command, folder)?;
        Process::start(&mut command, session)?.wait("initdb", session)
    }

    fn own(&self, folder: &Path) -> Result<(), Failure> {
        let Some(user) = &self.user else {
            return Ok(());
        };
        chown(folder, Some(user.number), Some(user.group))
            .map_err(|error| Failure::setup(format!("{}: {error}", folder.display()), WITHOUT_IT))
    }

    fn server(&self, folder: &Path, place: &Path) -> Vec<OsString> {
        let mut words = self.as_user(&self.server);
        words.push("-D".into());
        words.push(folder.join("data").into());
        words.push("-k".into());
        words.push(place.into());
        // A tenth of the table.
        for setting in ["listen_addresses=", "shared_buffers=16MB"] {
            words.push("-c".into());
            words.push(setting.into());
        }
        words
    }

    fn scaled_down(&self) -> &'static str {
        "It has 16 MiB of shared buffers, and no more of the page cache than these"
    }

    /// The "fast" way of pg_ctl(1): SIGTERM waits for all clients.
    fn end_signal(&self) -> i32 {
        SIGINT
    }

    fn client(&self, place: &Path) -> Command {
        self.psql(place)
    }

    fn asks(&self, place: &Path, statement: &str) -> Command {
        let mut command = self.psql(place);
        command.args(["--command", statement]);
        command
    }

    fn dump(&self, place: &Path) -> Command {
        self.client_of(&self.dump, place)
    }

    fn version(&self) -> &'static str {
        "SHOW server_version"
    }

    fn table(&self) -> &'static str {
        "CREATE TABLE t (id INT PRIMARY KEY, n INT NOT NULL, filling CHAR(200) NOT NULL)"
    }

    fn rows(&self, first: u64, last: u64) -> String {
        format!(
            "INSERT INTO t SELECT i, 0, repeat(md5(i::text), 6) FROM generate_series({first}, {last}) i"
        )
    }

    fn look_up(&self, row: u64) -> String {
        format!("SELECT n FROM t WHERE id = {row};\n")
    }

    fn change(&self, row: u64) -> String {
        format!("UPDATE t SET n = n + 1 WHERE id = {row} RETURNING n;\n")
    }

    fn cached_files(&self) -> Option<&'static str> {
        Some(
            "SELECT 'data/' || pg_relation_filepath(oid) FROM pg_class WHERE relname IN ('t', 't_pkey')",
        )
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_numbers_of_the_user_are_found() {
        let users = "root:x:0:0:root:/root:/bin/bash\npostgres2:x:7:8::/:/bin/sh\n\
                     postgres:x:105:113:PostgreSQL,,,:/var/lib/postgresql:/bin/bash\n";
        assert_eq!(numbers(users), Some((105, 113)));
        assert_eq!(numbers("postgres:x:one:2::/:/bin/sh"), None);
        assert_eq!(numbers("root:x:0:0:root:/root:/bin/bash"), None);
    }
}
