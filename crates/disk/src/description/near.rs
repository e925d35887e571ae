//! Names that somebody may have meant.

/// More is a list, not a hint.
pub(super) const NEAR_MAX: usize = 3;

/// Names that are like `name`, the likest first; all of them when none is.
pub(super) fn choose<'a>(name: &str, names: impl Iterator<Item = &'a str>) -> Vec<String> {
    let mut ranked: Vec<(usize, &str)> =
        names.map(|other| (distance(name, other), other)).collect();
    let all = || {
        ranked
            .iter()
            .map(|(_, other)| (*other).to_owned())
            .collect()
    };
    let is_near = |(distance, other): &(usize, &str)| {
        *distance <= name.len().max(other.len()) / 3
            || (name.len() >= 3 && (other.contains(name) || name.contains(other)))
    };
    if !ranked.iter().any(is_near) {
        return all();
    }
    ranked.sort();
    ranked
        .into_iter()
        .filter(is_near)
        .take(NEAR_MAX)
        .map(|(_, other)| other.to_owned())
        .collect()
}

/// Characters to insert, remove or replace to turn one into the other
/// (Levenshtein's distance), `-` and `_` being the same.
fn distance(one: &str, other: &str) -> usize {
    let plain =
        |text: &str| -> Vec<char> { text.to_lowercase().replace('_', "-").chars().collect() };
    let (one, other) = (plain(one), plain(other));
    let mut row: Vec<usize> = (0..=other.len()).collect();
    for (index, character) in one.iter().enumerate() {
        let mut diagonal = row[0];
        row[0] = index + 1;
        for column in 0..other.len() {
            let replaced = diagonal + usize::from(*character != other[column]);
            diagonal = row[column + 1];
            row[column + 1] = replaced.min(diagonal + 1).min(row[column] + 1);
        }
    }
    row[other.len()]
}

#[cfg(test)]
mod tests {
    use super::*;

    const NAMES: [&str; 4] = ["nvme-ssd", "sata-ssd", "aws-gp3", "aws-gp2-100g"];

    #[test]
    fn the_likest_names_come_first() {
        assert_eq!(choose("nvme_sd", NAMES.into_iter())[0], "nvme-ssd");
        assert_eq!(choose("gp3", NAMES.into_iter()), ["aws-gp3"]);
        assert_eq!(
            choose("aws-gp2", NAMES.into_iter()),
            ["aws-gp3", "aws-gp2-100g"]
        );
    }

    #[test]
    fn all_names_are_listed_when_none_is_like_it() {
        assert_eq!(choose("floppy", NAMES.into_iter()), NAMES);
    }

    #[test]
    fn distances_count_edits() {
        assert_eq!(distance("kitten", "sitting"), 3);
        assert_eq!(distance("", "abc"), 3);
        assert_eq!(distance("a_b", "A-b"), 0);
    }
}
