//! Which level a request has: rules in TOML.

use std::ops::Range;

use iolane_protocol::{
    KIND_READ, KIND_SYNC, KIND_WRITE, Operation, PATTERN_BYTES_MAX, Patterns, RULES_MAX, RuleEntry,
};
use iolane_sched::{Level, Objective};
use serde::Deserialize;
use toml::Spanned;

/// Why rules were refused: what is wrong, and where.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("line {line}: {message}")]
pub struct RulesError {
    /// Counted from 1.
    pub line: usize,
    /// What is wrong.
    pub message: String,
}

/// What becomes of io_uring.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Uring {
    /// What is submitted by liburing's functions is scheduled.
    Follow,
    /// Nothing is.
    Pass,
    /// There is none for the program.
    Refuse,
}

/// Checked rules.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Rules {
    pub(crate) entries: Vec<RuleEntry>,
    pub(crate) roles: Vec<String>,
    /// What becomes of io_uring; none: the default.
    pub(crate) uring: Option<Uring>,
    /// What the windows are to reach; none: the default.
    pub(crate) objective: Option<Objective>,
    pub(crate) read_ahead_bytes: u64,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Document {
    #[serde(default)]
    io_uring: Option<Spanned<String>>,
    #[serde(default)]
    objective: Option<Spanned<String>>,
    #[serde(default)]
    rule: Vec<Spanned<RuleText>>,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct RuleText {
    role: String,
    level: Spanned<String>,
    path: Option<Spanned<OneOrMore>>,
    process: Option<Spanned<OneOrMore>>,
    thread: Option<Spanned<OneOrMore>>,
    operation: Option<Spanned<OneOrMore>>,
    asynchronous: Option<bool>,
    buffered: Option<bool>,
    #[serde(default)]
    size_min: u32,
    #[serde(default = "size_max")]
    size_max: u32,
    #[serde(default)]
    sinks: bool,
    #[serde(default)]
    paced: bool,
}

fn size_max() -> u32 {
    u32::MAX
}

#[derive(Clone, Deserialize)]
#[serde(untagged, expecting = "neither a text nor a list of texts")]
enum OneOrMore {
    One(String),
    More(Vec<String>),
}

impl OneOrMore {
    fn texts(&self) -> impl Iterator<Item = &str> {
        match self {
            OneOrMore::One(one) => std::slice::from_ref(one),
            OneOrMore::More(more) => more.as_slice(),
        }
        .iter()
        .map(String::as_str)
    }
}

impl Rules {
    /// The same of a file's bytes, which may be no text.
    ///
    /// # Errors
    /// The first thing that is wrong, with its line.
    pub fn read(bytes: &[u8]) -> Result<Rules, RulesError> {
        let text = std::str::from_utf8(bytes).map_err(|error| RulesError {
            line: line_at(bytes, error.valid_up_to()),
            message: "this is not UTF-8".to_owned(),
        })?;
        Rules::parse(text)
    }

    /// Reads and checks them.
    ///
    /// # Errors
    /// The first thing that is wrong, with its line.
    pub fn parse(text: &str) -> Result<Rules, RulesError> {
        let document: Document = toml::from_str(text).map_err(|error| RulesError {
            line: line_of(text, error.span()),
            message: error.message().to_owned(),
        })?;
        let at = |span: Range<usize>, message: String| RulesError {
            line: line_of(text, Some(span)),
            message,
        };
        let uring = match &document.io_uring {
            None => None,
            Some(word) => Some(match word.get_ref().as_str() {
                "follow" => Uring::Follow,
                "pass" => Uring::Pass,
                "refuse" => Uring::Refuse,
                other => {
                    let message =
                        format!("io_uring is '{other}'; it must be follow, pass or refuse");
                    return Err(at(word.span(), message));
                }
            }),
        };
        let objective = document
            .objective
            .map(|word| {
                let parsed = word.get_ref().parse::<Objective>();
                parsed.map_err(|error| at(word.span(), error.to_string()))
            })
            .transpose()?;
        if document.rule.len() > RULES_MAX {
            let span = document.rule[RULES_MAX].span();
            return Err(at(span, format!("there may be {RULES_MAX} rules at most")));
        }
        let mut rules = Rules {
            entries: Vec::new(),
            roles: Vec::new(),
            uring,
            objective,
            read_ahead_bytes: 0,
        };
        for rule in &document.rule {
            let entry = entry(rule.get_ref())
                .map_err(|(span, message)| at(span.unwrap_or_else(|| rule.span()), message))?;
            rules.entries.push(entry);
            rules.roles.push(rule.get_ref().role.clone());
        }
        Ok(rules)
    }

    /// The role and level of the first rule that names processes or threads and matches
    /// these names, whatever else it says. `None` where none does: what is known without
    /// looking at requests.
    pub fn of_thread(&self, command_line: &[u8], thread: &[u8]) -> Option<(&str, Level)> {
        let named = self.entries.iter().zip(&self.roles).find(|(entry, _)| {
            let names = entry.processes != Patterns::ANY || entry.threads != Patterns::ANY;
            names && entry.processes.match_text(command_line) && entry.threads.match_text(thread)
        });
        let (entry, role) = named?;
        Some((role, Level::from_index(usize::from(entry.level))?))
    }

    /// With read-ahead in the order of InnoDB's indexes, in so much memory of each process.
    #[must_use]
    pub fn reading_ahead(mut self, bytes: u64) -> Rules {
        self.read_ahead_bytes = bytes;
        self
    }

    /// These, and where none of them matches, those.
    ///
    /// # Errors
    /// There are too many together.
    pub fn before(mut self, others: &Rules) -> Result<Rules, RulesError> {
        self.entries.extend_from_slice(&others.entries);
        self.roles.extend_from_slice(&others.roles);
        self.uring = self.uring.or(others.uring);
        self.objective = self.objective.or(others.objective);
        if self.entries.len() > RULES_MAX {
            let count = self.entries.len();
            return Err(RulesError {
                line: 1,
                message: format!(
                    "{count} rules with those of the profile; there may be {RULES_MAX}"
                ),
            });
        }
        Ok(self)
    }
}

type Wrong = (Option<Range<usize>>, String);

fn entry(rule: &RuleText) -> Result<RuleEntry, Wrong> {
    if rule.size_min > rule.size_max {
        return Err((None, "size_min is more than size_max".to_owned()));
    }
    if rule.role.is_empty() {
        return Err((None, "role is empty".to_owned()));
    }
    Ok(RuleEntry {
        paths: patterns("path", rule.path.as_ref())?,
        processes: patterns("process", rule.process.as_ref())?,
        threads: patterns("thread", rule.thread.as_ref())?,
        operations: operations(rule)?,
        level: level(&rule.level)?,
        sinks: rule.sinks,
        paced: rule.paced,
        length_min: rule.size_min,
        length_max: rule.size_max,
    })
}

fn level(word: &Spanned<String>) -> Result<u8, Wrong> {
    let name = word.get_ref();
    let found = Level::ALL.iter().find(|level| level.name() == name);
    let names = Level::ALL.map(Level::name).join(", ");
    match found {
        Some(level) => Ok(level.index() as u8),
        None => Err((
            Some(word.span()),
            format!("there is no level '{name}'; use one of {names}"),
        )),
    }
}

fn patterns(what: &str, texts: Option<&Spanned<OneOrMore>>) -> Result<Patterns, Wrong> {
    let Some(texts) = texts else {
        return Ok(Patterns::ANY);
    };
    let wrong = |message: String| (Some(texts.span()), message);
    if texts.get_ref().texts().next().is_none() {
        return Err(wrong(format!("{what} is empty: nothing would match")));
    }
    Patterns::new(texts.get_ref().texts()).ok_or_else(|| {
        wrong(format!(
            "{what} has an empty pattern, or more than {PATTERN_BYTES_MAX} bytes"
        ))
    })
}

fn operations(rule: &RuleText) -> Result<u16, Wrong> {
    let mut kinds = [true; 3];
    if let Some(words) = &rule.operation {
        if words.get_ref().texts().next().is_none() {
            let message = "operation is empty: nothing would match".to_owned();
            return Err((Some(words.span()), message));
        }
        kinds = [false; 3];
        for word in words.get_ref().texts() {
            let kind = match word {
                "read" => KIND_READ,
                "write" => KIND_WRITE,
                "sync" => KIND_SYNC,
                _ => {
                    let message = format!("there is no operation '{word}'; use read, write, sync");
                    return Err((Some(words.span()), message));
                }
            };
            kinds[kind as usize] = true;
        }
    }
    let matches = |operation: &Operation| {
        kinds[operation.kind as usize]
            && rule
                .asynchronous
                .is_none_or(|wanted| wanted == operation.asynchronous)
            && rule
                .buffered
                .is_none_or(|wanted| wanted == operation.buffered)
    };
    Ok(Operation::all()
        .filter(matches)
        .fold(0, |bits, operation| bits | 1 << operation.index()))
}

fn line_of(text: &str, span: Option<Range<usize>>) -> usize {
    let start = span.map_or(0, |span| span.start.min(text.len()));
    line_at(text.as_bytes(), start)
}

/// The line of what is there, counted from 1.
fn line_at(text: &[u8], at: usize) -> usize {
    text[..at].iter().filter(|&&byte| byte == b'\n').count() + 1
}

#[cfg(test)]
mod tests {
    use super::*;

    fn error(text: &str) -> String {
        Rules::parse(text).unwrap_err().to_string()
    }

    #[test]
    fn threads_have_the_level_of_the_first_rule_that_names_them() {
        let text = "[[rule]]\nrole = 'all'\nlevel = 'critical'\n\
                    [[rule]]\nrole = 'compaction'\npath = '*.sst'\nthread = 'low*'\nlevel = 'background'\n\
                    [[rule]]\nrole = 'vacuum'\nprocess = '*vacuum*'\nlevel = 'prefetch'\n";
        let rules = Rules::parse(text).unwrap();
        let of = |line: &[u8], thread: &[u8]| rules.of_thread(line, thread);
        assert_eq!(of(b"db", b"low0"), Some(("compaction", Level::Background)));
        assert_eq!(
            of(b"postgres: vacuum", b"x"),
            Some(("vacuum", Level::Prefetch))
        );
        assert_eq!(of(b"db", b"x"), None);
    }

    #[test]
    fn a_rule_says_what_it_matches() {
        let text = "[[rule]]\nrole = 'log'\npath = ['ib_log*', 'x']\noperation = 'write'\n\
                    asynchronous = false\nlevel = 'critical'\n";
        let rules = Rules::parse(text).unwrap();
        let operation = Operation {
            kind: KIND_WRITE,
            asynchronous: false,
            buffered: true,
        };
        let direct = Operation {
            buffered: false,
            ..operation
        };
        let bits = 1 << operation.index() | 1 << direct.index();
        assert_eq!(rules.entries[0].operations, bits);
        assert_eq!(rules.entries[0].level, 0);
        assert_eq!(rules.roles, ["log"]);
    }

    #[test]
    fn errors_have_their_line() {
        let rule = "[[rule]]\nrole = 'log'\n";
        assert!(error("[[rule]\n").starts_with("line 1: "));
        assert_eq!(
            error(&format!("{rule}level = 'hot'\n")),
            "line 3: there is no level 'hot'; use one of critical, foreground, normal, prefetch, background"
        );
        assert!(error(&format!("{rule}lvel = 'normal'\n")).contains("lvel"));
        assert!(error(rule).contains("level"));
        let with = |more: &str| error(&format!("{rule}level = 'normal'\n{more}\n"));
        assert!(with("operation = ['read', 'seek']").starts_with("line 4: there is no operation"));
        assert!(with("path = []").starts_with("line 4: path is empty"));
        assert!(with("operation = []").starts_with("line 4: operation is empty"));
        assert_eq!(
            with("path = 5"),
            "line 4: neither a text nor a list of texts"
        );
        assert!(with("path = ['']").starts_with("line 4: path has"));
        assert!(with("size_min = 2\nsize_max = 1").contains("size_min is more"));
        assert!(error("\nio_uring = 'no'\n").starts_with("line 2: io_uring is 'no'"));
        assert!(error("objective = 'fast'\n").starts_with("line 1: 'fast' is not an objective"));
        let latin = Rules::read(b"# first\n[[rule]] # \xfc\n").unwrap_err();
        assert_eq!(latin.to_string(), "line 2: this is not UTF-8");
        let many = format!("{rule}level = 'normal'\n").repeat(RULES_MAX + 1);
        assert!(error(&many).contains("64 rules"));
    }

    #[test]
    fn the_objective_of_own_rules_counts() {
        let own = Rules::parse("objective = 'latency=5ms'\n").unwrap();
        let other = Rules::parse("objective = 'slowdown=2'\n").unwrap();
        let merged = own.before(&other).unwrap();
        assert_eq!(merged.objective, Some(Objective::Latency(5_000_000)));
        let none = Rules::parse("").unwrap().before(&other).unwrap();
        assert_eq!(none.objective, Some(Objective::Slowdown(200)));
    }

    #[test]
    fn own_rules_come_before_those_of_a_profile() {
        let one = "[[rule]]\nrole = 'a'\nlevel = 'normal'\n";
        let rules = Rules::parse(one).unwrap();
        let other = Rules::parse(&one.replace("'a'", "'b'")).unwrap();
        assert_eq!(rules.clone().before(&other).unwrap().roles, ["a", "b"]);
        let many = Rules::parse(&one.repeat(RULES_MAX)).unwrap();
        assert!(rules.before(&many).is_err());
    }
}
