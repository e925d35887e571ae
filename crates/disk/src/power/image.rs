//! What one power cut leaves.

use super::cow::{CowMedium, Pages};
use super::replay::{Change, Replay, give};
use crate::fault::units;
use std::fmt;
use std::ops::Range;
use std::sync::Arc;

/// Lines of an image's description.
const LISTED_MAX: usize = 32;

/// What became of a loose write.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Fate {
    Lost,
    Whole,
    Torn { unit_bytes: u32, arrived: Vec<bool> },
}

/// The files as one power cut leaves them. Printed, it says which changes were
/// lost.
pub struct Image {
    number: u64,
    position: usize,
    mark: Option<u64>,
    files: Vec<(Arc<str>, Arc<Pages>)>,
    loose: usize,
    arrived: usize,
    /// The first writes that did not arrive whole.
    listed: Vec<Loss>,
}

struct Loss {
    /// The last name that it was given.
    file: Arc<str>,
    what: Lost,
}

enum Lost {
    Write { range: Range<u64>, fate: Fate },
    Size(u64),
    Name(Arc<str>),
    Removal,
}

impl Image {
    pub(crate) fn new(replay: &Replay, number: u64, fates: &[Fate]) -> Image {
        let mut image = Image {
            number,
            position: replay.position(),
            mark: replay.mark,
            files: Vec::new(),
            loose: fates.len(),
            arrived: 0,
            listed: Vec::new(),
        };
        let mut names = replay.names.clone();
        let mut changed: Vec<Option<Pages>> = vec![None; replay.files.len()];
        // Sizes are kept in a journal: after a lost one the later ones of the
        // file are lost too.
        let mut size_lost = vec![false; replay.files.len()];
        for (loose, fate) in replay.loose.iter().zip(fates) {
            let file = loose.file as usize;
            let mut fate = fate;
            if matches!(loose.change, Change::Resize { .. }) {
                size_lost[file] |= *fate == Fate::Lost;
                if size_lost[file] {
                    fate = &Fate::Lost;
                }
            }
            image.note(replay, file, &loose.change, fate);
            if *fate == Fate::Lost {
                continue;
            }
            if let Change::Name { name } = &loose.change {
                give(&mut names, loose.file, name);
                continue;
            }
            let pages = changed[file]
                .get_or_insert_with(|| Pages::over(Arc::clone(&replay.files[file].settled)));
            apply(replay, pages, &loose.change, fate);
        }
        for ((file, name), changed) in replay.files.iter().zip(names).zip(changed) {
            if let Some(name) = name {
                let pages = changed.map_or_else(|| Arc::clone(&file.settled), Arc::new);
                image.files.push((name, pages));
            }
        }
        image
    }

    fn note(&mut self, replay: &Replay, file: usize, change: &Change, fate: &Fate) {
        if *fate == Fate::Whole {
            self.arrived += 1;
            return;
        }
        if self.listed.len() < LISTED_MAX {
            let what = match change {
                Change::Write { event, .. } => {
                    let (offset, data) = replay.data(*event);
                    let range = offset..offset + data.len() as u64;
                    let fate = fate.clone();
                    Lost::Write { range, fate }
                }
                Change::Resize { size_bytes } => Lost::Size(*size_bytes),
                Change::Name { name: Some(name) } => Lost::Name(Arc::clone(name)),
                Change::Name { name: None } => Lost::Removal,
            };
            let name = replay.files[file].known_as.clone();
            let file = name.unwrap_or_else(|| "a file without a name".into());
            self.listed.push(Loss { file, what });
        }
    }

    /// Which one of its [`Images`](super::Images).
    pub fn number(&self) -> u64 {
        self.number
    }

    /// The power was cut before the event of this number, counted from 0.
    pub fn position(&self) -> usize {
        self.position
    }

    /// The value of the last [`mark`](super::Recorder::mark) before the power
    /// cut: what had been promised by then.
    pub fn mark(&self) -> Option<u64> {
        self.mark
    }

    /// Names of the files that exist.
    pub fn names(&self) -> impl Iterator<Item = &str> {
        self.files.iter().map(|(name, _)| &**name)
    }

    /// A file's contents, to read and to change: each call gives a medium of
    /// its own, and none changes the image. `None`: there is no such file.
    pub fn open(&self, name: &str) -> Option<CowMedium> {
        let (_, pages) = self.files.iter().find(|(other, _)| **other == *name)?;
        Some(CowMedium::over(Arc::clone(pages)))
    }
}

fn apply(replay: &Replay, pages: &mut Pages, change: &Change, fate: &Fate) {
    let (event, parts) = match change {
        Change::Write { event, parts } => (*event, parts),
        Change::Resize { size_bytes } => {
            pages.resize(*size_bytes);
            return;
        }
        Change::Name { .. } => unreachable!("a name is no content"),
    };
    let (offset, data) = replay.data(event);
    let mut write = |part: Range<u64>| {
        let (from, to) = (part.start - offset, part.end - offset);
        pages.write(part.start, &data[from as usize..to as usize]);
    };
    match fate {
        Fate::Torn {
            unit_bytes,
            arrived,
        } => {
            let all = offset..offset + data.len() as u64;
            for here in units::parts(&all, *unit_bytes, arrived, true) {
                parts
                    .iter()
                    .map(|part| part.start.max(here.start)..part.end.min(here.end))
                    .filter(|part| !part.is_empty())
                    .for_each(&mut write);
            }
        }
        _ => parts.iter().cloned().for_each(write),
    }
}

impl fmt::Display for Image {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(
            f,
            "image {}: power cut before event {}",
            self.number, self.position
        )?;
        if let Some(mark) = self.mark {
            write!(f, ", after mark {mark}")?;
        }
        write!(
            f,
            "; of {} loose changes {} arrived whole",
            self.loose, self.arrived
        )?;
        for loss in &self.listed {
            write!(f, "\n  {}: ", loss.file)?;
            match &loss.what {
                Lost::Write { range, fate } => {
                    let bytes = range.end - range.start;
                    write!(f, "write of {bytes} at {} ", range.start)?;
                    write_fate(f, fate)?;
                }
                Lost::Size(bytes) => write!(f, "size of {bytes} lost")?,
                Lost::Name(name) => write!(f, "name {name} lost")?,
                Lost::Removal => write!(f, "removal lost")?,
            }
        }
        let listed = self.arrived + self.listed.len();
        if listed < self.loose {
            write!(f, "\n  and {} more", self.loose - listed)?;
        }
        Ok(())
    }
}

fn write_fate(f: &mut fmt::Formatter<'_>, fate: &Fate) -> fmt::Result {
    let Fate::Torn {
        unit_bytes,
        arrived,
    } = fate
    else {
        return write!(f, "lost");
    };
    write!(f, "torn: units ")?;
    units::list(f, arrived)?;
    write!(f, " of {unit_bytes} bytes arrived")
}
