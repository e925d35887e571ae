//! Which pages an arena stands on: what was asked, what was got, and why the
//! better kinds were refused.

use std::fmt;

/// Which pages to use for an [`Arena`](crate::Arena).
///
/// ```
/// use iolane::Arena;
/// use iolane::arena::PageChoice;
///
/// let arena = Arena::builder().bytes(1 << 20).pages(PageChoice::Plain).build()?;
/// println!("{}", arena.pages());
/// # Ok::<(), iolane::arena::ArenaError>(())
/// ```
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum PageChoice {
    /// The largest hugetlb pages that the machine has free and that are not
    /// larger than the arena; then transparent huge pages; then plain ones.
    #[default]
    Auto,
    /// hugetlb pages of 1 GiB, or an error.
    Huge1GiB,
    /// hugetlb pages of 2 MiB, or an error.
    Huge2MiB,
    /// Transparent huge pages, or an error when the kernel gives none at all.
    Transparent,
    /// Base pages, 4 KiB on x86-64, even where huge ones come without asking.
    Plain,
}

/// One kind of memory page.
///
/// ```
/// use iolane::arena::PageKind;
///
/// let kind = PageKind::HugeTlb { page_bytes: 2 << 20 };
/// assert_eq!(kind.to_string(), "2 MiB huge pages (hugetlb)");
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum PageKind {
    /// From the pool that the administrator reserves: never swapped, never
    /// split.
    HugeTlb {
        /// Size of one page in bytes.
        page_bytes: u64,
    },
    /// Huge pages that the kernel forms from free memory as it can.
    Transparent {
        /// Size of one huge page in bytes.
        page_bytes: u64,
    },
    /// The processor's base pages.
    Plain {
        /// Size of one page in bytes.
        page_bytes: u64,
    },
}

impl PageKind {
    /// Size of one page in bytes.
    pub fn page_bytes(self) -> u64 {
        match self {
            PageKind::HugeTlb { page_bytes }
            | PageKind::Transparent { page_bytes }
            | PageKind::Plain { page_bytes } => page_bytes,
        }
    }
}

impl fmt::Display for PageKind {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let size = Size(self.page_bytes());
        match self {
            PageKind::HugeTlb { .. } => write!(f, "{size} huge pages (hugetlb)"),
            PageKind::Transparent { .. } => write!(f, "transparent huge pages of {size}"),
            PageKind::Plain { .. } => write!(f, "plain {size} pages"),
        }
    }
}

/// Why one kind of pages was not used, and what to do about it.
///
/// ```
/// use iolane::Arena;
/// use iolane::arena::{ArenaError, PageChoice};
///
/// // No machine has 8 TiB of huge pages reserved.
/// let asked = Arena::builder().bytes(1 << 43).pages(PageChoice::Huge2MiB).build();
/// let Err(ArenaError::Refused(refusal)) = asked else { panic!("{asked:?}") };
/// println!("{}; to get them: {}", refusal.cause, refusal.remedy);
/// ```
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Refusal {
    /// The kind refused.
    pub kind: PageKind,
    /// What stood in the way, for people.
    pub cause: String,
    /// What an administrator can do about it, for people.
    pub remedy: String,
}

impl fmt::Display for Refusal {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Refusal {
            kind,
            cause,
            remedy,
        } = self;
        write!(f, "no {kind}: {cause}; to get them: {remedy}")
    }
}

/// The pages that an [`Arena`](crate::Arena) really stands on.
///
/// Its `Display` is one line on what was got, then one line for each better
/// kind that was refused, with cause and remedy.
///
/// ```
/// use iolane::Arena;
///
/// let arena = Arena::builder().bytes(4 << 20).build()?;
/// let pages = arena.pages();
/// assert!(pages.bytes >= 4 << 20);
/// assert!(pages.huge_bytes.is_none_or(|huge| huge <= pages.bytes));
/// println!("{pages}");
/// # Ok::<(), iolane::arena::ArenaError>(())
/// ```
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PagesReport {
    /// The kind got.
    pub kind: PageKind,
    /// Size of the arena in bytes: what was asked, rounded up to pages.
    pub bytes: u64,
    /// How many of these bytes stood on huge pages when the arena was built,
    /// measured in `/proc/self/smaps`. `None` where that cannot be read.
    pub huge_bytes: Option<u64>,
    /// The better kinds that were tried in vain, best first.
    pub refused: Vec<Refusal>,
}

impl fmt::Display for PagesReport {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} in {}", Size(self.bytes), self.kind)?;
        match self.huge_bytes {
            Some(huge) if huge < self.bytes && huge > 0 => {
                write!(f, ", {} of it huge", Size(huge))?;
            }
            Some(_) => {}
            None => write!(f, ", not verified (/proc/self/smaps cannot be read)")?,
        }
        for refusal in &self.refused {
            write!(f, "\n  {refusal}")?;
        }
        Ok(())
    }
}

/// Bytes in the largest binary unit that leaves a short number.
pub(crate) struct Size(pub(crate) u64);

impl fmt::Display for Size {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        const UNITS: [(u32, &str); 4] = [(40, "TiB"), (30, "GiB"), (20, "MiB"), (10, "KiB")];
        for (shift, name) in UNITS {
            if self.0 >> shift > 0 {
                let whole = self.0.is_multiple_of(1 << shift);
                let count = self.0 as f64 / (1u64 << shift) as f64;
                return write!(f, "{count:.*} {name}", if whole { 0 } else { 1 });
            }
        }
        write!(f, "{} bytes", self.0)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sizes_read_as_people_write_them() {
        for (bytes, text) in [
            (0, "0 bytes"),
            (512, "512 bytes"),
            (16384, "16 KiB"),
            (3 << 19, "1.5 MiB"),
            (2 << 30, "2 GiB"),
        ] {
            assert_eq!(Size(bytes).to_string(), text);
        }
    }

    #[test]
    fn a_report_names_cause_and_remedy_of_each_refusal() {
        let report = PagesReport {
            kind: PageKind::Transparent {
                page_bytes: 2 << 20,
            },
            bytes: 1 << 30,
            huge_bytes: Some(512 << 20),
            refused: vec![Refusal {
                kind: PageKind::HugeTlb {
                    page_bytes: 2 << 20,
                },
                cause: "512 are needed, 0 are free".into(),
                remedy: "sysctl vm.nr_hugepages=512".into(),
            }],
        };
        assert_eq!(
            report.to_string(),
            "1 GiB in transparent huge pages of 2 MiB, 512 MiB of it huge\n  \
             no 2 MiB huge pages (hugetlb): 512 are needed, 0 are free; \
             to get them: sysctl vm.nr_hugepages=512"
        );
    }
}
