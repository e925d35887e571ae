//! What the machine says about its pages: sizes and pools in sysfs, free memory
//! in `/proc/meminfo`, what a mapping really got in `/proc/self/smaps`.

use std::fs;
use std::ops::Range;
use std::path::{Path, PathBuf};

use crate::sys::memory::base_page_bytes;

/// One size of hugetlb pages, `Documentation/admin-guide/mm/hugetlbpage.rst`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct HugePool {
    pub(crate) page_bytes: u64,
    /// Pages in the pool.
    pub(crate) total: u64,
    /// Pages that a new mapping can have: free, and not promised to another.
    pub(crate) available: u64,
    /// The size that `vm.nr_hugepages` speaks of.
    pub(crate) default: bool,
}

/// Where the facts come from; tests put files of their own there.
#[derive(Clone, Debug)]
pub(crate) struct Machine {
    mm: PathBuf,
    proc: PathBuf,
}

impl Machine {
    pub(crate) fn this() -> Self {
        Machine {
            mm: "/sys/kernel/mm".into(),
            proc: "/proc".into(),
        }
    }

    #[cfg(test)]
    pub(crate) fn at(root: &Path) -> Self {
        Machine {
            mm: root.join("mm"),
            proc: root.join("proc"),
        }
    }

    /// The sizes of hugetlb pages that this kernel and processor have, largest
    /// first. On x86-64 1 GiB and 2 MiB, on aarch64 up to four sizes that
    /// depend on the base page.
    pub(crate) fn huge_pools(&self) -> Vec<HugePool> {
        let Ok(entries) = fs::read_dir(self.mm.join("hugepages")) else {
            return Vec::new();
        };
        let default = self.meminfo_bytes("Hugepagesize");
        let mut pools: Vec<_> = entries
            .flatten()
            .filter_map(|entry| pool(&entry.path(), default))
            .collect();
        pools.sort_by_key(|pool| std::cmp::Reverse(pool.page_bytes));
        pools
    }

    /// Size of a transparent huge page; `None` where the kernel has none.
    pub(crate) fn transparent_bytes(&self) -> Option<u64> {
        read_number(&self.mm.join("transparent_hugepage/hpage_pmd_size"))
    }

    /// Set to `never`: `madvise(MADV_HUGEPAGE)` succeeds, and does nothing.
    pub(crate) fn transparent_is_off(&self) -> bool {
        fs::read_to_string(self.mm.join("transparent_hugepage/enabled"))
            .is_ok_and(|text| text.contains("[never]"))
    }

    /// Memory that can be used without swapping.
    pub(crate) fn available_bytes(&self) -> Option<u64> {
        self.meminfo_bytes("MemAvailable")
    }

    /// Bytes of huge pages, of either kind, in the mapping at `range`.
    pub(crate) fn huge_bytes_in(&self, range: Range<usize>) -> Option<u64> {
        let text = fs::read_to_string(self.proc.join("self/smaps")).ok()?;
        Some(huge_bytes(&text, range))
    }

    pub(crate) fn base_page_bytes(&self) -> u64 {
        base_page_bytes() as u64
    }

    fn meminfo_bytes(&self, name: &str) -> Option<u64> {
        let text = fs::read_to_string(self.proc.join("meminfo")).ok()?;
        text.lines().find_map(|line| field_bytes(line, name))
    }
}

fn pool(dir: &Path, default: Option<u64>) -> Option<HugePool> {
    let name = dir.file_name()?.to_str()?;
    let kib: u64 = name
        .strip_prefix("hugepages-")?
        .strip_suffix("kB")?
        .parse()
        .ok()?;
    let page_bytes = kib
        .checked_mul(1024)
        .filter(|bytes| bytes.is_power_of_two())?;
    let count = |file| read_number(&dir.join(file)).unwrap_or(0);
    Some(HugePool {
        page_bytes,
        total: count("nr_hugepages"),
        available: count("free_hugepages").saturating_sub(count("resv_hugepages")),
        default: default == Some(page_bytes),
    })
}

fn read_number(path: &Path) -> Option<u64> {
    fs::read_to_string(path).ok()?.trim().parse().ok()
}

/// The value of `name: 123 kB`, in bytes.
fn field_bytes(line: &str, name: &str) -> Option<u64> {
    let value = line.strip_prefix(name)?.strip_prefix(':')?;
    let kib: u64 = value.trim().strip_suffix("kB")?.trim().parse().ok()?;
    kib.checked_mul(1024)
}

fn huge_bytes(smaps: &str, range: Range<usize>) -> u64 {
    const FIELDS: [&str; 3] = ["AnonHugePages", "Private_Hugetlb", "Shared_Hugetlb"];
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

/// The addresses in a mapping's first line, `7f..-7f.. rw-p ...`.
fn mapping_range(line: &str) -> Option<Range<usize>> {
    let (start, end) = line.split_whitespace().next()?.split_once('-')?;
    let address = |text| usize::from_str_radix(text, 16).ok();
    Some(address(start)?..address(end)?)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn smaps_counts_only_the_mapping_asked_for() {
        let text = "\
7f0000000000-7f0000400000 rw-p 00000000 00:00 0 \n\
AnonHugePages:      2048 kB\n\
Private_Hugetlb:       0 kB\n\
7f0000401000-7f0000801000 rw-p 00000000 00:00 0 \n\
AnonHugePages:      4096 kB\n\
7f0000a00000-7f0000e00000 rw-p 00000000 00:10 77 /anon_hugepage (deleted)\n\
AnonHugePages:         0 kB\n\
Private_Hugetlb:    4096 kB\n";
        assert_eq!(huge_bytes(text, 0x7f0000000000..0x7f0000400000), 2 << 20);
        assert_eq!(huge_bytes(text, 0x7f0000401000..0x7f0000801000), 4 << 20);
        assert_eq!(huge_bytes(text, 0x7f0000a00000..0x7f0000e00000), 4 << 20);
        assert_eq!(huge_bytes(text, 0..0x1000), 0);
    }

    #[test]
    fn pools_come_largest_first_with_what_is_not_promised() {
        let root = tempfile::tempdir().unwrap();
        for (name, counts) in [
            ("hugepages-2048kB", ["10", "8", "3"]),
            ("hugepages-1048576kB", ["2", "2", "0"]),
            ("not-a-size", ["1", "1", "1"]),
        ] {
            let dir = root.path().join("mm/hugepages").join(name);
            fs::create_dir_all(&dir).unwrap();
            let files = ["nr_hugepages", "free_hugepages", "resv_hugepages"];
            for (file, count) in files.into_iter().zip(counts) {
                fs::write(dir.join(file), format!("{count}\n")).unwrap();
            }
        }
        fs::create_dir_all(root.path().join("proc")).unwrap();
        fs::write(
            root.path().join("proc/meminfo"),
            "Hugepagesize:    2048 kB\n",
        )
        .unwrap();
        let pools = Machine::at(root.path()).huge_pools();
        let pool = |page_bytes, total, available, default| HugePool {
            page_bytes,
            total,
            available,
            default,
        };
        assert_eq!(
            pools,
            [pool(1 << 30, 2, 2, false), pool(2 << 20, 10, 5, true)]
        );
    }

    #[test]
    fn this_machine_answers() {
        let machine = Machine::this();
        assert!(machine.available_bytes().unwrap() > 0);
        assert!(machine.base_page_bytes().is_power_of_two());
    }
}
