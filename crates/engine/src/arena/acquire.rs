//! The ladder from the best pages to plain ones: each rung is tried for real,
//! measured, and reported when it is refused.

use std::io;

use super::machine::{HugePool, Machine};
use super::pages::{PageChoice, PageKind, PagesReport, Refusal, Size};
use super::{ArenaError, granules::GRANULE_BYTES};
use crate::sys::memory::Mapping;

/// Alignment of arenas without hugetlb pages: what buffers can ask for.
const ALIGN_MIN_BYTES: u64 = 2 << 20;

const GIB: u64 = 1 << 30;
const MIB: u64 = 1 << 20;

/// How one rung ended when it did not hold.
enum Miss {
    /// Try the next one.
    Refused(Refusal),
    /// No other rung can help.
    Fatal(ArenaError),
}

/// Memory of at least `bytes`, populated, on the pages asked for.
pub(crate) fn acquire(
    machine: &Machine,
    bytes: u64,
    choice: PageChoice,
) -> Result<(Mapping, PagesReport), ArenaError> {
    if bytes == 0 {
        return Err(ArenaError::Empty);
    }
    let mut refused = Vec::new();
    for rung in rungs(machine, bytes, choice) {
        let got = match rung {
            PageKind::HugeTlb { page_bytes } => hugetlb(machine, bytes, page_bytes),
            PageKind::Transparent { page_bytes } => transparent(machine, bytes, page_bytes),
            PageKind::Plain { .. } => plain(machine, bytes, choice),
        };
        match got {
            Ok((mapping, kind, huge_bytes)) => {
                let report = PagesReport {
                    kind,
                    bytes: mapping.len() as u64,
                    huge_bytes,
                    refused,
                };
                return Ok((mapping, report));
            }
            Err(Miss::Refused(refusal)) => refused.push(refusal),
            Err(Miss::Fatal(error)) => return Err(error),
        }
    }
    // Only a choice of one kind has no plain rung, and it has one rung.
    Err(ArenaError::Refused(refused.remove(0)))
}

fn rungs(machine: &Machine, bytes: u64, choice: PageChoice) -> Vec<PageKind> {
    let transparent = PageKind::Transparent {
        page_bytes: machine.transparent_bytes().unwrap_or(2 * MIB),
    };
    let plain = PageKind::Plain {
        page_bytes: machine.base_page_bytes(),
    };
    match choice {
        PageChoice::Huge1GiB => vec![PageKind::HugeTlb { page_bytes: GIB }],
        PageChoice::Huge2MiB => vec![PageKind::HugeTlb {
            page_bytes: 2 * MIB,
        }],
        PageChoice::Transparent => vec![transparent],
        PageChoice::Plain => vec![plain],
        PageChoice::Auto => machine
            .huge_pools()
            .into_iter()
            .map(|pool| pool.page_bytes)
            .filter(|page_bytes| *page_bytes <= bytes)
            .map(|page_bytes| PageKind::HugeTlb { page_bytes })
            .chain([transparent, plain])
            .collect(),
    }
}

type Rung = Result<(Mapping, PageKind, Option<u64>), Miss>;

fn hugetlb(machine: &Machine, bytes: u64, page_bytes: u64) -> Rung {
    let kind = PageKind::HugeTlb { page_bytes };
    let pool = machine
        .huge_pools()
        .into_iter()
        .find(|pool| pool.page_bytes == page_bytes);
    let refuse = |error: io::Error| Miss::Refused(refuse_hugetlb(kind, bytes, pool, &error));
    if pool.is_none() {
        return Err(refuse(io::Error::from_raw_os_error(libc::EINVAL)));
    }
    let len = round_up(bytes, page_bytes)?;
    let mapping = Mapping::hugetlb(len, page_bytes as usize).map_err(refuse)?;
    mapping.populate().map_err(refuse)?;
    let huge = measure(machine, &mapping);
    Ok((mapping, kind, huge))
}

fn refuse_hugetlb(
    kind: PageKind,
    bytes: u64,
    pool: Option<HugePool>,
    error: &io::Error,
) -> Refusal {
    let size = Size(kind.page_bytes());
    let Some(pool) = pool else {
        return Refusal {
            kind,
            cause: format!("this kernel or processor has no {size} pages"),
            remedy: "use another page size (see /sys/kernel/mm/hugepages)".into(),
        };
    };
    let needed = bytes.div_ceil(pool.page_bytes);
    if pool.available >= needed {
        return Refusal {
            kind,
            cause: format!("{needed} are free, but the kernel answers: {error}"),
            remedy: "check this process's hugetlb cgroup limit and memory policy".into(),
        };
    }
    let cause = format!(
        "{needed} are needed, {} of {} are free",
        pool.available, pool.total
    );
    let total = pool.total + needed - pool.available;
    let kib = pool.page_bytes / 1024;
    let remedy = if pool.default {
        format!("set vm.nr_hugepages to {total} (sysctl vm.nr_hugepages={total})")
    } else {
        format!(
            "write {total} to /sys/kernel/mm/hugepages/hugepages-{kib}kB/nr_hugepages, \
             or boot with hugepagesz={kib}K hugepages={total}"
        )
    };
    Refusal {
        kind,
        cause,
        remedy,
    }
}

fn transparent(machine: &Machine, bytes: u64, page_bytes: u64) -> Rung {
    let kind = PageKind::Transparent { page_bytes };
    let refuse = |cause: String, remedy: &str| {
        Miss::Refused(Refusal {
            kind,
            cause,
            remedy: remedy.into(),
        })
    };
    if machine.transparent_bytes().is_none() {
        return Err(refuse(
            "this kernel has no transparent huge pages".into(),
            "reserve hugetlb pages instead (vm.nr_hugepages)",
        ));
    }
    if machine.transparent_is_off() {
        return Err(refuse(
            "they are switched off on this machine".into(),
            "echo madvise > /sys/kernel/mm/transparent_hugepage/enabled",
        ));
    }
    if bytes < page_bytes {
        return Err(refuse(
            format!("{} are less than one of them", Size(bytes)),
            "ask for a larger arena",
        ));
    }
    let align = page_bytes.max(ALIGN_MIN_BYTES) as usize;
    let mapping = reserve(machine, round_up(bytes, page_bytes)?, align)?;
    if let Err(error) = mapping.advise_huge() {
        return Err(refuse(
            format!("the kernel refuses the advice: {error}"),
            "allow it for this process (prctl PR_SET_THP_DISABLE)",
        ));
    }
    populate(&mapping)?;
    match measure(machine, &mapping) {
        Some(0) => Err(refuse(
            "the kernel gave none: free memory is too fragmented, or this process may not have them".into(),
            "echo 1 > /proc/sys/vm/compact_memory and start again, or reserve hugetlb pages",
        )),
        huge => Ok((mapping, kind, huge)),
    }
}

fn plain(machine: &Machine, bytes: u64, choice: PageChoice) -> Rung {
    let page_bytes = machine.base_page_bytes();
    let len = round_up(bytes, page_bytes.max(GRANULE_BYTES as u64))?;
    let mapping = reserve(machine, len, ALIGN_MIN_BYTES.max(page_bytes) as usize)?;
    if choice == PageChoice::Plain {
        mapping.advise_small();
    }
    populate(&mapping)?;
    let huge = measure(machine, &mapping);
    Ok((mapping, PageKind::Plain { page_bytes }, huge))
}

/// Populating more than there is does not fail, it calls the out-of-memory
/// killer; hence the look at free memory before.
fn reserve(machine: &Machine, len: usize, align: usize) -> Result<Mapping, Miss> {
    let bytes = len as u64;
    if let Some(available) = machine.available_bytes()
        && bytes > available
    {
        return Err(Miss::Fatal(ArenaError::OutOfMemory { bytes, available }));
    }
    Mapping::anonymous(len, align).map_err(|cause| fatal(bytes, cause))
}

fn populate(mapping: &Mapping) -> Result<(), Miss> {
    let bytes = mapping.len() as u64;
    mapping.populate().map_err(|cause| fatal(bytes, cause))
}

fn fatal(bytes: u64, cause: io::Error) -> Miss {
    Miss::Fatal(ArenaError::Map { bytes, cause })
}

fn measure(machine: &Machine, mapping: &Mapping) -> Option<u64> {
    let start = mapping.start().as_ptr() as usize;
    machine.huge_bytes_in(start..start + mapping.len())
}

/// `bytes` up to a multiple of `unit`, within an address space and the limit
/// of the bookkeeping.
fn round_up(bytes: u64, unit: u64) -> Result<usize, Miss> {
    bytes
        .checked_next_multiple_of(unit)
        .filter(|len| *len <= super::BYTES_MAX)
        .and_then(|len| usize::try_from(len).ok())
        .ok_or(Miss::Fatal(ArenaError::TooLarge { bytes }))
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::fs;
    use std::path::Path;

    /// A machine that claims hugetlb pages of `kib`, all free.
    fn machine_with_pool(root: &Path, kib: u64, free: u64) -> Machine {
        let pool = root.join(format!("mm/hugepages/hugepages-{kib}kB"));
        fs::create_dir_all(&pool).unwrap();
        fs::write(pool.join("nr_hugepages"), free.to_string()).unwrap();
        fs::write(pool.join("free_hugepages"), free.to_string()).unwrap();
        fs::create_dir_all(root.join("proc")).unwrap();
        let meminfo = format!("MemAvailable: 1048576 kB\nHugepagesize: {kib} kB\n");
        fs::write(root.join("proc/meminfo"), meminfo).unwrap();
        Machine::at(root)
    }

    #[test]
    fn a_failing_hugetlb_mapping_falls_through_to_plain_pages() {
        let root = tempfile::tempdir().unwrap();
        // Claimed here, unknown to every processor: mmap(2) itself refuses.
        let machine = machine_with_pool(root.path(), 8, 1 << 20);
        let (mapping, report) = acquire(&machine, 1 << 20, PageChoice::Auto).unwrap();
        assert_eq!(mapping.len(), 1 << 20);
        assert!(matches!(report.kind, PageKind::Plain { .. }));
        assert_eq!(report.huge_bytes, None);
        assert_eq!(report.refused.len(), 2, "{report}");
        assert!(
            report.refused[0].cause.contains("kernel answers"),
            "{report}"
        );
        assert!(
            report.refused[1].cause.contains("no transparent"),
            "{report}"
        );
    }

    #[test]
    fn a_short_pool_is_refused_with_the_number_to_set() {
        let root = tempfile::tempdir().unwrap();
        let machine = machine_with_pool(root.path(), 2048, 3);
        // 8 TiB: no machine has that many huge pages.
        let error = acquire(&machine, 1 << 43, PageChoice::Huge2MiB).unwrap_err();
        let ArenaError::Refused(refusal) = error else {
            panic!("{error}");
        };
        assert_eq!(refusal.cause, "4194304 are needed, 3 of 3 are free");
        assert!(refusal.remedy.contains("vm.nr_hugepages=4194304"));
    }

    #[test]
    fn more_than_free_memory_is_refused_before_it_is_touched() {
        let root = tempfile::tempdir().unwrap();
        let machine = machine_with_pool(root.path(), 2048, 0);
        let error = acquire(&machine, 2 << 30, PageChoice::Plain).unwrap_err();
        let ArenaError::OutOfMemory { bytes, available } = error else {
            panic!("{error}");
        };
        assert_eq!((bytes, available), (2 << 30, 1 << 30));
    }

    #[test]
    fn auto_leaves_out_pages_larger_than_the_arena() {
        let root = tempfile::tempdir().unwrap();
        machine_with_pool(root.path(), 2048, 0);
        let machine = machine_with_pool(root.path(), 1 << 20, 0);
        let sizes = |bytes| {
            rungs(&machine, bytes, PageChoice::Auto)
                .into_iter()
                .filter_map(|rung| match rung {
                    PageKind::HugeTlb { page_bytes } => Some(page_bytes),
                    _ => None,
                })
                .collect::<Vec<_>>()
        };
        assert_eq!(sizes(GIB), [GIB, 2 * MIB]);
        assert_eq!(sizes(GIB - 1), [2 * MIB]);
        assert_eq!(sizes(MIB), [0; 0]);
    }

    #[test]
    fn nothing_and_too_much_are_refused() {
        let machine = Machine::this();
        let asked = |bytes| acquire(&machine, bytes, PageChoice::Plain).unwrap_err();
        assert!(matches!(asked(0), ArenaError::Empty));
        assert!(matches!(asked(u64::MAX), ArenaError::TooLarge { .. }));
    }
}
