//! What the page tables of many processes cost that share one cache.

use serde::Serialize;

use super::facts::{SHMEM_ENABLED_PATH, page_table_bytes, shared_huge_bytes};
use super::measure::Context;
use super::reserve::ChoiceGuard;
use super::{HugepagesError, Pages, Skip};
use crate::sys::shared_cache::{Child, SharedCache, SharedPages};

/// The cache of the 2003 paper, section 3.3: 45 GB, shared by 100 processes.
const PAPER_CACHE_BYTES: u64 = 45 << 30;
const PAPER_PROCESSES: u64 = 100;

/// Page tables of processes that share the cache.
#[derive(Clone, Debug, PartialEq, Serialize)]
#[serde(tag = "outcome", rename_all = "snake_case")]
pub enum ProcessTables {
    /// Read from the `VmPTE` of real processes.
    Measured {
        /// Size of the shared cache in bytes.
        cache_bytes: u64,
        /// How much of it stood on huge pages.
        huge_bytes: u64,
        /// For each process, by how much its page tables grew, in bytes, when
        /// it touched the whole cache. The kernel can share the tables of
        /// hugetlb pages between processes, and still counts them for each.
        per_process_bytes: Vec<u64>,
        /// The mean in proportion for the 2003 paper's case, 45 GiB shared by
        /// 100 processes (paper: 2250 MB on 16 KB pages, 1.6 MB on 256 MB
        /// pages). Tables come in whole pages, so a small cache misleads: a
        /// table only begun counts as a full one, and entries that found room
        /// in a table already there count as nothing.
        paper_case_bytes: u64,
    },
    /// Not to be had.
    Skipped(Skip),
}

/// Forks the processes one by one, and measures each before and after it
/// touches the cache.
pub(super) fn measure(
    context: &Context<'_>,
    pages: Pages,
    cache_bytes: u64,
) -> Result<ProcessTables, HugepagesError> {
    let shared_pages = match pages {
        Pages::Plain => SharedPages::Plain,
        Pages::Transparent => SharedPages::Transparent,
        Pages::Huge2MiB | Pages::Huge1GiB => SharedPages::HugeTlb {
            page_bytes: pages.hugetlb_bytes().expect("a hugetlb kind"),
        },
    };
    let setting = (pages == Pages::Transparent && context.options.reserve)
        .then(|| ChoiceGuard::set(SHMEM_ENABLED_PATH.as_ref(), "advise"));
    if let Some(Err(error)) = setting {
        return Ok(skipped(
            format!("{SHMEM_ENABLED_PATH} cannot be changed: {error}"),
            "run as root",
        ));
    }
    let len = pages.round_up(cache_bytes);
    let cache = match SharedCache::map(len as usize, shared_pages) {
        Ok(cache) => cache,
        Err(error) => {
            return Ok(skipped(
                format!("mapping {len} shared bytes: {error}"),
                "use a smaller cache, or reserve more huge pages",
            ));
        }
    };
    let huge_bytes = shared_huge_bytes(cache.addresses())?;
    if pages == Pages::Transparent && huge_bytes == 0 {
        return Ok(skipped(
            "the kernel gives shared memory no transparent huge pages".into(),
            "echo advise > /sys/kernel/mm/transparent_hugepage/shmem_enabled, \
             or give --reserve",
        ));
    }
    // All of them stay until the end, as the processes of a database do.
    let mut children = Vec::new();
    let mut per_process_bytes = Vec::new();
    for _ in 0..context.options.processes {
        context.check()?;
        let mut child = Child::start(&cache).map_err(HugepagesError::Child)?;
        let process = child.pid().to_string();
        let before = page_table_bytes(&process)?;
        child.touch().map_err(HugepagesError::Child)?;
        per_process_bytes.push(page_table_bytes(&process)?.saturating_sub(before));
        children.push(child);
    }
    Ok(ProcessTables::Measured {
        cache_bytes: len,
        huge_bytes,
        paper_case_bytes: paper_case_bytes(&per_process_bytes, len),
        per_process_bytes,
    })
}

fn paper_case_bytes(per_process_bytes: &[u64], cache_bytes: u64) -> u64 {
    let sum: u128 = per_process_bytes.iter().copied().map(u128::from).sum();
    let scaled = sum * u128::from(PAPER_CACHE_BYTES) * u128::from(PAPER_PROCESSES);
    let count = per_process_bytes.len().max(1) as u128;
    (scaled / (count * u128::from(cache_bytes))) as u64
}

fn skipped(cause: String, remedy: &str) -> ProcessTables {
    ProcessTables::Skipped(Skip {
        cause,
        remedy: remedy.into(),
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_papers_own_numbers_come_out() {
        // 16 KB pages, 8 bytes an entry: 2250 MB.
        let tables = PAPER_CACHE_BYTES / (16 << 10) * 8;
        assert_eq!(paper_case_bytes(&[tables], PAPER_CACHE_BYTES), 2250 << 20);
        let half = paper_case_bytes(&[tables / 2, tables / 2], PAPER_CACHE_BYTES / 2);
        assert_eq!(half, 2250 << 20);
        assert_eq!(paper_case_bytes(&[], 1 << 30), 0);
    }
}
