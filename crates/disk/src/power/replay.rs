//! Goes through a recording, and knows at every moment what is durable and
//! what may or may not be on the disk.

use super::cow::Pages;
use super::recorder::{Event, Promise, Recording};
use std::ops::Range;
use std::sync::Arc;

/// Something that was handed to the disk and that a power cut may take.
#[derive(Clone, Debug)]
pub(crate) struct Loose {
    pub file: u32,
    operation: u32,
    promise: Promise,
    /// Position of its end.
    ended_at: Option<usize>,
    pub change: Change,
}

#[derive(Clone, Debug)]
pub(crate) enum Change {
    /// The write at this position, as far as nothing durable replaced it.
    Write {
        event: usize,
        parts: Vec<Range<u64>>,
    },
    Resize {
        size_bytes: u64,
    },
    /// Of the directory, which is synced apart from the file.
    Name {
        name: Option<Arc<str>>,
    },
}

#[derive(Clone)]
pub(crate) struct FileState {
    /// The last name that it was given, to speak of it.
    pub known_as: Option<Arc<str>>,
    /// With everything that is durable.
    pub settled: Arc<Pages>,
}

struct PendingSync {
    file: u32,
    operation: u32,
    begun_at: usize,
}

pub(crate) struct Replay {
    recording: Recording,
    /// The events before it have happened.
    position: usize,
    pub files: Vec<FileState>,
    /// Those that are durable, by file.
    pub names: Vec<Option<Arc<str>>>,
    /// In the order in which they were handed over.
    pub loose: Vec<Loose>,
    syncs: Vec<PendingSync>,
    pub mark: Option<u64>,
}

impl Replay {
    /// Before everything.
    pub(crate) fn new(recording: &Recording) -> Replay {
        Replay {
            files: recording
                .starts
                .iter()
                .map(|start| FileState {
                    known_as: None,
                    settled: Arc::new(Pages::over(Arc::clone(start))),
                })
                .collect(),
            names: vec![None; recording.starts.len()],
            recording: recording.clone(),
            position: 0,
            loose: Vec::new(),
            syncs: Vec::new(),
            mark: None,
        }
    }

    pub(crate) fn position(&self) -> usize {
        self.position
    }

    /// The data of the write at `event`.
    pub(crate) fn data(&self, event: usize) -> (u64, &[u8]) {
        match &self.recording.events[event] {
            Event::Write { offset, data, .. } => (*offset, data),
            _ => unreachable!("a loose write names the event of a write"),
        }
    }

    pub(crate) fn advance_to(&mut self, position: usize) {
        while self.position < position {
            self.step();
        }
    }

    /// Whether the next event changes what a power cut can leave: before it is
    /// a moment worth to look at. Others only tell what happened.
    pub(crate) fn at_boundary(&self) -> bool {
        match self.recording.events.get(self.position) {
            None => true,
            Some(Event::Name { .. } | Event::Write { .. } | Event::Resize { .. }) => true,
            Some(Event::SyncNames) => self.loose.iter().any(Loose::is_name),
            Some(Event::Sync { .. } | Event::Mark { .. }) => false,
            Some(Event::End { operation }) => {
                let of = |pending: &PendingSync| pending.operation == *operation;
                let durable =
                    |loose: &Loose| loose.promise.durable && loose.operation == *operation;
                self.syncs.iter().any(of) || self.loose.iter().any(durable)
            }
        }
    }

    fn step(&mut self) {
        let at = self.position;
        self.position += 1;
        match &self.recording.events[at] {
            Event::Name {
                file,
                name,
                durable,
            } => {
                if name.is_some() {
                    self.files[*file as usize].known_as.clone_from(name);
                }
                self.loose.push(Loose {
                    file: *file,
                    operation: 0,
                    promise: Promise::default(),
                    ended_at: Some(at),
                    change: Change::Name { name: name.clone() },
                });
                if *durable {
                    self.settle(Loose::is_name);
                }
            }
            Event::SyncNames => self.settle(Loose::is_name),
            Event::Write {
                file,
                operation,
                promise,
                offset,
                data,
            } => {
                let range = *offset..offset + data.len() as u64;
                self.loose.push(Loose {
                    file: *file,
                    operation: *operation,
                    promise: *promise,
                    ended_at: None,
                    change: Change::Write {
                        event: at,
                        parts: vec![range],
                    },
                });
            }
            Event::Resize { file, size_bytes } => self.loose.push(Loose {
                file: *file,
                operation: 0,
                promise: Promise::default(),
                ended_at: Some(at),
                change: Change::Resize {
                    size_bytes: *size_bytes,
                },
            }),
            Event::Sync { file, operation } => self.syncs.push(PendingSync {
                file: *file,
                operation: *operation,
                begun_at: at,
            }),
            Event::End { operation } => self.end(at, *operation),
            Event::Mark { value } => self.mark = Some(*value),
        }
    }

    fn end(&mut self, at: usize, operation: u32) {
        let mut durable = false;
        for loose in &mut self.loose {
            if loose.operation == operation {
                loose.ended_at = Some(at);
                durable |= loose.promise.durable;
            }
        }
        if durable {
            self.settle(|loose| loose.promise.durable && loose.operation == operation);
        }
        while let Some(found) = self
            .syncs
            .iter()
            .position(|sync| sync.operation == operation)
        {
            let sync = self.syncs.remove(found);
            self.settle(|loose| {
                loose.file == sync.file
                    && !loose.is_name()
                    && loose.ended_at.is_some_and(|end| end < sync.begun_at)
            });
        }
    }

    /// Makes durable what is covered, in order.
    fn settle(&mut self, is_covered: impl Fn(&Loose) -> bool) {
        let mut covered: Vec<bool> = self.loose.iter().map(is_covered).collect();
        // A file's size is kept in a journal, in order: what is durable has
        // all earlier changes of the size with it.
        let mut files = Vec::new();
        for (loose, covered) in self.loose.iter().zip(&mut covered).rev() {
            if *covered && !loose.is_name() {
                files.push(loose.file);
            } else if matches!(loose.change, Change::Resize { .. }) {
                *covered = files.contains(&loose.file);
            }
        }
        let loose = std::mem::take(&mut self.loose);
        let mut left: Vec<Loose> = Vec::new();
        for (one, covered) in loose.into_iter().zip(covered) {
            if !covered {
                left.push(one);
                continue;
            }
            let older = left.iter_mut().filter(|older| older.file == one.file);
            match &one.change {
                Change::Write { event, parts } => {
                    older.for_each(|older| {
                        for part in parts {
                            older.cut_out(part.clone());
                        }
                    });
                    self.settle_write(one.file, *event, parts);
                }
                Change::Resize { size_bytes } => {
                    older.for_each(|older| older.cut_out(*size_bytes..u64::MAX));
                    let file = &mut self.files[one.file as usize];
                    Arc::make_mut(&mut file.settled).resize(*size_bytes);
                }
                Change::Name { name } => give(&mut self.names, one.file, name),
            }
        }
        left.retain(|loose| match &loose.change {
            Change::Write { parts, .. } => !parts.is_empty(),
            Change::Resize { .. } | Change::Name { .. } => true,
        });
        self.loose = left;
    }

    fn settle_write(&mut self, file: u32, event: usize, parts: &[Range<u64>]) {
        let Event::Write { offset, data, .. } = &self.recording.events[event] else {
            unreachable!("a loose write names the event of a write");
        };
        let settled = Arc::make_mut(&mut self.files[file as usize].settled);
        for part in parts {
            let (from, to) = (part.start - offset, part.end - offset);
            settled.write(part.start, &data[from as usize..to as usize]);
        }
    }
}

/// Gives a file a name, which nobody else has then.
pub(crate) fn give(names: &mut [Option<Arc<str>>], file: u32, name: &Option<Arc<str>>) {
    for other in names.iter_mut().filter(|other| *other == name) {
        *other = None;
    }
    names[file as usize].clone_from(name);
}

impl Loose {
    fn is_name(&self) -> bool {
        matches!(self.change, Change::Name { .. })
    }

    /// Does it arrive whole or not at all?
    pub(crate) fn is_whole(&self) -> bool {
        self.promise.whole
    }

    /// Something newer is durable in this range.
    fn cut_out(&mut self, range: Range<u64>) {
        let Change::Write { parts, .. } = &mut self.change else {
            return;
        };
        if parts
            .iter()
            .any(|part| part.start < range.end && part.end > range.start)
        {
            *parts = parts
                .iter()
                .flat_map(|part| {
                    let before = part.start..part.end.min(range.start);
                    let after = part.start.max(range.end)..part.end;
                    [before, after]
                })
                .filter(|part| !part.is_empty())
                .collect();
        }
    }
}
