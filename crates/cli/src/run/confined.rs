//! A command that AppArmor confines: its profile may keep the library out, or its way to the broker.

use std::fs;
use std::time::Duration;

use iolane_broker::MEMORY_NAME;

/// A server has sent its first request to a disk by then.
pub const PATIENCE: Duration = Duration::from_secs(5);

/// The profile that confines the process, where it is another than this program's: what that one
/// denies showed before the command was started.
pub fn profile_of(process: u32) -> Option<String> {
    let label = |process: &str| fs::read_to_string(format!("/proc/{process}/attr/current")).ok();
    let label_there = label(&process.to_string())?;
    let is_own = label("self").is_some_and(|own| own == label_there);
    enforced(&label_there)
        .filter(|_| !is_own)
        .map(str::to_owned)
}

/// Whether the process, with the program that it executes now, has come to the broker; `None` if it
/// may not be looked at.
pub fn has_come(process: u32) -> Option<bool> {
    let maps = fs::read(format!("/proc/{process}/maps")).ok()?;
    let memory = format!("/memfd:{}", MEMORY_NAME.to_string_lossy());
    Some(String::from_utf8_lossy(&maps).contains(&memory))
}

/// The profile's name in a label, such as `mariadbd (enforce)`. `unconfined`, and labels of other
/// security modules, have no mode; a profile that only complains denies nothing.
fn enforced(label: &str) -> Option<&str> {
    let label = label.trim_end_matches(['\n', '\0']);
    let (name, mode) = label.strip_suffix(')')?.rsplit_once(" (")?;
    ["enforce", "kill", "mixed"].contains(&mode).then_some(name)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_profile_is_told_from_what_denies_nothing() {
        assert_eq!(enforced("mariadbd (enforce)\n"), Some("mariadbd"));
        assert_eq!(enforced("/a (b)//c (kill)"), Some("/a (b)//c"));
        assert_eq!(enforced("mariadbd (complain)\n"), None);
        assert_eq!(enforced("unconfined\n"), None);
        assert_eq!(enforced("system_u:system_r:mysqld_t:s0\0"), None);
    }
}
