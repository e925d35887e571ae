//! What a request's level goes by, in a form that needs no memory of its own.

use crate::{KIND_READ, KIND_SYNC, KIND_WRITE, RULES_MAX};

/// Priority levels.
pub const LEVELS: usize = 5;
/// The rule of a request that no rule matches.
pub const UNRULED: u8 = 255;
/// The level of a request that no rule matches: `Normal`.
const LEVEL_UNRULED: u8 = 2;
/// All patterns of one kind of a rule, with a zero after each.
pub const PATTERN_BYTES_MAX: usize = 192;

/// Patterns, each ended by a zero. None: everything matches.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(C)]
pub struct Patterns {
    bytes: [u8; PATTERN_BYTES_MAX],
}

impl Patterns {
    /// Matches everything.
    pub const ANY: Patterns = Patterns {
        bytes: [0; PATTERN_BYTES_MAX],
    };

    /// `None` if they are too long together, or one is empty or holds a zero.
    pub fn new<'a>(patterns: impl IntoIterator<Item = &'a str>) -> Option<Patterns> {
        let mut made = Patterns::ANY;
        let mut at = 0;
        for pattern in patterns {
            let bytes = pattern.as_bytes();
            if bytes.is_empty() || bytes.contains(&0) || at + bytes.len() >= PATTERN_BYTES_MAX {
                return None;
            }
            made.bytes[at..][..bytes.len()].copy_from_slice(bytes);
            at += bytes.len() + 1;
        }
        Some(made)
    }

    /// Whether one of them matches. One without a slash is held against what
    /// follows the text's last slash.
    pub fn match_path(&self, path: &[u8]) -> bool {
        let name = path.rsplit(|&byte| byte == b'/').next().unwrap_or(path);
        self.any(|pattern| {
            let text = if pattern.contains(&b'/') { path } else { name };
            glob_matches(pattern, text)
        })
    }

    /// Whether one of them matches the text.
    pub fn match_text(&self, text: &[u8]) -> bool {
        self.any(|pattern| glob_matches(pattern, text))
    }

    fn any(&self, matches: impl Fn(&[u8]) -> bool) -> bool {
        let mut patterns = self.bytes.split(|&byte| byte == 0).peekable();
        if patterns.peek().is_none_or(|first| first.is_empty()) {
            return true;
        }
        patterns
            .take_while(|pattern| !pattern.is_empty())
            .any(matches)
    }
}

/// What a request does and how.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Operation {
    /// [`KIND_READ`], [`KIND_WRITE`] or [`KIND_SYNC`].
    pub kind: u8,
    /// Its thread does not wait for it.
    pub asynchronous: bool,
    /// Through the page cache.
    pub buffered: bool,
}

impl Operation {
    /// How many there are.
    pub const COUNT: usize = 12;

    /// Each has a number.
    pub const fn index(self) -> usize {
        self.kind as usize * 4 + (self.asynchronous as usize) * 2 + self.buffered as usize
    }

    /// All of them, by number.
    pub fn all() -> impl Iterator<Item = Operation> {
        let kinds = [KIND_READ, KIND_WRITE, KIND_SYNC].into_iter();
        kinds.flat_map(|kind| {
            (0..4).map(move |bits| Operation {
                kind,
                asynchronous: bits & 2 != 0,
                buffered: bits & 1 != 0,
            })
        })
    }
}

/// One rule.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(C)]
pub struct RuleEntry {
    /// Paths of files.
    pub paths: Patterns,
    /// Command lines of processes.
    pub processes: Patterns,
    /// Names of threads.
    pub threads: Patterns,
    /// Bits by [`Operation::index`].
    pub operations: u16,
    /// 0 (most urgent) to 4.
    pub level: u8,
    /// Threads that read much sink below the level.
    pub sinks: bool,
    /// A sync is preceded by writing back, at this level, what was written.
    pub paced: bool,
    /// Least bytes.
    pub length_min: u32,
    /// Most bytes.
    pub length_max: u32,
}

/// All rules. The first that matches counts.
#[repr(C)]
pub struct RuleTable {
    count: u32,
    /// `io_uring_queue_init` fails as on a kernel without io_uring.
    pub refuses_uring: bool,
    /// Requests that are submitted by liburing's functions are scheduled.
    pub follows_uring: bool,
    /// Memory with which a process reads ahead in the order of InnoDB's indexes; 0: it does not.
    pub read_ahead_bytes: u64,
    by_operation: [u64; Operation::COUNT],
    rules: [RuleEntry; RULES_MAX],
}

impl RuleTable {
    /// The broker writes them, before any process comes. Those beyond
    /// [`RULES_MAX`] are dropped: who calls has counted.
    pub fn fill(&mut self, rules: &[RuleEntry]) {
        let count = rules.len().min(RULES_MAX);
        self.rules[..count].copy_from_slice(&rules[..count]);
        self.count = count as u32;
        for operation in Operation::all() {
            let bit = 1 << operation.index();
            self.by_operation[operation.index()] = self.mask(|rule| rule.operations & bit != 0);
        }
    }

    fn rules(&self) -> &[RuleEntry] {
        &self.rules[..(self.count as usize).min(RULES_MAX)]
    }

    fn mask(&self, matches: impl Fn(&RuleEntry) -> bool) -> u64 {
        let rules = self.rules().iter().enumerate();
        rules.fold(0, |mask, (index, rule)| {
            mask | u64::from(matches(rule)) << index
        })
    }

    /// The rules that match a file, one bit each.
    pub fn of_path(&self, path: &[u8]) -> u64 {
        self.mask(|rule| rule.paths.match_path(path))
    }

    /// The rules that match a process.
    pub fn of_process(&self, command_line: &[u8]) -> u64 {
        self.mask(|rule| rule.processes.match_text(command_line))
    }

    /// The rules that match a thread.
    pub fn of_thread(&self, name: &[u8]) -> u64 {
        self.mask(|rule| rule.threads.match_text(name))
    }

    /// Whether no rule asks for a thread's name.
    pub fn ignores_threads(&self) -> bool {
        self.rules()
            .iter()
            .all(|rule| rule.threads == Patterns::ANY)
    }

    /// Whether threads that read much through the page cache sink by one of the rules in `mask`.
    pub fn sinks_buffered(&self, mask: u64) -> bool {
        let read = Operation {
            kind: KIND_READ,
            asynchronous: false,
            buffered: true,
        };
        self.mask(|rule| rule.sinks) & mask & self.by_operation[read.index()] != 0
    }

    /// The first rule in `mask` that matches the operation, and its number.
    pub fn find(&self, mask: u64, operation: Operation, length: u32) -> Option<(u8, &RuleEntry)> {
        let mut mask = mask & self.by_operation[operation.index()];
        while mask != 0 {
            let index = mask.trailing_zeros() as usize;
            let rule = self.rules().get(index)?;
            if (rule.length_min..=rule.length_max).contains(&length) {
                return Some((index as u8, rule));
            }
            mask &= mask - 1;
        }
        None
    }

    /// The level of a request that no rule matches.
    pub const fn level_unruled() -> u8 {
        LEVEL_UNRULED
    }
}

/// Whether `*` (any text) and `?` (one byte) in the pattern can be filled so that
/// it is the text. Takes no more steps than the product of the lengths.
pub fn glob_matches(pattern: &[u8], text: &[u8]) -> bool {
    let (mut at, mut from) = (0, 0);
    // Where to go on if what follows the last star does not fit.
    let mut retry: Option<(usize, usize)> = None;
    while from < text.len() {
        match pattern.get(at) {
            Some(b'*') => {
                retry = Some((at + 1, from));
                at += 1;
            }
            Some(&byte) if byte == b'?' || byte == text[from] => {
                at += 1;
                from += 1;
            }
            _ => {
                let Some((after_star, tried)) = retry else {
                    return false;
                };
                retry = Some((after_star, tried + 1));
                (at, from) = (after_star, tried + 1);
            }
        }
    }
    pattern[at..].iter().all(|&byte| byte == b'*')
}

#[cfg(test)]
mod tests {
    use super::*;

    fn rule(path: &str, operations: u16, level: u8) -> RuleEntry {
        RuleEntry {
            paths: Patterns::new([path]).unwrap(),
            processes: Patterns::ANY,
            threads: Patterns::ANY,
            operations,
            level,
            sinks: false,
            paced: false,
            length_min: 0,
            length_max: u32::MAX,
        }
    }

    fn table(rules: &[RuleEntry]) -> Box<RuleTable> {
        let mut table = Box::new(RuleTable {
            count: 0,
            refuses_uring: false,
            follows_uring: false,
            read_ahead_bytes: 0,
            by_operation: [0; Operation::COUNT],
            rules: [rule("x", 0, 0); RULES_MAX],
        });
        table.fill(rules);
        table
    }

    #[test]
    fn globs() {
        let yes = [
            ("*", ""),
            ("*.ibd", "t.ibd"),
            ("a*b*c", "a-b-bc"),
            ("?x", "ax"),
            ("**", "q"),
        ];
        let no = [("", "a"), ("*.ibd", "t.ibdx"), ("?x", "x"), ("a*b", "ab-")];
        for (pattern, text) in yes {
            assert!(
                glob_matches(pattern.as_bytes(), text.as_bytes()),
                "{pattern}"
            );
        }
        for (pattern, text) in no {
            assert!(
                !glob_matches(pattern.as_bytes(), text.as_bytes()),
                "{pattern}"
            );
        }
    }

    #[test]
    fn a_pattern_with_a_slash_sees_the_whole_path() {
        let patterns = Patterns::new(["ib_logfile*", "*/mysql/*.ibd"]).unwrap();
        assert!(patterns.match_path(b"/var/ib_logfile0"));
        assert!(patterns.match_path(b"/var/mysql/t.ibd"));
        assert!(!patterns.match_path(b"/var/other/t.ibd"));
        assert!(Patterns::ANY.match_path(b"/x"));
        assert!(Patterns::ANY.match_path(b""));
        assert!(Patterns::new(["x", "*"]).unwrap().match_path(b""));
        let named = ["?", "/*", "*/*", "*x"];
        assert!(!Patterns::new(named).unwrap().match_path(b""));
        assert_eq!(Patterns::new(["a".repeat(192).as_str()]), None);
        assert_eq!(Patterns::new([""]), None);
    }

    #[test]
    fn the_first_rule_that_matches_everything_counts() {
        let write = Operation {
            kind: KIND_WRITE,
            asynchronous: false,
            buffered: false,
        };
        let read = Operation {
            kind: KIND_READ,
            ..write
        };
        let mut small = rule("*.ibd", 1 << write.index(), 1);
        small.length_max = 4096;
        let table = table(&[small, rule("*", u16::MAX, 4)]);
        let mask = table.of_path(b"/d/t.ibd");
        let level = |operation, length| table.find(mask, operation, length).unwrap().1.level;
        assert_eq!(level(write, 4096), 1);
        assert_eq!(level(write, 4097), 4);
        assert_eq!(level(read, 1), 4);
        assert_eq!(table.find(0, read, 1), None);
    }

    /// A rule for other reads does not end the kernel's read-ahead.
    #[test]
    fn only_rules_for_buffered_reads_make_a_file_one_of_scans() {
        let sinking = |kind, asynchronous, buffered| {
            let operation = Operation {
                kind,
                asynchronous,
                buffered,
            };
            RuleEntry {
                sinks: true,
                ..rule("*", 1 << operation.index(), 1)
            }
        };
        let others = [
            sinking(KIND_READ, false, false),
            sinking(KIND_READ, true, true),
            sinking(KIND_WRITE, false, true),
        ];
        assert!(!table(&others).sinks_buffered(u64::MAX));
        let table = table(&[sinking(KIND_READ, false, true)]);
        assert!(table.sinks_buffered(1));
        assert!(!table.sinks_buffered(2), "another rule's");
    }

    #[test]
    fn every_operation_has_a_number() {
        assert_eq!(Operation::all().map(Operation::index).max(), Some(11));
    }
}
