//! Enumerates what power cuts can leave.

use super::image::{Fate, Image};
use super::recorder::Recording;
use super::replay::{Change, Replay};
use crate::fault::draw::Draw;
use crate::fault::units;

/// Loose writes at one moment of which every subset can be asked for: 65,536
/// images.
pub const EXHAUSTIVE_MAX: usize = 16;

/// Which images of each moment.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Choice {
    /// All subsets of the loose writes, each whole or lost. At most
    /// [`EXHAUSTIVE_MAX`] writes may be loose at once.
    Exhaustive,
    /// Some: all subsets if they are that few; otherwise nothing lost,
    /// everything lost, and random ones. Random ones are torn too.
    Sampled {
        /// Images of a moment at which anything can be lost.
        per_boundary: u32,
    },
}

/// How to enumerate.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct CrashPlan {
    /// Decides everything that is random.
    pub seed: u64,
    /// How many images.
    pub choice: Choice,
    /// Sampled images tear writes into units of this size: 512 or 4096, or
    /// another power of two from 512. `None`: a write arrives or not.
    pub tear_unit_bytes: Option<u32>,
}

impl CrashPlan {
    /// Every subset, nothing torn.
    pub fn exhaustive() -> CrashPlan {
        CrashPlan {
            seed: 0,
            choice: Choice::Exhaustive,
            tear_unit_bytes: None,
        }
    }

    /// Random subsets with writes torn into sectors of 512 bytes.
    pub fn sampled(seed: u64, per_boundary: u32) -> CrashPlan {
        CrashPlan {
            seed,
            choice: Choice::Sampled { per_boundary },
            tear_unit_bytes: Some(512),
        }
    }
}

/// A plan that cannot be carried out.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum CrashPlanError {
    /// Too many subsets.
    #[error(
        "{loose} writes are loose before event {position}, and every subset can be had of \
         {EXHAUSTIVE_MAX} at most: sample instead"
    )]
    TooManyLoose {
        /// The event before which the power would be cut.
        position: usize,
        /// How many.
        loose: usize,
    },
    /// Not a size of sectors.
    #[error("writes torn into units of {unit_bytes} bytes: use a power of two from 512")]
    Unit {
        /// As given.
        unit_bytes: u32,
    },
    /// Nothing would be looked at.
    #[error("no image per boundary: use at least 1")]
    None,
}

/// One moment at which the power can be cut.
struct Boundary {
    position: usize,
    /// Number of its first image.
    first: u64,
    images: u64,
    loose: usize,
}

/// What power cuts during a [`Recording`] can leave, numbered from 0 in order
/// of the moment. The same recording and plan give the same images.
pub struct Images {
    recording: Recording,
    plan: CrashPlan,
    boundaries: Vec<Boundary>,
    count: u64,
}

impl Images {
    /// Counts them.
    ///
    /// # Errors
    /// [`CrashPlanError`], which says what to ask for instead.
    pub fn new(recording: &Recording, plan: CrashPlan) -> Result<Images, CrashPlanError> {
        if plan.choice == (Choice::Sampled { per_boundary: 0 }) {
            return Err(CrashPlanError::None);
        }
        if let Some(unit_bytes) = plan.tear_unit_bytes
            && (unit_bytes < 512 || !unit_bytes.is_power_of_two())
        {
            return Err(CrashPlanError::Unit { unit_bytes });
        }
        let mut replay = Replay::new(recording);
        let mut boundaries = Vec::new();
        let mut count = 0;
        for position in 0..=recording.events() {
            replay.advance_to(position);
            if !replay.at_boundary() {
                continue;
            }
            let images = images_at(&replay, &plan)?;
            boundaries.push(Boundary {
                position,
                first: count,
                images,
                loose: replay.loose.len(),
            });
            count += images;
        }
        Ok(Images {
            recording: recording.clone(),
            plan,
            boundaries,
            count,
        })
    }

    /// How many there are.
    pub fn count(&self) -> u64 {
        self.count
    }

    /// At how many moments the power is cut.
    pub fn boundaries(&self) -> usize {
        self.boundaries.len()
    }

    /// Image `number`, made from the beginning; `None` if there is no such.
    /// Takes as long as going through the recording once.
    pub fn image(&self, number: u64) -> Option<Image> {
        let walk = Walk {
            images: self,
            replay: Replay::new(&self.recording),
            next: 0,
            count: 1,
            from: number,
            span: 1,
        };
        (number < self.count).then_some(walk)?.next()
    }

    /// All of them, in order.
    pub fn iter(&self) -> impl Iterator<Item = Image> + '_ {
        self.spread(self.count)
    }

    /// `count` of them, or all if there are fewer, evenly spread, in order.
    pub fn spread(&self, count: u64) -> impl Iterator<Item = Image> + '_ {
        Walk {
            images: self,
            replay: Replay::new(&self.recording),
            next: 0,
            count: count.min(self.count),
            from: 0,
            span: self.count,
        }
    }
}

/// The images that one moment gives.
fn images_at(replay: &Replay, plan: &CrashPlan) -> Result<u64, CrashPlanError> {
    let loose = replay.loose.len();
    match plan.choice {
        Choice::Exhaustive if loose > EXHAUSTIVE_MAX => Err(CrashPlanError::TooManyLoose {
            position: replay.position(),
            loose,
        }),
        Choice::Exhaustive => Ok(1 << loose),
        Choice::Sampled { .. } if loose == 0 => Ok(1),
        Choice::Sampled { per_boundary } => {
            let per_boundary = u64::from(per_boundary);
            let tears = plan.tear_unit_bytes.is_some_and(|unit_bytes| {
                (0..loose).any(|at| unit_count(replay, at, unit_bytes) > 1)
            });
            Ok(match subsets(loose) {
                Some(all) if !tears => all.min(per_boundary),
                _ => per_boundary,
            })
        }
    }
}

/// How many subsets, where that is few enough to try them all.
fn subsets(loose: usize) -> Option<u64> {
    (loose <= EXHAUSTIVE_MAX).then(|| 1 << loose)
}

/// Units of what is left of a loose write; 1 for what cannot be torn.
fn unit_count(replay: &Replay, loose: usize, unit_bytes: u32) -> usize {
    match &replay.loose[loose].change {
        Change::Write { .. } if replay.loose[loose].is_whole() => 1,
        Change::Write { event, .. } => {
            let (offset, data) = replay.data(*event);
            units::count(&(offset..offset + data.len() as u64), unit_bytes)
        }
        Change::Resize { .. } | Change::Name { .. } => 1,
    }
}

/// Goes forward through the recording and stops at the wanted images:
/// `count` of the `span` that begin with `from`.
struct Walk<'a> {
    images: &'a Images,
    replay: Replay,
    next: u64,
    count: u64,
    from: u64,
    span: u64,
}

impl Iterator for Walk<'_> {
    type Item = Image;

    fn next(&mut self) -> Option<Image> {
        if self.next == self.count {
            return None;
        }
        let step = u128::from(self.next) * u128::from(self.span) / u128::from(self.count);
        let number = self.from + step as u64;
        self.next += 1;
        let boundaries = &self.images.boundaries;
        let at = boundaries.partition_point(|boundary| boundary.first <= number) - 1;
        let boundary = &boundaries[at];
        self.replay.advance_to(boundary.position);
        let fates = fates(
            &self.replay,
            &self.images.plan,
            boundary,
            number - boundary.first,
        );
        Some(Image::new(&self.replay, number, &fates))
    }

    fn size_hint(&self) -> (usize, Option<usize>) {
        let left = usize::try_from(self.count - self.next).ok();
        (left.unwrap_or(usize::MAX), left)
    }
}

/// What becomes of each loose write in the image `variant` of a moment.
fn fates(replay: &Replay, plan: &CrashPlan, boundary: &Boundary, variant: u64) -> Vec<Fate> {
    let loose = boundary.loose;
    let whole = |arrives: bool| if arrives { Fate::Whole } else { Fate::Lost };
    let exhaustive = plan.choice == Choice::Exhaustive;
    match subsets(loose).filter(|all| exhaustive || *all <= boundary.images) {
        Some(all) if variant < all => {
            return (0..loose).map(|at| whole(variant >> at & 1 == 1)).collect();
        }
        None if variant < 2 => return (0..loose).map(|_| whole(variant == 1)).collect(),
        _ => {}
    }
    let mut draw = Draw::new(plan.seed, boundary.position as u64, variant);
    let mut fates = subset(&mut draw, loose);
    if let Some(unit_bytes) = plan.tear_unit_bytes {
        tear(&mut draw, replay, unit_bytes, &mut fates);
    }
    fates
}

/// Disks lose writes in different ways: any, all but a few, most, or
/// everything from some moment on.
fn subset(draw: &mut Draw, loose: usize) -> Vec<Fate> {
    let style = draw.below(4);
    let one = draw.below(loose as u64) as usize;
    (0..loose)
        .map(|at| {
            let arrives = match style {
                0 => draw.below(2) == 0,
                1 => at != one && draw.below(16) != 0,
                2 => at == one || draw.below(16) == 0,
                _ => at <= one,
            };
            if arrives { Fate::Whole } else { Fate::Lost }
        })
        .collect()
}

/// Tears the last write that arrives, or any.
fn tear(draw: &mut Draw, replay: &Replay, unit_bytes: u32, fates: &mut [Fate]) {
    let last_only = draw.below(2) == 0;
    let mut last_seen = false;
    for (at, fate) in fates.iter_mut().enumerate().rev() {
        if *fate != Fate::Whole {
            continue;
        }
        let count = unit_count(replay, at, unit_bytes);
        let wanted = if last_only {
            !last_seen
        } else {
            draw.below(4) == 0
        };
        last_seen = true;
        if wanted && count > 1 {
            *fate = Fate::Torn {
                unit_bytes,
                arrived: units::tear(draw, count),
            };
        }
    }
}
