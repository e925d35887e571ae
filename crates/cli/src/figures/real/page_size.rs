//! The Linux Symposium's paper of 2003 on databases, section 3: a buffer cache
//! on large pages.

use super::RealRig;
use crate::bench::hugepages::{
    Dtlb, HugepagesResult, Measured, Pages, ProcessTables, measured, name, per_process_bytes, skips,
};
use crate::error::Failure;
use crate::figures::report::{Cell, Comparison, Data, Figure, Stated};
use crate::output::chart::{Axis, BarChart};
use crate::output::units;

/// Quick, and enough samples for a median.
const WORDS: &str = "--reserve --lookups 500000 --reads 5000 --samples 5";
const ONLY_THE_CACHE: &str = "a look-up is nothing but accesses to the cache, which are a part of the document's transactions";
/// Of 45 GB on pages of 16 KB, and on pages of 256 MB with a page for each
/// process: 100 of them.
const PAPER_CASE: &str = "100 processes that share 45 GB";
const TABLES_SMALL_MIB: f64 = 2250.0;
const TABLES_LARGE_MIB: f64 = 1.6;
/// 1440 bytes for 180 pages.
const ENTRY_BYTES: f64 = 8.0;

/// Figures 3.1 and 3.2, and the page tables of section 3.3's end.
pub fn by_page_size(rig: &RealRig<'_>) -> Result<Figure, Failure> {
    let (line, result) = rig.hugepages(&words(rig.cache_bytes))?;
    Ok(page_size_figure(line, &result))
}

/// Figure 3.3: whether the size of the cache matters.
pub fn by_cache_size(rig: &RealRig<'_>) -> Result<Figure, Failure> {
    let (first, whole) = rig.hugepages(&words(rig.cache_bytes))?;
    let (second, half) = rig.hugepages(&words(rig.cache_bytes / 2))?;
    Ok(cache_size_figure([first, second], [&whole, &half]))
}

fn words(cache_bytes: u64) -> String {
    format!("{WORDS} --cache-size {cache_bytes}")
}

fn page_size_figure(line: String, result: &HugepagesResult) -> Figure {
    let mut figure = Figure {
        source: "Section 3.3, figures 3.1 and 3.2 and the text behind figure 3.3.",
        method: method([line]),
        tables: vec![table("Row look-ups and page tables by page size", &[result])],
        notes: vec![
            "The document compares transactions a second on an Itanium 2, whose base page is 16 KB, with pages of 256 MB. \
             Ours are random row look-ups in a cache: hash table, page header, directory, row."
                .to_owned(),
        ],
        ..Figure::default()
    };
    for (pages, one) in large(result) {
        let on = format!("{} pages against {}", name(pages), base(result));
        if let Some(percent) = gain_percent(result, one) {
            let what = format!("row look-ups, {on}");
            let compared = Comparison::new(what, "% more", Stated::about(11.0), percent);
            figure.comparisons.push(compared.because(ONLY_THE_CACHE));
        }
        if let Some(percent) = fewer_misses_percent(result, one) {
            let what = format!("data TLB misses, {on}");
            let compared = Comparison::new(what, "% more", Stated::about(-65.0), percent);
            figure.comparisons.push(compared.because(
                "the document's misses of its processes' own data stay; a look-up has none but the cache's",
            ));
        }
    }
    figure.comparisons.extend(page_tables(result));
    figure.plots = plots(result);
    figure.notes.extend(skips(result));
    figure
}

fn cache_size_figure(lines: [String; 2], results: [&HugepagesResult; 2]) -> Figure {
    let [whole, half] = results;
    let sizes = results.map(|result| units::binary_size(result.cache_bytes));
    let mut figure = Figure {
        source: "Section 3.3, figure 3.3: miss rates of 16 and 32 GB \"well within a couple of percentage points\".",
        method: method(lines),
        tables: vec![table("Row look-ups by size of the cache", &results)],
        notes: vec![
            "The document's: what large pages gain depends on what is done with the cache, not on how large it is."
                .to_owned(),
        ],
        plots: vec![("CPU time per row look-up".to_owned(), look_up_bars(&results))],
        ..Figure::default()
    };
    for (pages, one) in large(whole) {
        let Some((_, other)) = large(half).find(|(kind, _)| *kind == pages) else {
            continue;
        };
        let mut compare = |value: &str, both: [Option<f64>; 2], why: &str| {
            if let [Some(at_whole), Some(at_half)] = both {
                let what = format!(
                    "{value} on {} pages against {}: {} less {}",
                    name(pages),
                    base(whole),
                    sizes[0],
                    sizes[1]
                );
                let points = Comparison::new(
                    what,
                    "% points",
                    Stated::between(-2.0, 2.0),
                    at_whole - at_half,
                );
                figure.comparisons.push(points.because(why));
            }
        };
        let gains = [gain_percent(whole, one), gain_percent(half, other)];
        compare(
            "more look-ups",
            gains,
            "not misses but the time they take is compared: of a smaller cache more lies in the processor's caches, \
             the entries of its page tables too",
        );
        let misses = [
            fewer_misses_percent(whole, one),
            fewer_misses_percent(half, other),
        ];
        compare(
            "more TLB misses",
            misses,
            "these caches are small: a larger part of them is within the reach of the TLB",
        );
    }
    for sentence in skips(whole).into_iter().chain(skips(half)) {
        if !figure.notes.contains(&sentence) {
            figure.notes.push(sentence);
        }
    }
    figure
}

fn method(lines: impl IntoIterator<Item = String>) -> Vec<String> {
    let first =
        "Measured in the memory of this machine, in CPU time; the environment says which machine.";
    std::iter::once(first.to_owned()).chain(lines).collect()
}

/// The size of plain pages.
fn base(result: &HugepagesResult) -> String {
    units::binary_size(result.base_page_bytes)
}

fn plain(result: &HugepagesResult) -> Option<&Measured> {
    let mut all = measured(result);
    all.find(|(pages, _)| *pages == Pages::Plain)
        .map(|(_, one)| one)
}

fn large(result: &HugepagesResult) -> impl Iterator<Item = (Pages, &Measured)> {
    measured(result).filter(|(pages, _)| *pages != Pages::Plain)
}

/// Look-ups in the same CPU time.
fn gain_percent(result: &HugepagesResult, one: &Measured) -> Option<f64> {
    more_percent(plain(result)?.lookup_ns.median, one.lookup_ns.median)
}

fn fewer_misses_percent(result: &HugepagesResult, one: &Measured) -> Option<f64> {
    more_percent(misses(one)?, misses(plain(result)?)?)
}

fn more_percent(value: f64, than: f64) -> Option<f64> {
    (than > 0.0).then(|| (value / than - 1.0) * 100.0)
}

fn misses(one: &Measured) -> Option<f64> {
    match one.dtlb {
        Dtlb::Measured { misses_per_lookup } => Some(misses_per_lookup),
        Dtlb::Skipped(_) => None,
    }
}

/// Of 100 processes that share 45 GiB.
fn paper_case_mib(one: &Measured) -> Option<f64> {
    match one.process_tables {
        ProcessTables::Measured {
            paper_case_bytes, ..
        } => Some(paper_case_bytes as f64 / f64::from(1 << 20)),
        ProcessTables::Skipped(_) => None,
    }
}

fn page_tables(result: &HugepagesResult) -> Vec<Comparison> {
    let mut all = Vec::new();
    if let Some(plain) = plain(result) {
        let pages = result.cache_bytes as f64 / result.base_page_bytes as f64;
        all.extend(per_process_bytes(plain).map(|bytes| {
            let what = format!("page table for a page of {}", base(result));
            Comparison::new(what, "bytes", Stated::about(ENTRY_BYTES), bytes / pages)
                .because("a small cache does not fill its last table")
        }));
    }
    for (pages, one) in measured(result) {
        let (size, document_mib) = match pages {
            Pages::Plain => (base(result), TABLES_SMALL_MIB),
            Pages::Transparent => continue,
            Pages::Huge2MiB | Pages::Huge1GiB => (name(pages).to_owned(), TABLES_LARGE_MIB),
        };
        let why = match pages {
            Pages::Plain => format!("pages of {size} here, of 16 KB there, and an entry for each"),
            _ => format!(
                "pages of {size} here, of 256 MB there; and tables are whole pages, so that 45 GB have less than a \
                 cache of {} in proportion",
                units::binary_size(result.cache_bytes)
            ),
        };
        all.extend(paper_case_mib(one).map(|mib| {
            let what = format!("page tables of {PAPER_CASE}, {size} pages");
            Comparison::new(what, "MiB", Stated::about(document_mib), mib).because(&why)
        }));
    }
    all
}

fn table(title: &str, results: &[&HugepagesResult]) -> Data {
    let columns = [
        ("pages", ""),
        ("cache", "MiB"),
        ("row look-up", "ns"),
        ("more look-ups", "%"),
        ("TLB misses", "per look-up"),
        ("tables of a process", "KiB"),
        ("of 100 with 45 GB", "MiB"),
    ];
    let mut data = Data::new(title, &columns);
    let scaled = |bytes: f64, shift: u32| bytes / f64::from(1u32 << shift);
    for result in results {
        for (pages, one) in measured(result) {
            data.row([
                label(result, pages).into(),
                scaled(result.cache_bytes as f64, 20).into(),
                one.lookup_ns.median.into(),
                gain_percent(result, one).into(),
                misses(one).into(),
                per_process_bytes(one).map(|bytes| scaled(bytes, 10)).into(),
                paper_case_mib(one).into(),
            ]);
        }
    }
    without_empty_columns(data)
}

/// What this machine does not show.
fn without_empty_columns(mut data: Data) -> Data {
    let shown: Vec<bool> = (0..data.columns.len())
        .map(|at| data.rows.iter().any(|row| row[at] != Cell::Nothing))
        .collect();
    let mut shown_column = shown.iter();
    data.columns.retain(|_| shown_column.next() == Some(&true));
    for row in &mut data.rows {
        let mut shown_cell = shown.iter();
        row.retain(|_| shown_cell.next() == Some(&true));
    }
    data
}

fn label(result: &HugepagesResult, pages: Pages) -> String {
    match pages {
        Pages::Plain => base(result),
        _ => name(pages).to_owned(),
    }
}

type Value = fn(&HugepagesResult, &Measured) -> Option<f64>;

fn plots(result: &HugepagesResult) -> Vec<(String, maud::Markup)> {
    let number = units::figure as fn(f64) -> String;
    let charts: [(&str, Axis<'_>, Value); 3] = [
        (
            "Row look-ups by page size",
            Axis::linear(
                "look-ups in the same CPU time, % of those on plain pages",
                |percent| format!("{percent:.0}"),
            ),
            |result, one| Some(gain_percent(result, one)? + 100.0),
        ),
        (
            "Data TLB misses by page size",
            Axis::linear("misses per look-up", number),
            |_, one| misses(one),
        ),
        (
            "Page tables of 100 processes that share 45 GB, from those of a process with this cache",
            Axis::linear("MiB", number),
            |_, one| paper_case_mib(one),
        ),
    ];
    let mut plots = Vec::new();
    for (title, value, of) in charts {
        let bars: Vec<(String, f64)> = measured(result)
            .filter_map(|(pages, one)| Some((label(result, pages), of(result, one)?)))
            .collect();
        if !bars.is_empty() {
            plots.push((title.to_owned(), BarChart { value, bars }.svg()));
        }
    }
    plots
}

fn look_up_bars(results: &[&HugepagesResult]) -> maud::Markup {
    let of = |result: &&HugepagesResult| -> Vec<(String, f64)> {
        let cache = units::binary_size(result.cache_bytes);
        measured(result)
            .map(|(pages, one)| {
                let name = format!("cache of {cache}, {} pages", label(result, pages));
                (name, one.lookup_ns.median)
            })
            .collect()
    };
    BarChart {
        value: Axis::linear("median CPU time per look-up", units::time),
        bars: results.iter().flat_map(of).collect(),
    }
    .svg()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::bench::hugepages::Hugepages;
    use crate::bench::{Bench, defaults, samples};
    use crate::figures::report::Verdict;

    fn figure() -> Figure {
        page_size_figure("the command".to_owned(), &samples::hugepages())
    }

    #[test]
    fn the_sub_command_takes_the_words() {
        let request = Hugepages::options(defaults(&words(8 << 20)).unwrap()).unwrap();
        assert!(request.options.reserve);
        assert_eq!(request.options.cache_bytes, 8 << 20);
    }

    #[test]
    fn look_ups_and_page_tables_stand_beside_the_documents() {
        let figure = figure();
        let ours = |what: &str| figure.comparison(what).unwrap().ours;
        // 100 ns against 60.
        let gain = ours("row look-ups, 2 MiB pages against 4 KiB");
        assert!((gain - 66.7).abs() < 0.1, "{gain}");
        let entry = figure.comparison("page table for a page of 4 KiB").unwrap();
        assert_eq!((entry.ours, entry.verdict), (8.0, Verdict::Fits));
        assert_eq!(
            ours("page tables of 100 processes that share 45 GB, 4 KiB pages"),
            9000.0
        );
        assert_eq!(figure.method[1], "the command");
    }

    #[test]
    fn what_the_machine_does_not_show_is_said_and_no_column() {
        let figure = figure();
        assert!(
            figure
                .comparisons
                .iter()
                .all(|one| !one.what.contains("TLB"))
        );
        let has = |what: &str| figure.notes.iter().any(|note| note.contains(what));
        assert!(
            has("No DTLB misses: ") && has("No 1 GiB pages: "),
            "{:?}",
            figure.notes
        );
        let table = &figure.tables[0];
        assert!(
            table
                .columns
                .iter()
                .all(|column| column.name != "TLB misses")
        );
        assert!(
            table
                .rows
                .iter()
                .all(|row| row.len() == table.columns.len())
        );
        assert_eq!(figure.plots.len(), 2);
    }

    #[test]
    fn counted_misses_are_compared() {
        let mut result = samples::hugepages();
        for kind in &mut result.kinds {
            if let crate::bench::hugepages::Outcome::Measured(one) = &mut kind.outcome {
                let misses_per_lookup = if kind.pages == Pages::Plain { 4.0 } else { 1.2 };
                one.dtlb = Dtlb::Measured { misses_per_lookup };
            }
        }
        let figure = page_size_figure(String::new(), &result);
        let fewer = figure.comparison("data TLB misses, 2 MiB pages against 4 KiB");
        let fewer = fewer.unwrap();
        assert_eq!((fewer.ours.round(), fewer.verdict), (-70.0, Verdict::Fits));
        assert_eq!(figure.plots.len(), 3);
        assert_eq!(figure.tables[0].columns[4].name, "TLB misses");
    }

    #[test]
    fn caches_of_two_sizes_are_compared_by_what_large_pages_gain() {
        let (whole, mut half) = (samples::hugepages(), samples::hugepages());
        half.cache_bytes /= 2;
        let figure = cache_size_figure([String::new(), String::new()], [&whole, &half]);
        let what = "more look-ups on 2 MiB pages against 4 KiB: 1 GiB less 512 MiB";
        let one = figure.comparison(what).unwrap();
        assert_eq!((one.ours, one.verdict), (0.0, Verdict::Fits));
        assert_eq!(figure.tables[0].rows.len(), 6);
        let reasons = figure
            .notes
            .iter()
            .filter(|note| note.contains("1 GiB pages"));
        assert_eq!(reasons.count(), 1, "once: {:?}", figure.notes);
    }
}
