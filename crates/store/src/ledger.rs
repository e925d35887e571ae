//! Who used the device, and how well it was kept busy.

use crate::policy::Role;
use iolane::{DeviceStatistics, Outstanding, Tag, TagStatistics, TimeAtCount};

/// What a request goes to.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum FileClass {
    /// Tablespaces.
    Data,
    /// The redo log.
    Log,
    /// The doublewrite area.
    Doublewrite,
}

impl FileClass {
    /// All of them.
    pub const ALL: [FileClass; 3] = [FileClass::Data, FileClass::Log, FileClass::Doublewrite];

    /// Name in tables and documents.
    pub const fn name(self) -> &'static str {
        match self {
            FileClass::Data => "data",
            FileClass::Log => "log",
            FileClass::Doublewrite => "doublewrite",
        }
    }

    /// How many of its requests were outstanding, and for how long.
    pub fn of(self, outstanding: &Outstanding) -> &TimeAtCount {
        &outstanding.classes[self as usize]
    }
}

/// The mark of a request in the engine's statistics.
pub(crate) const fn tag(role: Role, class: FileClass) -> Tag {
    Tag::new(role.index() as u8, class as u8)
}

const _: () = assert!(Role::COUNT <= Tag::COUNT);
const _: () = assert!(FileClass::ALL.len() <= Tag::CLASSES);

/// Requests, bytes and times by role and level, since the engine first used
/// the device or between two moments ([`since`](Ledger::since)). Stores that
/// share an engine and a device share the ledger.
#[derive(Clone, Debug, Default)]
pub struct Ledger {
    device: DeviceStatistics,
}

impl Ledger {
    pub(crate) fn new(device: DeviceStatistics) -> Ledger {
        Ledger { device }
    }

    /// Requests of a role.
    pub fn role(&self, role: Role) -> TagStatistics {
        self.device.tag(tag(role, FileClass::Data))
    }

    /// How many requests of a class were outstanding, and for how long.
    pub fn outstanding(&self, class: FileClass) -> &TimeAtCount {
        self.device.class(class as usize)
    }

    /// All requests on the device.
    pub fn device(&self) -> &DeviceStatistics {
        &self.device
    }

    /// What happened after `earlier`, a state of the same store.
    #[must_use]
    pub fn since(&self, earlier: &Ledger) -> Ledger {
        Ledger::new(self.device.since(&earlier.device))
    }

    /// Adds `other`, as for a total over repetitions.
    pub fn merge(&mut self, other: &Ledger) {
        self.device.merge(&other.device);
    }
}
