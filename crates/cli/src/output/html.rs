//! The report: one file that needs nothing else, on white and on dark.

use maud::{DOCTYPE, Markup, PreEscaped, html};

use super::text::Table;
use super::units;
use crate::environment::Environment;

/// A heading with what stands below it.
pub struct Section {
    title: String,
    body: Vec<Markup>,
}

impl Section {
    pub fn new(title: impl Into<String>) -> Self {
        Self {
            title: title.into(),
            body: Vec::new(),
        }
    }

    /// Under another heading.
    #[must_use]
    pub fn titled(mut self, title: impl Into<String>) -> Self {
        self.title = title.into();
        self
    }

    #[must_use]
    pub fn text<T: Into<String>>(mut self, sentences: impl IntoIterator<Item = T>) -> Self {
        for sentence in sentences {
            let sentence: String = sentence.into();
            self.body.push(html! { p { (sentence) } });
        }
        self
    }

    /// A title for what follows, below the section's own.
    #[must_use]
    pub fn heading(mut self, title: &str) -> Self {
        self.body.push(html! { h3 { (title) } });
        self
    }

    #[must_use]
    pub fn table(mut self, table: Table) -> Self {
        self.body.push(table_markup(&table));
        self
    }

    #[must_use]
    pub fn chart(mut self, svg: Markup) -> Self {
        self.body.push(html! { figure { (svg) } });
        self
    }
}

/// The whole page.
pub fn page(
    title: &str,
    environment: &Environment,
    warnings: &[String],
    sections: &[Section],
) -> String {
    html! {
        (DOCTYPE)
        html lang="en" {
            head {
                meta charset="utf-8";
                meta name="viewport" content="width=device-width, initial-scale=1";
                title { (title) }
                style { (PreEscaped(STYLE)) }
            }
            body {
                h1 { (title) }
                p.command { code { (environment.command_line) } }
                @for warning in warnings { p.warning { "Warning: " (warning) } }
                @for section in sections {
                    section {
                        h2 { (section.title) }
                        @for part in &section.body { (part) }
                    }
                }
                section { h2 { "Environment" } (environment_table(environment)) }
            }
        }
    }
    .into_string()
}

fn table_markup(table: &Table) -> Markup {
    let class = |column: usize| (column < table.names).then_some("name");
    html! {
        div.scroll { table {
            thead { tr {
                @for (column, cell) in table.header.iter().enumerate() { th class=[class(column)] { (cell) } }
            } }
            tbody { @for row in &table.rows { tr {
                @for (column, cell) in row.iter().enumerate() { td class=[class(column)] { (cell) } }
            } } }
        } }
    }
}

fn environment_table(environment: &Environment) -> Markup {
    html! {
        div.scroll { table.environment { tbody {
            @for (name, value) in environment_rows(environment) {
                tr { th.name { (name) } td.name { (value) } }
            }
        } } }
    }
}

/// What is known, for people.
pub fn environment_rows(environment: &Environment) -> Vec<(&'static str, String)> {
    let mut rows = vec![("Date", Some(environment.date.clone()))];
    if let Some(device) = &environment.device {
        let kind = device.rotational.map(|rotational| {
            if rotational {
                "rotating"
            } else {
                "not rotating"
            }
            .to_owned()
        });
        let name = [
            Some(device.name.clone()),
            device.model.clone(),
            kind,
            device.size_bytes.map(units::binary_size),
        ];
        let blocks = device.logical_block_bytes.zip(device.physical_block_bytes);
        rows.extend([
            (
                "Disk",
                Some(name.into_iter().flatten().collect::<Vec<_>>().join(", ")),
            ),
            ("Kernel scheduler", device.scheduler.clone()),
            (
                "Kernel queue (nr_requests)",
                device.nr_requests.map(|n| n.to_string()),
            ),
            ("Write cache", device.write_cache.clone()),
            (
                "Block size",
                blocks.map(|(logical, physical)| {
                    format!("{logical} B logical, {physical} B physical")
                }),
            ),
            (
                "Direct I/O in multiples of",
                device
                    .direct_offset_alignment_bytes
                    .map(|n| format!("{n} B")),
            ),
            ("Backing file", device.backing_file.clone()),
            (
                "Stands on",
                (!device.below.is_empty()).then(|| device.below.join(", ")),
            ),
        ]);
    }
    let filesystem = environment.filesystem.as_ref();
    let cpu = environment
        .cpu_model
        .clone()
        .unwrap_or_else(|| "CPU".to_owned());
    rows.extend([
        (
            "File system",
            filesystem
                .map(|fs| format!("{} on {} ({})", fs.kind, fs.mount_point, fs.mount_options)),
        ),
        ("Kernel", environment.kernel_release.clone()),
        ("CPU", Some(format!("{} × {cpu}", environment.cpu_count))),
        ("Memory", environment.memory_bytes.map(units::binary_size)),
        ("Virtualization", environment.virtualization.clone()),
        ("io_uring", Some(environment.io_uring.clone())),
        (
            "Control group limits",
            (!environment.cgroup_io_limits.is_empty())
                .then(|| environment.cgroup_io_limits.join("; ")),
        ),
        ("iolane", Some(environment.iolane_version.clone())),
    ]);
    rows.into_iter()
        .filter_map(|(name, value)| Some((name, value?)))
        .collect()
}

/// Colours after Okabe and Ito, told apart by colour-blind people too, lighter
/// on dark.
const STYLE: &str = "
:root { color-scheme: light dark; --paper: #fff; --ink: #1a1d21; --soft: #5b6470; --grid: #e3e6ea; --stripe: #f6f7f9;
  --c0: #0072b2; --c1: #d55e00; --c2: #009e73; --c3: #b0508f; --c4: #b88a00; --c5: #2f95c9; --c6: #7a5195; --c7: #6b7280; }
@media (prefers-color-scheme: dark) { :root { --paper: #14171a; --ink: #e6e8eb; --soft: #9aa4b0; --grid: #2c3238; --stripe: #1b1f24;
  --c0: #4fb3f0; --c1: #ff8c42; --c2: #35c99b; --c3: #e08cc4; --c4: #e8c04a; --c5: #8fd3f7; --c6: #b794d6; --c7: #a3acb8; } }
body { margin: 0 auto; padding: 1.5rem 1rem 4rem; max-width: 74rem; background: var(--paper); color: var(--ink);
  font: 15px/1.5 system-ui, 'DejaVu Sans', sans-serif; }
h1 { font-size: 1.6rem; margin: 0 0 .3rem; } h2 { font-size: 1.15rem; margin: 2.2rem 0 .5rem; }
h3 { font-size: 1rem; margin: 1.2rem 0 .3rem; }
p { margin: .4rem 0; } code { font: 13px ui-monospace, 'DejaVu Sans Mono', monospace; overflow-wrap: anywhere; }
.command { color: var(--soft); } .warning { border-left: 4px solid var(--c1); padding: .2rem .8rem; background: var(--stripe); }
.scroll { overflow-x: auto; } table { border-collapse: collapse; font-size: 12.5px; font-variant-numeric: tabular-nums; }
th, td { padding: .25rem .4rem; text-align: right; white-space: nowrap; border-bottom: 1px solid var(--grid); }
th { font-weight: 600; color: var(--soft); } .name { text-align: left; } tbody tr:nth-child(even) { background: var(--stripe); }
.environment td { white-space: normal; } figure { margin: .5rem 0; max-width: 60rem; } svg { width: 100%; height: auto; display: block; }
svg text { font: 12px system-ui, 'DejaVu Sans', sans-serif; fill: var(--ink); } svg .tick { fill: var(--soft); font-size: 11.5px; }
svg .label { fill: var(--soft); font-size: 12.5px; } svg .point { font-weight: 600; }
svg .grid { stroke: var(--grid); } svg .axis, svg .lead { stroke: var(--soft); } svg .mark { stroke: var(--soft); stroke-dasharray: 4 4; }
svg .line { fill: none; stroke: var(--c); stroke-width: 2; stroke-linejoin: round; } svg .dot, svg .bar { fill: var(--c); } svg .ring { fill: none; stroke: var(--c); stroke-width: 2; }
svg .curve { --c: var(--soft); } svg .line.curve { stroke-dasharray: 5 4; stroke-width: 1.5; }
.c0 { --c: var(--c0); } .c1 { --c: var(--c1); } .c2 { --c: var(--c2); } .c3 { --c: var(--c3); }
.c4 { --c: var(--c4); } .c5 { --c: var(--c5); } .c6 { --c: var(--c6); } .c7 { --c: var(--c7); }
@media print { body { max-width: none; } section { break-inside: avoid; } }
";
