//! Mode `kernel`: no library enters the command. Its threads have the kernel's I/O
//! priorities instead, by those rules that name processes or threads, and the disks that
//! it uses get the scheduler `prio-deadline` where the kernel has it.

mod disks;
mod report;
mod tasks;

use std::process::Command;
use std::time::{Duration, Instant};

use iolane_broker::Rules;

use super::child::Host;
use crate::session::Session;
use disks::Disks;
pub use report::KernelReport;
use tasks::Tasks;

/// Between two looks at which threads there are.
const LOOK: Duration = Duration::from_millis(100);

/// The command's threads and disks.
pub struct Kernel<'a> {
    tasks: Tasks<'a>,
    disks: Disks<'a>,
    looked: Option<Instant>,
    tell: &'a dyn Fn(&KernelReport),
}

impl<'a> Kernel<'a> {
    pub fn new(rules: &'a Rules, session: &'a Session, tell: &'a dyn Fn(&KernelReport)) -> Self {
        Kernel {
            tasks: Tasks::new(rules, &session.paths.proc),
            disks: Disks::new(session),
            looked: None,
            tell,
        }
    }

    /// What was done so far.
    pub fn report(&self) -> KernelReport {
        KernelReport {
            disks: self.disks.report(),
            roles: self.tasks.report(),
            refused: self.tasks.refused(),
        }
    }
}

impl Host for Kernel<'_> {
    fn prepare(&self, _command: &mut Command) {}

    fn started(&mut self, process: u32) {
        self.tasks.begin(process);
    }

    fn look(&mut self) {
        if self.looked.is_some_and(|looked| looked.elapsed() < LOOK) {
            return;
        }
        self.looked = Some(Instant::now());
        self.tasks.look();
        self.disks.look(self.tasks.processes());
    }

    fn is_used(&self) -> bool {
        self.tasks.processes().next().is_some()
    }

    fn tell(&self) {
        (self.tell)(&self.report());
    }
}
