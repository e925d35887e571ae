//! Whether other programs used the disk meanwhile: then the figures are theirs
//! too.
//!
//! The kernel counts the sectors that a disk moved; what exceeds the bytes of
//! the run is not the run's.

use std::fs;

use super::Stream;
use crate::bench::load::Load;
use crate::system::SystemPaths;

/// From this share of the disk's bytes on, the reader of the figures is told.
/// Below, it may be the file system's own or what lay across the edges of the
/// measured time.
const SHARE_TOLD: f64 = 0.05;

/// Unit of `/sys/block/*/stat`, whatever the disk's own sector is.
const SECTOR_BYTES: u64 = 512;

/// Bytes read from and written to a whole disk since the machine started.
pub fn moved_bytes(paths: &SystemPaths, disk: &str) -> Option<u64> {
    parse(&fs::read_to_string(paths.block(disk).join("stat")).ok()?)
}

/// Sectors read are the third number, sectors written the seventh
/// (`Documentation/block/stat.rst`).
fn parse(text: &str) -> Option<u64> {
    let numbers: Option<Vec<u64>> = text
        .split_whitespace()
        .map(|number| number.parse().ok())
        .collect();
    let numbers = numbers?;
    Some((numbers.get(2)? + numbers.get(6)?) * SECTOR_BYTES)
}

/// A sentence when others had a share. Says nothing of streams through the
/// page cache, whose bytes reach the disk when the kernel likes.
pub fn warning(
    name: &str,
    streams: &[Stream],
    loads: &[Load],
    moved_bytes: Option<u64>,
) -> Option<String> {
    let moved_bytes = moved_bytes.filter(|bytes| *bytes > 0)?;
    if !streams.iter().all(|stream| stream.file.is_direct()) {
        return None;
    }
    let own_bytes: u64 = loads.iter().map(|load| load.bytes).sum();
    let share = moved_bytes.saturating_sub(own_bytes) as f64 / moved_bytes as f64;
    (share >= SHARE_TOLD).then(|| {
        format!(
            "{name}: {:.0} % of what the disk moved was for other programs; its figures do not compare with those of other runs",
            share * 100.0
        )
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_kernels_line_is_parsed() {
        let line = "  100  1  2000  30  40  5  600  7  0  80  90  0 0 0 0 1 1\n";
        assert_eq!(parse(line), Some(2600 * 512));
        assert_eq!(parse("1 2 3"), None);
        assert_eq!(parse("nonsense"), None);
    }
}
