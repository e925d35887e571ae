//! A unit as it is installed: its file, and its drop-ins.

use std::fs;
use std::path::{Path, PathBuf};

use super::DROP_IN;

/// The part of a unit that says how its service runs.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Unit {
    /// Such as `mariadb.service`.
    pub name: String,
    /// Of its file.
    pub path: String,
    /// Settings of `[Service]` in their order: name and value.
    settings: Vec<(String, String)>,
}

impl Unit {
    /// From the texts of its file and of its drop-ins.
    pub fn parse<'a>(name: &str, path: &str, texts: impl IntoIterator<Item = &'a str>) -> Unit {
        let mut unit = Unit {
            name: name.to_owned(),
            path: path.to_owned(),
            settings: Vec::new(),
        };
        for text in texts {
            unit.add(text);
        }
        unit
    }

    /// Settings of a text, in the format of systemd.syntax(7).
    fn add(&mut self, text: &str) {
        let mut is_service = false;
        let mut lines = text.lines();
        while let Some(line) = lines.next() {
            if line.starts_with(['#', ';']) {
                continue;
            }
            let mut whole = line.trim().to_owned();
            while let Some(begun) = whole.strip_suffix('\\') {
                let next = lines.find(|line| !line.starts_with(['#', ';']));
                whole = format!("{} {}", begun.trim_end(), next.unwrap_or_default().trim());
            }
            if whole.starts_with('[') {
                is_service = whole == "[Service]";
            } else if let Some((key, value)) = whole.split_once('=').filter(|_| is_service) {
                let (key, value) = (key.trim(), value.trim());
                if value.is_empty() {
                    // An empty value forgets those before.
                    self.settings.retain(|(known, _)| known != key);
                } else {
                    self.settings.push((key.to_owned(), value.to_owned()));
                }
            }
        }
    }

    /// All values of a setting.
    pub fn all<'a>(&'a self, key: &'a str) -> impl Iterator<Item = &'a str> {
        let of_key = self.settings.iter().filter(move |(known, _)| known == key);
        of_key.map(|(_, value)| value.as_str())
    }

    /// The value that counts where there can be one.
    pub fn last<'a>(&'a self, key: &'a str) -> Option<&'a str> {
        self.all(key).last()
    }
}

/// Looks for it in the folders; `None` if it is in none of them.
pub fn read(name: &str, folders: &[&Path]) -> Option<Unit> {
    let (path, text) = folders.iter().find_map(|folder| {
        let path = folder.join(name);
        Some((path.clone(), fs::read_to_string(path).ok()?))
    })?;
    let mut texts = vec![text];
    texts.extend(drop_ins(name, folders));
    let texts = texts.iter().map(String::as_str);
    Some(Unit::parse(name, &path.display().to_string(), texts))
}

/// In the order of their names; of two with the same name, the one of the first folder.
fn drop_ins(name: &str, folders: &[&Path]) -> Vec<String> {
    let mut found: Vec<PathBuf> = Vec::new();
    for folder in folders {
        let entries = fs::read_dir(folder.join(format!("{name}.d")));
        let paths = entries
            .into_iter()
            .flatten()
            .flatten()
            .map(|entry| entry.path());
        for path in paths {
            let is_known = found
                .iter()
                .any(|other| other.file_name() == path.file_name());
            let is_one = path
                .extension()
                .is_some_and(|extension| extension == "conf");
            let is_own = path.file_name().is_some_and(|name| name == DROP_IN);
            if is_one && !is_own && !is_known {
                found.push(path);
            }
        }
    }
    found.sort_by(|one, other| one.file_name().cmp(&other.file_name()));
    let texts = found
        .iter()
        .filter_map(|path| fs::read_to_string(path).ok());
    texts.collect()
}
