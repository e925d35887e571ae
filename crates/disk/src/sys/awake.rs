//! Processors that do not fall asleep.

use std::fs::{File, OpenOptions};
use std::io::Write;

/// See Documentation/admin-guide/pm/cpuidle.rst of the kernel, "Power
/// Management Quality of Service".
const DEVICE: &str = "/dev/cpu_dma_latency";

/// While this is held, idle processors of the machine wait for work without
/// sleeping, so that the next thread is woken at once; they take the power of
/// busy ones. Ends with the process at the latest, however that ends.
#[derive(Debug)]
pub struct Awake(#[expect(dead_code, reason = "held, not used")] File);

impl Awake {
    /// Nothing where it is not allowed (it takes root), or the machine has no
    /// idle states that it controls.
    pub fn hold() -> Option<Awake> {
        let mut file = OpenOptions::new().write(true).open(DEVICE).ok()?;
        file.write_all(&0i32.to_ne_bytes()).ok()?;
        Some(Awake(file))
    }
}
