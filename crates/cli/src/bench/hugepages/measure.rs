//! The course of the measurement: in each round, every kind of pages takes one
//! sample of everything; at the end come the processes.

use std::sync::atomic::{AtomicBool, Ordering};

use iolane::Arena;
use iolane::arena::{ArenaError, PagesReport};

use super::cache::{CACHE_BYTES_MIN, Cache, PAGE_BYTES};
use super::lookups::LookupSamples;
use super::reads::{ReadSamples, Source};
use super::reserve::PoolGuard;
use super::{
    CACHE_UNIT_BYTES, HugepagesError, HugepagesOptions, HugepagesResult, KindResult, Measured,
    Outcome, PROCESSES_MAX, Pages, SAMPLES_MAX, Skip, facts, tables,
};
use crate::output::units;
use crate::sys::shared_cache::base_page_bytes;

/// What every part of the measurement needs.
pub(super) struct Context<'a> {
    pub(super) options: &'a HugepagesOptions,
    progress: &'a mut dyn FnMut(f64),
    stop: &'a AtomicBool,
    steps_done: u32,
    steps: u32,
}

impl Context<'_> {
    /// Ends the measurement when the stop flag is raised.
    pub(super) fn check(&self) -> Result<(), HugepagesError> {
        if self.stop.load(Ordering::Relaxed) {
            Err(HugepagesError::Stopped)
        } else {
            Ok(())
        }
    }

    fn step(&mut self) {
        self.steps_done += 1;
        (self.progress)(f64::from(self.steps_done) / f64::from(self.steps));
    }
}

/// Measures each kind of pages in turn.
///
/// Blocks until done: half a minute with the default options. `progress` gets
/// the part done, 0 to 1, never less than before. `stop` is looked at several
/// times a second, but not while a cache is built (under a second per GiB).
///
/// # Errors
/// [`HugepagesError`]. Pages that the machine cannot give are no error, but
/// [`Outcome::Skipped`].
pub fn run(
    options: &HugepagesOptions,
    progress: &mut dyn FnMut(f64),
    stop: &AtomicBool,
) -> Result<HugepagesResult, HugepagesError> {
    check_options(options)?;
    let cache_bytes = cache_bytes(options.cache_bytes, facts::available_bytes()?)?;
    let direct = options.direct_path.as_deref().map(Source::direct);
    let sources = Sources {
        direct: direct.transpose()?,
        buffered: Source::scratch(&options.scratch_dir, options.scratch_bytes.min(cache_bytes))?,
    };
    let mut context = Context {
        options,
        progress,
        stop,
        steps_done: 0,
        steps: (options.repeats + 1) * Pages::ALL.len() as u32,
    };
    let mut kinds = Pages::ALL.map(Kind::new);
    for round in 0..options.repeats {
        for kind in &mut kinds {
            context.check()?;
            kind.sample(&context, &sources, cache_bytes, round)?;
            context.step();
        }
    }
    let mut results = Vec::new();
    for kind in kinds {
        context.check()?;
        results.push(kind.finish(&context, cache_bytes)?);
        context.step();
    }
    Ok(HugepagesResult {
        cache_bytes,
        cache_asked_bytes: options.cache_bytes,
        db_page_bytes: PAGE_BYTES as u64,
        base_page_bytes: base_page_bytes() as u64,
        lookups: options.lookups,
        repeats: options.repeats,
        seed: options.seed,
        kinds: results,
    })
}

fn check_options(options: &HugepagesOptions) -> Result<(), HugepagesError> {
    let ranges = [
        ("cache_bytes", options.cache_bytes, CACHE_BYTES_MIN, 1 << 43),
        ("lookups", options.lookups, 1, u64::MAX),
        ("reads", options.reads, 1, u64::MAX),
        ("direct_reads", options.direct_reads, 1, u64::MAX),
        ("repeats", options.repeats.into(), 1, SAMPLES_MAX.into()),
        (
            "processes",
            options.processes.into(),
            1,
            PROCESSES_MAX.into(),
        ),
    ];
    for (option, value, min, max) in ranges {
        if !(min..=max).contains(&value) {
            return Err(HugepagesError::Option {
                option,
                value,
                min,
                max,
            });
        }
    }
    Ok(())
}

/// What is asked for, at most half of the free memory, in whole units.
fn cache_bytes(asked: u64, available_bytes: u64) -> Result<u64, HugepagesError> {
    let bytes = asked.min(available_bytes / 2) / CACHE_UNIT_BYTES * CACHE_UNIT_BYTES;
    if bytes < CACHE_BYTES_MIN {
        return Err(HugepagesError::NoRoom { available_bytes });
    }
    Ok(bytes)
}

struct Sources {
    buffered: Source,
    direct: Option<Source>,
}

/// One kind of pages, as far as it is measured.
struct Kind {
    pages: Pages,
    /// From the first round.
    got: Option<(PagesReport, u64)>,
    /// Why the latest round had none of these pages.
    skip: Option<Skip>,
    lookups: LookupSamples,
    buffered: ReadSamples,
    direct: ReadSamples,
}

impl Kind {
    fn new(pages: Pages) -> Self {
        Kind {
            pages,
            got: None,
            skip: None,
            lookups: LookupSamples::new(),
            buffered: ReadSamples::default(),
            direct: ReadSamples::default(),
        }
    }

    /// Builds a cache and takes one sample of each. A round in which the
    /// machine has no such pages is left out.
    fn sample(
        &mut self,
        context: &Context<'_>,
        sources: &Sources,
        cache_bytes: u64,
        round: u32,
    ) -> Result<(), HugepagesError> {
        let options = context.options;
        // Dropped last, when the memory has returned to the pool.
        let _guard = match make_room(options, self.pages, cache_bytes) {
            Ok(guard) => guard,
            Err(skip) => {
                self.skip = Some(skip);
                return Ok(());
            }
        };
        let tables_before = facts::page_table_bytes("self")?;
        let built = Arena::builder()
            .bytes(cache_bytes)
            .pages(self.pages.choice())
            .build();
        let arena = match built {
            Ok(arena) => arena,
            Err(ArenaError::Refused(refusal)) => {
                let remedy = match self.pages.hugetlb_bytes() {
                    Some(_) if !options.reserve => {
                        format!("{}, or give --reserve", refusal.remedy)
                    }
                    _ => refusal.remedy,
                };
                self.skip = Some(Skip {
                    cause: refusal.cause,
                    remedy,
                });
                return Ok(());
            }
            Err(error) => return Err(error.into()),
        };
        if self.got.is_none() {
            let tables = facts::page_table_bytes("self")?.saturating_sub(tables_before);
            self.got = Some((arena.pages().clone(), tables));
        }
        let mut cache = Cache::new(&arena, cache_bytes)?;
        self.lookups.measure(&cache, context, round)?;
        self.buffered
            .measure(&sources.buffered, &mut cache, context, options.reads)?;
        if let Some(source) = &sources.direct {
            self.direct
                .measure(source, &mut cache, context, options.direct_reads)?;
        }
        Ok(())
    }

    /// Measures the processes, and sums up.
    fn finish(self, context: &Context<'_>, cache_bytes: u64) -> Result<KindResult, HugepagesError> {
        let pages = self.pages;
        let samples = self.lookups.finish(context.options.lookups);
        let outcome = match (self.got, samples, self.buffered.finish()) {
            (Some((report, page_table_bytes)), Some((lookup_ns, dtlb)), Some(buffered_read)) => {
                let process_tables = match make_room(context.options, pages, cache_bytes) {
                    Ok(_guard) => tables::measure(context, pages, cache_bytes)?,
                    Err(skip) => tables::ProcessTables::Skipped(skip),
                };
                Outcome::Measured(Box::new(Measured {
                    pages_got: report.to_string(),
                    page_bytes: report.kind.page_bytes(),
                    huge_bytes: report.huge_bytes,
                    page_table_bytes,
                    lookup_ns,
                    dtlb,
                    buffered_read,
                    direct_read: self.direct.finish(),
                    process_tables,
                }))
            }
            _ => Outcome::Skipped(self.skip.expect("a round without samples says why")),
        };
        Ok(KindResult { pages, outcome })
    }
}

/// Raises the pool where that is allowed and the pages fit the cache.
fn make_room(
    options: &HugepagesOptions,
    pages: Pages,
    cache_bytes: u64,
) -> Result<Option<PoolGuard>, Skip> {
    let Some(page_bytes) = pages.hugetlb_bytes() else {
        return Ok(None);
    };
    // A cache rounded up to such a page would not be the same measurement.
    if !cache_bytes.is_multiple_of(page_bytes) {
        return Err(Skip {
            cause: format!(
                "a cache of {} is no whole number of them",
                units::binary_size(cache_bytes)
            ),
            remedy: format!(
                "give a --cache-size of a multiple of {}",
                units::binary_size(page_bytes)
            ),
        });
    }
    if !options.reserve {
        return Ok(None);
    }
    match PoolGuard::raise(page_bytes, cache_bytes / page_bytes) {
        Ok(guard) => Ok(Some(guard)),
        Err(error) => Err(Skip {
            cause: format!("huge pages cannot be reserved: {error}"),
            remedy: "run as root, soon after boot or with more free memory".into(),
        }),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_cache_takes_at_most_half_of_the_free_memory() {
        assert_eq!(cache_bytes(1 << 30, 8 << 30).unwrap(), 1 << 30);
        assert_eq!(cache_bytes(1 << 30, 1 << 30).unwrap(), 512 << 20);
        assert_eq!(cache_bytes((8 << 20) + 1, 8 << 30).unwrap(), 8 << 20);
        assert!(matches!(
            cache_bytes(1 << 30, 2 << 20),
            Err(HugepagesError::NoRoom { .. })
        ));
    }
}
