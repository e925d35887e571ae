//! The pages side by side, as a table and as bars.

use super::{Dtlb, HugepagesResult, Measured, Outcome, Pages, ProcessTables, ReadCost, Spread};
use crate::output::chart::{Axis, BarChart};
use crate::output::html::Section;
use crate::output::text::{Style, Table};
use crate::output::units;

pub fn text(result: &HugepagesResult, style: Style) -> String {
    let mut text = table(result).render(style);
    for sentence in sentences(result) {
        text.push_str(&format!("\n{sentence}"));
    }
    text.push('\n');
    text
}

pub fn html(result: &HugepagesResult) -> Vec<Section> {
    let mut sections = vec![
        Section::new("Result")
            .text(sentences(result))
            .table(table(result)),
    ];
    let charts: [(&str, Axis<'_>, Value); 4] = [
        (
            "CPU time per row look-up",
            Axis::linear("median CPU time per look-up", units::time),
            |one| Some(one.lookup_ns.median),
        ),
        (
            "CPU time per page read from the page cache",
            Axis::linear("median CPU time per read of 16 KiB", units::time),
            |one| Some(one.buffered_read.cpu_ns.median),
        ),
        (
            "CPU time per page read past the page cache",
            Axis::linear("median CPU time per read of 16 KiB", units::time),
            |one| Some(one.direct_read.as_ref()?.cpu_ns.median),
        ),
        (
            "Page tables of one process that shares the cache",
            // Counted in KiB, so that ticks are round in the units shown.
            Axis::linear("page tables", |kib| size(kib * 1024.0)),
            |one| Some(per_process_bytes(one)? / 1024.0),
        ),
    ];
    for (title, value, of) in charts {
        let bars: Vec<(String, f64)> = measured(result)
            .filter_map(|(pages, one)| Some((name(pages).to_owned(), of(one)?)))
            .collect();
        if !bars.is_empty() {
            sections.push(Section::new(title).chart(BarChart { value, bars }.svg()));
        }
    }
    sections
}

type Value = fn(&Measured) -> Option<f64>;

pub fn name(pages: Pages) -> &'static str {
    match pages {
        Pages::Plain => "plain",
        Pages::Transparent => "transparent",
        Pages::Huge2MiB => "2 MiB",
        Pages::Huge1GiB => "1 GiB",
    }
}

fn size(bytes: f64) -> String {
    units::binary_size(bytes.round() as u64)
}

/// The kinds of pages that the machine gave.
pub fn measured(result: &HugepagesResult) -> impl Iterator<Item = (Pages, &Measured)> {
    result.kinds.iter().filter_map(|kind| match &kind.outcome {
        Outcome::Measured(measured) => Some((kind.pages, &**measured)),
        Outcome::Skipped(_) => None,
    })
}

/// Page tables of a process that shares the cache, in the mean.
pub fn per_process_bytes(one: &Measured) -> Option<f64> {
    match &one.process_tables {
        ProcessTables::Measured {
            per_process_bytes, ..
        } => {
            let sum: u64 = per_process_bytes.iter().sum();
            Some(sum as f64 / per_process_bytes.len().max(1) as f64)
        }
        ProcessTables::Skipped(_) => None,
    }
}

fn table(result: &HugepagesResult) -> Table {
    let mut table = Table::new(
        1,
        [
            "pages",
            "huge",
            "look-up",
            "±%",
            "DTLB misses",
            "buffered read CPU",
            "±%",
            "direct read CPU",
            "±%",
            "direct reads/s",
            "page table",
            "per process",
            "paper's case",
        ],
    );
    for (pages, one) in measured(result) {
        let direct =
            |cell: fn(&ReadCost) -> String| one.direct_read.as_ref().map_or_else(String::new, cell);
        let paper_case = match &one.process_tables {
            ProcessTables::Measured {
                paper_case_bytes, ..
            } => units::binary_size(*paper_case_bytes),
            ProcessTables::Skipped(_) => String::new(),
        };
        table.row([
            name(pages).to_owned(),
            one.huge_bytes.map_or_else(String::new, units::binary_size),
            units::time(one.lookup_ns.median),
            half_width_percent(&one.lookup_ns),
            match one.dtlb {
                Dtlb::Measured { misses_per_lookup } => units::figure(misses_per_lookup),
                Dtlb::Skipped(_) => String::new(),
            },
            units::time(one.buffered_read.cpu_ns.median),
            half_width_percent(&one.buffered_read.cpu_ns),
            direct(|read| units::time(read.cpu_ns.median)),
            direct(|read| half_width_percent(&read.cpu_ns)),
            direct(|read| units::count(read.reads_per_s.median)),
            units::binary_size(one.page_table_bytes),
            per_process_bytes(one).map_or_else(String::new, size),
            paper_case,
        ]);
    }
    table.without_empty_columns()
}

/// Half the range in percent of the median; nothing for a single sample.
fn half_width_percent(spread: &Spread) -> String {
    if spread.samples.len() < 2 || spread.median == 0.0 {
        return String::new();
    }
    let half = (spread.max - spread.min) / 2.0;
    format!("{:.1}", half / spread.median * 100.0)
}

fn sentences(result: &HugepagesResult) -> Vec<String> {
    let mut sentences = vec![format!(
        "A cache of {} with database pages of {}; medians of {} samples of {} look-ups each.",
        units::binary_size(result.cache_bytes),
        units::binary_size(result.db_page_bytes),
        result.repeats,
        units::count(result.lookups as f64)
    )];
    sentences.extend(comparison(result));
    sentences.push(
        "\"paper's case\": page tables of 100 processes that share 45 GiB, in proportion."
            .to_owned(),
    );
    sentences.extend(skips(result));
    sentences
}

/// The best huge pages against plain ones.
fn comparison(result: &HugepagesResult) -> Option<String> {
    let (_, plain) = measured(result).find(|(pages, _)| *pages == Pages::Plain)?;
    let (pages, best) = measured(result)
        .filter(|(pages, _)| *pages != Pages::Plain)
        .min_by(|a, b| a.1.lookup_ns.median.total_cmp(&b.1.lookup_ns.median))?;
    let [plain_ns, best_ns] = [plain, best].map(|one| one.lookup_ns.median);
    if best_ns <= 0.0 || plain_ns <= 0.0 {
        return None;
    }
    let change = (best_ns / plain_ns - 1.0) * 100.0;
    let direction = if change <= 0.0 { "less" } else { "more" };
    Some(format!(
        "A row look-up takes {:.0} % {direction} CPU time on {} pages than on plain ones ({} against {}).",
        change.abs(),
        name(pages),
        units::time(best_ns),
        units::time(plain_ns)
    ))
}

/// What is not in the table and why, each reason once.
pub fn skips(result: &HugepagesResult) -> Vec<String> {
    let mut sentences: Vec<String> = Vec::new();
    let mut add = |what: String, skip: &super::Skip| {
        let sentence = format!("{what}: {}; {}.", skip.cause, skip.remedy);
        if !sentences.contains(&sentence) {
            sentences.push(sentence);
        }
    };
    for kind in &result.kinds {
        let pages = name(kind.pages);
        match &kind.outcome {
            Outcome::Skipped(skip) => add(format!("No {pages} pages"), skip),
            Outcome::Measured(one) => {
                if let Dtlb::Skipped(skip) = &one.dtlb {
                    add("No DTLB misses".to_owned(), skip);
                }
                if let ProcessTables::Skipped(skip) = &one.process_tables {
                    add(format!("No processes on {pages} pages"), skip);
                }
            }
        }
    }
    sentences
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::bench::{Outcome as _, samples};

    #[test]
    fn what_is_missing_is_explained_once() {
        let text = text(&samples::hugepages(), Style::PLAIN);
        assert_eq!(text.matches("No DTLB misses:").count(), 1, "{text}");
        assert!(text.contains("No 1 GiB pages: "), "{text}");
        assert!(
            text.contains("takes 40 % less CPU time on 2 MiB pages"),
            "{text}"
        );
    }

    #[test]
    fn repetitions_add_their_samples() {
        let mut result = samples::hugepages();
        result.merge(samples::hugepages());
        assert_eq!(result.repeats, 6);
        let (_, plain) = measured(&result).next().unwrap();
        assert_eq!(plain.lookup_ns.samples.len(), 6);
        assert_eq!(plain.lookup_ns.median, 100.0);
        assert_eq!(plain.buffered_read.cpu_ns.samples.len(), 6);
        assert_eq!(result.kinds.len(), 4);
    }

    #[test]
    fn the_range_is_shown_as_half_its_width() {
        let spread = Spread::of(vec![90.0, 100.0, 110.0]).unwrap();
        assert_eq!(half_width_percent(&spread), "10.0");
        assert_eq!(half_width_percent(&Spread::of(vec![90.0]).unwrap()), "");
    }
}
