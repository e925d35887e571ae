//! What was done in mode `kernel`.

use std::fmt::{self, Display, Formatter};

use serde::Serialize;

/// All of it.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct KernelReport {
    /// Disks on which the command had files open.
    pub disks: Vec<DiskReport>,
    /// Threads that were given a priority.
    pub roles: Vec<RoleReport>,
    /// Threads that could not be given theirs.
    pub refused: u64,
}

/// Of one disk.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct DiskReport {
    pub disk: String,
    pub scheduler_before: Option<String>,
    /// While the command ran.
    pub scheduler: Option<String>,
    /// `levels`, `background` (which it puts behind everything else) or `nothing`.
    pub honours: &'static str,
}

/// Of one role.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct RoleReport {
    /// The rule's name.
    pub role: String,
    pub level: &'static str,
    pub threads: u64,
}

impl Display for KernelReport {
    fn fmt(&self, f: &mut Formatter<'_>) -> fmt::Result {
        for disk in &self.disks {
            let name = |scheduler: &Option<String>| match scheduler {
                Some(name) => name.clone(),
                None => "no scheduler".to_owned(),
            };
            let (before, now) = (name(&disk.scheduler_before), name(&disk.scheduler));
            writeln!(
                f,
                "{}: {now}, before and after {before}; it honours {}",
                disk.disk, disk.honours
            )?;
        }
        for role in &self.roles {
            writeln!(
                f,
                "  {:<18} {:<10} {:>9} threads",
                role.role, role.level, role.threads
            )?;
        }
        if self.refused > 0 {
            writeln!(
                f,
                "{} threads could not be given their priority",
                self.refused
            )?;
        }
        if self.roles.is_empty() {
            writeln!(
                f,
                "no rule names a thread or process of this command: nothing was changed"
            )?;
        }
        Ok(())
    }
}
