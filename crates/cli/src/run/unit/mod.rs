//! What makes a service of systemd start its database under `iolane run`: a drop-in.
//!
//! It is made from the unit that is installed here, so that it fits the package's: the
//! command is replaced by the same behind `iolane run`, and what the unit's sandbox takes
//! from it is checked, or added.

mod installed;
mod sandbox;
mod wrap;

use std::path::{Path, PathBuf};

use crate::error::Failure;
use installed::Unit;

/// Where units lie; the first of a name counts.
const FOLDERS: [&str; 5] = [
    "/etc/systemd/system",
    "/run/systemd/system",
    "/usr/local/lib/systemd/system",
    "/usr/lib/systemd/system",
    "/lib/systemd/system",
];
/// The drop-in's own name: what it says does not count as the unit's.
pub const DROP_IN: &str = "iolane.conf";

/// A database that has a unit of its own.
struct Service {
    /// As in `--print-unit NAME`, and the profile's name.
    name: &'static str,
    /// Units that packages bring, the usual one first.
    units: &'static [&'static str],
    /// The server's program: its file's name.
    programs: &'static [&'static str],
}

const SERVICES: [Service; 3] = [
    Service {
        name: "mariadb",
        units: &["mariadb.service"],
        programs: &["mariadbd", "mysqld"],
    },
    Service {
        name: "mysql",
        units: &["mysql.service", "mysqld.service"],
        programs: &["mysqld"],
    },
    Service {
        name: "postgresql",
        units: &["postgresql@.service", "postgresql.service"],
        programs: &["postgres", "postmaster", "pg_ctlcluster"],
    },
];

/// What the service runs.
pub struct Runner {
    /// This program.
    pub program: PathBuf,
    pub library: PathBuf,
    /// The program does not find the library by itself.
    pub is_named: bool,
    /// Memory for logical read-ahead, if it is asked for.
    pub read_ahead: Option<u64>,
}

impl Runner {
    /// Up to the server's command.
    fn words(&self, service: &Service, report: &str) -> String {
        let library = if self.is_named {
            format!("--library {} ", self.library.display())
        } else {
            String::new()
        };
        let read_ahead = self.read_ahead.map_or_else(String::new, |bytes| {
            format!("--read-ahead logical --read-ahead-memory {bytes} ")
        });
        format!(
            "{} run --profile {} --report {report} {library}{read_ahead}-- ",
            self.program.display(),
            service.name
        )
    }
}

/// The drop-in for a database.
///
/// # Errors
/// There is no unit that could be changed, or it would not see the program.
pub fn drop_in(name: &str, runner: &Runner) -> Result<String, Failure> {
    let folders = FOLDERS.map(Path::new);
    let service = service(name)?;
    let found = service
        .units
        .iter()
        .find_map(|unit| installed::read(unit, &folders))
        .ok_or_else(|| {
            Failure::setup(
                format!("no unit {} is installed", service.units.join(" or ")),
                "Install the server's package first: the drop-in is made from its unit.",
            )
        })?;
    made(service, &found, runner)
}

fn service(name: &str) -> Result<&'static Service, Failure> {
    SERVICES
        .iter()
        .find(|service| service.name == name)
        .ok_or_else(|| {
            let names = SERVICES.map(|service| service.name).join(", ");
            Failure::setup(
                format!("'{name}' has no unit that could be changed"),
                format!("Use one of: {names}."),
            )
        })
}

fn made(service: &Service, unit: &Unit, runner: &Runner) -> Result<String, Failure> {
    sandbox::check(unit, &runner.program)?;
    sandbox::check(unit, &runner.library)?;
    let folder = format!("iolane/{}", service.name);
    // A template's unit has an instance for each cluster.
    let report = if unit.name.contains('@') {
        "%i.html"
    } else {
        "report.html"
    };
    let prefix = runner.words(service, &format!("%L/{folder}/{report}"));
    let mut lines = wrap::command(unit, service.programs, &prefix).ok_or_else(|| {
        Failure::setup(
            format!(
                "{} starts none of: {}",
                unit.path,
                service.programs.join(", ")
            ),
            "Put iolane run -- before the server's program in an ExecStart= of your own.",
        )
    })?;
    lines.push("# The report, at the end and on SIGUSR1 to the unit's main process.".to_owned());
    lines.push(format!("LogsDirectory={folder}"));
    lines.extend(sandbox::additions(unit));
    let head = format!(
        "# {name}: iolane run, for {path}. Put it into\n\
         # /etc/systemd/system/{unit}.d/{DROP_IN}, then: systemctl daemon-reload; systemctl restart {name}\n\
         # Without it, and after the same two commands, all is as before.\n[Service]\n",
        name = service.name,
        path = unit.path,
        unit = unit.name,
    );
    Ok(head + &lines.join("\n") + "\n")
}

#[cfg(test)]
mod tests;
