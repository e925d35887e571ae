//! The unit's command, behind `iolane run`.

use super::installed::Unit;

/// Debian's starter gives the server an empty environment: nothing would be preloaded.
const CLUSTER_STARTER: &str = "pg_ctlcluster";

/// Lines that replace the command; `None` if it starts none of the programs.
pub fn command(unit: &Unit, programs: &[&str], prefix: &str) -> Option<Vec<String>> {
    let command = unit.last("ExecStart")?;
    let at = programs
        .iter()
        .find_map(|program| place_of(command, program))?;
    if command[at..].split(' ').next()?.ends_with(CLUSTER_STARTER) {
        return Some(cluster(prefix));
    }
    let parent = parent_number(unit);
    let mut lines = vec!["ExecStart=".to_owned()];
    let (before, after) = command.split_at(at);
    lines.push(match parent {
        // `exec` keeps the number of the shell.
        Some(name)
            if before
                .trim_start_matches(['-', '@', ':', '+', '!'])
                .is_empty() =>
        {
            format!("ExecStart={before}/bin/sh -c '{name}=$$$$ exec {prefix}{after}'")
        }
        _ => format!("ExecStart={before}{prefix}{after}"),
    });
    lines.extend(notifications(unit));
    lines.extend(crashes(unit));
    Some(lines)
}

/// Where the path of a program begins, the last time that it stands there as a word.
fn place_of(command: &str, program: &str) -> Option<usize> {
    let words = command.match_indices(program).filter(|(at, _)| {
        let end = at + program.len();
        let ends = command[end..].chars().next();
        command[..*at].ends_with('/') && ends.is_none_or(|next| " '\";".contains(next))
    });
    let (at, _) = words.last()?;
    let before = command[..at].rfind([' ', '"', '\'', '`', '(']);
    let word = before.map_or(0, |before| before + 1);
    // Prefixes of systemd stand before the path.
    Some(word + command[word..].find('/')?)
}

/// MySQL's `RESTART` asks whether its parent is this one.
fn parent_number(unit: &Unit) -> Option<&'static str> {
    const NAME: &str = "MYSQLD_PARENT_PID";
    unit.all("Environment")
        .any(|value| value.contains(NAME))
        .then_some(NAME)
}

/// The server itself says when it is ready; `iolane run`, its parent, is the main process.
fn notifications(unit: &Unit) -> Option<String> {
    let says = unit
        .last("Type")
        .is_some_and(|kind| kind.starts_with("notify"));
    says.then(|| "NotifyAccess=all".to_owned())
}

/// A server that a signal has ended is seen as an exit code of 128 and the signal's
/// number: those that systemd takes for a crash.
fn crashes(unit: &Unit) -> Option<String> {
    let restart = unit.last("Restart")?;
    let restarts = ["on-abnormal", "on-abort"].contains(&restart);
    restarts.then(|| {
        "# A crash: 128 and the signal's number.\n\
         RestartForceExitStatus=131 132 133 134 135 136 137 139 159"
            .to_owned()
    })
}

/// A cluster of Debian's, whose unit is one for all: what its starter would do, without
/// a second parent between.
fn cluster(prefix: &str) -> Vec<String> {
    let server = "/usr/lib/postgresql/$${0%%%%-*}/bin/postgres";
    [
        "Type=notify",
        "NotifyAccess=all",
        "PIDFile=",
        "User=postgres",
        "Group=postgres",
        "# What pg_ctlcluster does for the server.",
        "Environment=PG_OOM_ADJUST_FILE=/proc/self/oom_score_adj",
        "ExecStart=",
        &format!(
            "ExecStart=/bin/sh -c 'exec {prefix}{server} -c config_file=/etc/postgresql/%I/postgresql.conf >>/var/log/postgresql/postgresql-%i.log 2>&1' %i"
        ),
    ]
    .map(str::to_owned)
    .to_vec()
}
