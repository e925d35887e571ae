//! Which part of a program a request belongs to.

use super::{LevelStatistics, TimeAtCount};
use iolane_sched::Level;

/// A mark on a handle ([`File::tagged`](crate::File::tagged)): requests made
/// through it are counted apart, by number and by class, whatever transfer
/// they go to the device in. Scheduling does not know it.
///
/// ```
/// # fn main() -> Result<(), Box<dyn std::error::Error>> {
/// use iolane::{Engine, Level, OpenOptions, Tag};
/// # let dir = tempfile::tempdir()?;
/// # let path = dir.path().join("data");
/// # std::fs::write(&path, [0; 8192])?;
/// const SCAN: Tag = Tag::new(3, 0);
/// let engine = Engine::new()?;
/// let file = engine.open(&path, OpenOptions::new().read(true))?;
/// let scanned = file.tagged(SCAN);
/// scanned.read_at(&mut [0; 4096], 0, Level::Prefetch)?;
/// file.read_at(&mut [0; 4096], 4096, Level::Foreground)?;
/// let statistics = file.device().statistics();
/// assert_eq!(statistics.tag(SCAN).total().read.requests, 1);
/// assert_eq!(statistics.total().read.requests, 2);
/// # Ok(()) }
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Tag {
    number: u8,
    class: u8,
}

impl Tag {
    /// How many numbers there are.
    pub const COUNT: usize = 16;
    /// How many classes there are.
    pub const CLASSES: usize = 4;

    /// `number` says what requests are for, such as a scan; `class` what they
    /// go to, such as a log. Tags that share a class share its distribution of
    /// outstanding requests, which cannot be had by adding up numbers.
    ///
    /// # Panics
    /// Beyond [`COUNT`](Tag::COUNT) or [`CLASSES`](Tag::CLASSES).
    pub const fn new(number: u8, class: u8) -> Tag {
        assert!((number as usize) < Tag::COUNT, "tags have numbers below 16");
        assert!((class as usize) < Tag::CLASSES, "tags have classes below 4");
        Tag { number, class }
    }

    /// 0 to [`COUNT`](Tag::COUNT) - 1.
    pub const fn number(self) -> usize {
        self.number as usize
    }

    /// 0 to [`CLASSES`](Tag::CLASSES) - 1.
    pub const fn class(self) -> usize {
        self.class as usize
    }
}

/// What was done for requests of one tag's number.
#[derive(Clone, Debug, Default)]
#[non_exhaustive]
pub struct TagStatistics {
    /// By level, `Critical` first. A promoted request counts on its new level.
    pub levels: [LevelStatistics; Level::COUNT],
    /// Requests submitted and not completed.
    pub outstanding: TimeAtCount,
}

impl TagStatistics {
    /// All levels together.
    pub fn total(&self) -> LevelStatistics {
        LevelStatistics::sum(&self.levels)
    }

    fn merge(&mut self, other: &TagStatistics) {
        for (ours, theirs) in self.levels.iter_mut().zip(&other.levels) {
            ours.merge(theirs);
        }
        self.outstanding.merge(&other.outstanding);
    }

    fn since(&self, earlier: &TagStatistics) -> TagStatistics {
        let mut levels = self.levels.clone();
        for (ours, theirs) in levels.iter_mut().zip(&earlier.levels) {
            *ours = ours.since(theirs);
        }
        TagStatistics {
            levels,
            outstanding: self.outstanding.since(&earlier.outstanding),
        }
    }
}

/// By number and by class. Empty, and without memory, until a tag is used.
#[derive(Clone, Debug, Default)]
pub(super) struct Tags {
    numbers: Vec<TagStatistics>,
    pub(super) classes: [TimeAtCount; Tag::CLASSES],
}

impl Tags {
    pub(super) fn get(&self, number: usize) -> Option<&TagStatistics> {
        self.numbers.get(number)
    }

    pub(super) fn entered(&mut self, now_ns: u64, tag: Tag) {
        if tag.number() >= self.numbers.len() {
            self.numbers
                .resize_with(tag.number() + 1, TagStatistics::default);
        }
        self.numbers[tag.number()].outstanding.add(now_ns, 1);
        self.classes[tag.class()].add(now_ns, 1);
    }

    /// What [`entered`](Tags::entered) before.
    pub(super) fn left(&mut self, now_ns: u64, tag: Tag) {
        self.numbers[tag.number()].outstanding.subtract(now_ns, 1);
        self.classes[tag.class()].subtract(now_ns, 1);
    }

    pub(super) fn level_mut(&mut self, tag: Tag, level: Level) -> &mut LevelStatistics {
        &mut self.numbers[tag.number()].levels[level.index()]
    }

    pub(super) fn settle(&mut self, now_ns: u64) {
        for tag in &mut self.numbers {
            tag.outstanding.settle(now_ns);
        }
        for class in &mut self.classes {
            class.settle(now_ns);
        }
    }

    pub(super) fn merge(&mut self, other: &Tags) {
        if self.numbers.len() < other.numbers.len() {
            self.numbers
                .resize_with(other.numbers.len(), TagStatistics::default);
        }
        for (ours, theirs) in self.numbers.iter_mut().zip(&other.numbers) {
            ours.merge(theirs);
        }
        for (ours, theirs) in self.classes.iter_mut().zip(&other.classes) {
            ours.merge(theirs);
        }
    }

    pub(super) fn since(&self, earlier: &Tags) -> Tags {
        let mut difference = self.clone();
        for (ours, theirs) in difference.numbers.iter_mut().zip(&earlier.numbers) {
            *ours = ours.since(theirs);
        }
        for (ours, theirs) in difference.classes.iter_mut().zip(&earlier.classes) {
            *ours = ours.since(theirs);
        }
        difference
    }
}

/// How many requests of a device were outstanding, and for how long: cheap
/// enough to be looked at all the time
/// ([`Device::outstanding`](crate::Device::outstanding)).
#[derive(Clone, Debug, Default)]
#[non_exhaustive]
pub struct Outstanding {
    /// Submitted and not completed.
    pub all: TimeAtCount,
    /// Of these, handed to the device.
    pub in_flight: TimeAtCount,
    /// Of all, those with a tag of each class.
    pub classes: [TimeAtCount; Tag::CLASSES],
}

impl Outstanding {
    /// What happened after `earlier`, a state of the same device.
    pub fn since(&self, earlier: &Outstanding) -> Outstanding {
        let mut classes = self.classes.clone();
        for (ours, theirs) in classes.iter_mut().zip(&earlier.classes) {
            *ours = ours.since(theirs);
        }
        Outstanding {
            all: self.all.since(&earlier.all),
            in_flight: self.in_flight.since(&earlier.in_flight),
            classes,
        }
    }
}
