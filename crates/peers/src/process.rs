//! What the system knows of a process: memory, bytes read from disks.

use anyhow::{Context, Result};

/// Memory of a process, in bytes.
#[derive(Clone, Copy, Debug, Default)]
pub struct Memory {
    /// Resident, pages of mapped files and huge pages included.
    pub resident: u64,
    /// Pages of mapped files, which are in the page cache anyway.
    pub of_files: u64,
}

/// Memory of a process now: proc_pid_status(5).
///
/// # Errors
/// It has ended.
pub fn memory(process: u32) -> Result<Memory> {
    let status = std::fs::read_to_string(format!("/proc/{process}/status"))?;
    let bytes = |name: &str| -> Option<u64> {
        let line = status.lines().find_map(|line| line.strip_prefix(name))?;
        let kib = line.trim_start_matches(':').trim().strip_suffix(" kB")?;
        Some(kib.trim().parse::<u64>().ok()? << 10)
    };
    // Huge pages that were set aside do not count as resident.
    let huge = bytes("HugetlbPages").unwrap_or(0);
    Ok(Memory {
        resident: bytes("VmRSS").context("no VmRSS")? + huge,
        of_files: bytes("RssFile").unwrap_or(0),
    })
}

/// Bytes that a process has had read from disks: proc_pid_io(5).
///
/// # Errors
/// It has ended, or belongs to somebody else.
pub fn read_bytes(process: u32) -> Result<u64> {
    let io = std::fs::read_to_string(format!("/proc/{process}/io"))?;
    let line = io
        .lines()
        .find_map(|line| line.strip_prefix("read_bytes: "));
    Ok(line.context("no read_bytes")?.trim().parse()?)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn this_process_has_memory() {
        let before = memory(std::process::id()).unwrap();
        let mib = 32 << 20;
        let block = std::hint::black_box(vec![1_u8; mib]);
        let after = memory(std::process::id()).unwrap();
        assert!(after.resident >= before.resident + (mib as u64) / 2);
        assert!(read_bytes(std::process::id()).is_ok());
        drop(block);
    }
}
