//! Rules that ship with the program.

/// Name, what runs under it, and rules in TOML.
pub struct Profile {
    /// As in `--profile NAME`.
    pub name: &'static str,
    /// Programs that it is for, by their files' names.
    programs: &'static [&'static str],
    /// As in `--rules FILE`.
    pub text: &'static str,
}

/// All of them.
pub const PROFILES: [Profile; 6] = [
    Profile {
        name: "mariadb",
        programs: &["mariadbd", "mariadbd-safe", "mariadb-backup"],
        text: include_str!("../profiles/mariadb.toml"),
    },
    Profile {
        name: "mysql",
        programs: &["mysqld", "mysqld_safe"],
        // InnoDB's files have the same names.
        text: include_str!("../profiles/mariadb.toml"),
    },
    Profile {
        name: "postgresql",
        programs: &["postgres", "postmaster", "pg_ctl", "pg_ctlcluster"],
        text: include_str!("../profiles/postgresql.toml"),
    },
    Profile {
        name: "rocksdb",
        programs: &["db_bench", "ldb", "sst_dump"],
        text: include_str!("../profiles/rocksdb.toml"),
    },
    Profile {
        name: "sqlite",
        programs: &["sqlite3"],
        text: include_str!("../profiles/sqlite.toml"),
    },
    GENERIC,
];

/// For all other programs: by what a request is, whatever file it is for.
pub const GENERIC: Profile = Profile {
    name: "generic",
    programs: &[],
    text: include_str!("../profiles/generic.toml"),
};

/// The profile for a command: the first word of which a program's name is the last
/// part of the path, so that wrappers (`taskset`, `sudo -u mysql`) do not matter.
pub fn profile_of<'a>(words: impl IntoIterator<Item = &'a str>) -> Option<&'static Profile> {
    words.into_iter().find_map(|word| {
        let name = word.rsplit('/').next().unwrap_or(word);
        PROFILES
            .iter()
            .find(|profile| profile.programs.contains(&name))
    })
}

#[cfg(test)]
mod tests {
    use iolane_protocol::Operation;

    use super::*;
    use crate::Rules;

    #[test]
    fn every_profile_has_rules_that_are_right() {
        for profile in &PROFILES {
            if let Err(error) = Rules::parse(profile.text) {
                panic!("{}: {error}", profile.name);
            }
        }
    }

    /// All sizes of all operations have a role: the report says what a program did.
    #[test]
    fn the_generic_profile_leaves_nothing_out() {
        let rules = Rules::parse(GENERIC.text).unwrap();
        for operation in Operation::all() {
            for length in [0, 1, 65_536, 65_537, u32::MAX] {
                let bit = 1 << operation.index();
                let matches = rules.entries.iter().any(|rule| {
                    rule.operations & bit != 0
                        && (rule.length_min..=rule.length_max).contains(&length)
                });
                assert!(matches, "{operation:?} {length}");
            }
        }
    }

    #[test]
    fn a_command_is_recognised_behind_wrappers() {
        let of = |line: &str| profile_of(line.split(' ')).map(|profile| profile.name);
        assert_eq!(of("/usr/sbin/mariadbd --x"), Some("mariadb"));
        assert_eq!(of("taskset 1 mysqld"), Some("mysql"));
        assert_eq!(of("sqlite3 x.db"), Some("sqlite"));
        assert_eq!(
            of("setpriv --reuid=postgres /usr/lib/postgresql/15/bin/postgres -D x"),
            Some("postgresql")
        );
        assert_eq!(of("dd if=/dev/zero"), None);
    }
}
