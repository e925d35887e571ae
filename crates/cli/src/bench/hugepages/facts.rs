//! What `/proc` says about memory and page tables.

use std::fs;
use std::ops::Range;
use std::path::{Path, PathBuf};

use super::HugepagesError;

/// One directory per size of hugetlb pages.
pub(super) const HUGEPAGES_DIR: &str = "/sys/kernel/mm/hugepages";

/// Whether shared memory gets transparent huge pages.
pub(super) const SHMEM_ENABLED_PATH: &str = "/sys/kernel/mm/transparent_hugepage/shmem_enabled";

/// Memory that can be used without swapping.
pub(super) fn available_bytes() -> Result<u64, HugepagesError> {
    field_of("/proc/meminfo", "MemAvailable")
}

/// Page tables of a process, `VmPTE`: all levels, not only the last one.
pub(super) fn page_table_bytes(process: &str) -> Result<u64, HugepagesError> {
    field_of(&format!("/proc/{process}/status"), "VmPTE")
}

/// Bytes on huge pages in the shared mapping at `range`.
pub(super) fn shared_huge_bytes(range: Range<usize>) -> Result<u64, HugepagesError> {
    Ok(huge_bytes(&read("/proc/self/smaps")?, range))
}

fn huge_bytes(smaps: &str, range: Range<usize>) -> u64 {
    const FIELDS: [&str; 3] = ["ShmemPmdMapped", "Shared_Hugetlb", "Private_Hugetlb"];
    let mut inside = false;
    let mut sum = 0;
    for line in smaps.lines() {
        if let Some(mapping) = mapping_range(line) {
            inside = range.start <= mapping.start && mapping.end <= range.end;
        } else if inside {
            sum += FIELDS
                .iter()
                .find_map(|field| field_bytes(line, field))
                .unwrap_or(0);
        }
    }
    sum
}

fn mapping_range(line: &str) -> Option<Range<usize>> {
    let (start, end) = line.split_whitespace().next()?.split_once('-')?;
    let address = |text| usize::from_str_radix(text, 16).ok();
    Some(address(start)?..address(end)?)
}

fn field_of(path: &str, name: &'static str) -> Result<u64, HugepagesError> {
    let text = read(path)?;
    let found = text.lines().find_map(|line| field_bytes(line, name));
    found.ok_or_else(|| HugepagesError::Field {
        path: path.into(),
        name,
    })
}

/// The value of `name: 123 kB`, in bytes.
fn field_bytes(line: &str, name: &str) -> Option<u64> {
    let value = line.strip_prefix(name)?.strip_prefix(':')?;
    let kib: u64 = value.trim().strip_suffix("kB")?.trim().parse().ok()?;
    kib.checked_mul(1024)
}

fn read(path: &str) -> Result<String, HugepagesError> {
    fs::read_to_string(Path::new(path)).map_err(|source| HugepagesError::File {
        what: "reading",
        path: PathBuf::from(path),
        source,
        remedy: "Mount /proc as usual.",
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn this_machine_answers() {
        assert!(available_bytes().unwrap() > 0);
        assert!(page_table_bytes("self").unwrap() > 0);
        assert!(page_table_bytes("no-such-process").is_err());
    }

    #[test]
    fn only_the_mapping_asked_for_is_counted() {
        let smaps = "\
7f0000000000-7f0000400000 rw-s 00000000 00:01 5 /dev/zero (deleted)\n\
ShmemPmdMapped:     2048 kB\n\
7f0000400000-7f0000800000 rw-s 00000000 00:01 6 /anon_hugepage (deleted)\n\
Private_Hugetlb:    4096 kB\n";
        assert_eq!(huge_bytes(smaps, 0x7f0000000000..0x7f0000400000), 2 << 20);
        assert_eq!(huge_bytes(smaps, 0x7f0000400000..0x7f0000800000), 4 << 20);
    }
}
