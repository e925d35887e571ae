//! Closed loops: so many requests outstanding, each replaced when it ends.

use std::collections::BTreeMap;

use iolane_disk::{Command, Done, Kind, Model};
use proptest::prelude::*;

/// Where the requests go.
#[derive(Clone, Copy, PartialEq, Eq)]
pub enum Access {
    /// Anywhere in the file.
    Random,
    /// Through the file from its start.
    Sequential,
}

/// One experiment.
pub struct Loop {
    pub kind: Kind,
    pub access: Access,
    pub outstanding: usize,
    /// Whether a request is replaced only when all have ended.
    pub batches: bool,
    pub request_bytes: u32,
    /// The file begins here.
    pub file_offset: u64,
    pub file_bytes: u64,
    /// Ends that are left out at the start, and those that count.
    pub warm_up: u64,
    pub requests: u64,
    pub seed: u64,
}

impl Loop {
    /// Hall and Bonnet's: 16 KiB requests over a file of 10 GB, here at the
    /// outermost tracks, where a first file lies.
    pub fn paper(kind: Kind, access: Access, outstanding: usize) -> Loop {
        Loop {
            kind,
            access,
            outstanding,
            batches: false,
            request_bytes: 16 << 10,
            file_offset: 0,
            file_bytes: 10 << 30,
            warm_up: 500,
            requests: 10_000,
            seed: 1,
        }
    }
}

/// What came out.
#[derive(Debug, PartialEq)]
pub struct Outcome {
    pub mib_per_second: f64,
    pub mean_ms: f64,
    pub max_ms: f64,
}

/// Steele, Lea and Flood's generator (2014): enough to scatter requests.
pub struct SplitMix(pub u64);

impl SplitMix {
    pub fn below(&mut self, bound: u64) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut mixed = self.0;
        mixed = (mixed ^ (mixed >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        (mixed ^ (mixed >> 31)) % bound
    }
}

/// Runs it. What the disk does not take at once waits in a queue that is
/// sorted by position and swept in one direction, as Linux 2.6 did.
pub fn run(disk: &mut dyn Model, experiment: &Loop) -> Outcome {
    let slots = experiment.file_bytes / u64::from(experiment.request_bytes);
    let mut random = SplitMix(experiment.seed);
    let mut next_slot = 0;
    let mut submitted_ns = vec![0; experiment.outstanding];
    let mut waiting: BTreeMap<(u64, u32), ()> = BTreeMap::new();
    let mut swept = (0, 0);
    let mut in_disk = 0;
    let mut free: Vec<u32> = (0..experiment.outstanding as u32).collect();
    let (mut now_ns, mut begin_ns, mut ended) = (0, 0, 0);
    let (mut sum_ms, mut max_ms) = (0.0, 0.0f64);
    let mut done: Vec<Done> = Vec::new();
    loop {
        let replaced = match experiment.batches && free.len() < experiment.outstanding {
            true => 0,
            false => free.len(),
        };
        for tag in free.drain(..replaced) {
            let slot = match experiment.access {
                Access::Random => random.below(slots),
                Access::Sequential => {
                    next_slot += 1;
                    (next_slot - 1) % slots
                }
            };
            submitted_ns[tag as usize] = now_ns;
            waiting.insert((slot, tag), ());
        }
        while in_disk < disk.queue_max() && !waiting.is_empty() {
            let ahead = waiting.range(swept..).next().map(|(at, ())| *at);
            let at = ahead.unwrap_or_else(|| *waiting.first_key_value().unwrap().0);
            waiting.remove(&at);
            swept = at;
            in_disk += 1;
            let command = Command {
                tag: at.1,
                kind: experiment.kind,
                offset: experiment.file_offset + at.0 * u64::from(experiment.request_bytes),
                length: experiment.request_bytes,
                durable: false,
            };
            disk.submit(now_ns, command);
        }
        now_ns = disk.next_event_ns().expect("commands are outstanding");
        disk.advance(now_ns, &mut done);
        for end in done.drain(..) {
            assert!(end.at_ns <= now_ns);
            in_disk -= 1;
            free.push(end.tag);
            ended += 1;
            if ended > experiment.warm_up {
                let took_ms = (end.at_ns - submitted_ns[end.tag as usize]) as f64 / 1e6;
                sum_ms += took_ms;
                max_ms = max_ms.max(took_ms);
            } else if ended == experiment.warm_up {
                begin_ns = end.at_ns;
            }
        }
        if ended >= experiment.warm_up + experiment.requests {
            break;
        }
    }
    let counted = (ended - experiment.warm_up) as f64;
    let seconds = (now_ns - begin_ns) as f64 / 1e9;
    Outcome {
        mib_per_second: counted * f64::from(experiment.request_bytes) / seconds / (1 << 20) as f64,
        mean_ms: sum_ms / counted,
        max_ms,
    }
}

/// A command that [`play`] has seen end.
#[derive(Debug, PartialEq)]
pub struct Scripted {
    pub done: Done,
    pub submitted_ns: u64,
}

/// Submits commands, each so long after the one before or as soon as the
/// disk takes it, and lets everything end.
pub fn play(disk: &mut dyn Model, script: &[(u64, Command)]) -> Vec<Scripted> {
    let mut submitted_ns = vec![0; script.len()];
    let mut ends = Vec::new();
    let mut done = Vec::new();
    let (mut now_ns, mut outstanding) = (0, 0);
    for (gap_ns, command) in script {
        let due_ns = now_ns + gap_ns;
        while let Some(event_ns) = disk.next_event_ns()
            && (event_ns <= due_ns || outstanding == disk.queue_max())
        {
            assert!(event_ns >= now_ns, "events do not lie in the past");
            now_ns = event_ns;
            disk.advance(now_ns, &mut done);
            outstanding -= done.len();
            ends.append(&mut done);
        }
        now_ns = now_ns.max(due_ns);
        disk.advance(now_ns, &mut done);
        submitted_ns[command.tag as usize] = now_ns;
        disk.submit(now_ns, *command);
        outstanding += 1;
    }
    while let Some(event_ns) = disk.next_event_ns() {
        disk.advance(event_ns, &mut done);
        ends.append(&mut done);
    }
    ends.into_iter()
        .map(|done| Scripted {
            submitted_ns: submitted_ns[done.tag as usize],
            done,
        })
        .collect()
}

/// That every command of the script ended once, and they ended in order of
/// time.
pub fn each_ends_once(ends: &[Scripted], commands: usize) -> Result<(), TestCaseError> {
    let mut seen = vec![false; commands];
    let mut latest_ns = 0;
    for Scripted {
        done: Done { tag, at_ns },
        ..
    } in ends
    {
        prop_assert!(!std::mem::replace(&mut seen[*tag as usize], true));
        prop_assert!(*at_ns >= latest_ns, "in order of time");
        latest_ns = *at_ns;
    }
    prop_assert!(seen.iter().all(|seen| *seen));
    Ok(())
}

/// Up to a hundred commands on a disk of so many bytes, some of which follow
/// each other closely in time or in place.
pub fn scripts(capacity_bytes: u64) -> impl Strategy<Value = Vec<(u64, Command)>> {
    let sectors = capacity_bytes / 512;
    let gap_ns = prop_oneof![Just(0), 0..100_000u64, 0..30_000_000u64];
    let kind = prop_oneof![
        4 => Just(Kind::Read),
        4 => Just(Kind::Write),
        1 => Just(Kind::Flush),
    ];
    let first = prop_oneof![0..sectors, (0..sectors / 16).prop_map(|at| at * 16)];
    let length = prop_oneof![Just(16), 1..400u64];
    let command = (gap_ns, kind, first, length, any::<bool>());
    prop::collection::vec(command, 1..100).prop_map(move |drawn| {
        let commands = drawn.into_iter().enumerate();
        commands
            .map(|(tag, (gap_ns, kind, first, length, durable))| {
                let length = length.min(sectors - first) as u32 * 512;
                let flush = kind == Kind::Flush;
                let command = Command {
                    tag: tag as u32,
                    kind,
                    offset: if flush { 0 } else { first * 512 },
                    length: if flush { 0 } else { length },
                    durable: durable && kind == Kind::Write,
                };
                (gap_ns, command)
            })
            .collect()
    })
}
