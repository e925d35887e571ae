//! What a unit takes from its service, as far as `iolane run` needs it.

use std::path::Path;

use super::installed::Unit;
use crate::error::Failure;

/// Beside the calls of any server: shared memory, the broker's and the processes' life
/// lines.
const CALLS: &str = "memfd_create mincore pidfd_open process_vm_readv set_robust_list setpriority";

/// Whether the service can see a file.
///
/// # Errors
/// It cannot.
pub fn check(unit: &Unit, path: &Path) -> Result<(), Failure> {
    let is_on = |key: &str| {
        let value = unit.last(key).unwrap_or("no");
        !["no", "false", "off", "0"].contains(&value)
    };
    let hidden: [(&str, &[&str]); 2] = [
        ("ProtectHome", &["/home", "/root", "/run/user"]),
        ("PrivateTmp", &["/tmp", "/var/tmp"]),
    ];
    for (key, folders) in hidden {
        if is_on(key) && folders.iter().any(|folder| path.starts_with(folder)) {
            return Err(Failure::setup(
                format!("{} does not see {} ({key}=)", unit.name, path.display()),
                "Install iolane below /usr or /usr/local.",
            ));
        }
    }
    Ok(())
}

/// Settings without which it would not work there.
pub fn additions(unit: &Unit) -> Vec<String> {
    let mut lines = vec![
        "# The broker goes before others where processors are few.".to_owned(),
        "LimitNICE=-10".to_owned(),
    ];
    // Lists of what is allowed grow by what is said again.
    let allows = |key: &str| {
        unit.all(key)
            .next()
            .is_some_and(|first| !first.starts_with('~'))
    };
    if allows("RestrictAddressFamilies") {
        lines.push("RestrictAddressFamilies=AF_UNIX".to_owned());
    }
    if allows("SystemCallFilter") {
        lines.push(format!("SystemCallFilter={CALLS}"));
    }
    lines
}
