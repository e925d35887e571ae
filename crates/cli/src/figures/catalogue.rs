//! Which figures there are.

use serde::Serialize;

use super::real::{MEASURED, Subject};
use super::report::Figure;
use super::rig::Rig;
use super::{bug_68659, hall_bonnet, revisited, tournament};
use crate::error::Failure;

type Simulate = fn(&Rig<'_>) -> Result<Figure, Failure>;

/// A figure that can be had.
struct Available {
    name: &'static str,
    title: &'static str,
    simulate: Simulate,
}

const AVAILABLE: [Available; 8] = [
    Available {
        name: "hall-bonnet-1",
        title: "Hall & Bonnet, figure 1: throughput of random requests by requests outstanding",
        simulate: hall_bonnet::throughput,
    },
    Available {
        name: "hall-bonnet-2",
        title: "Hall & Bonnet, figure 2: requests in the SCSI controller by requests outstanding",
        simulate: hall_bonnet::in_controller,
    },
    Available {
        name: "hall-bonnet-3",
        title: "Hall & Bonnet, figure 3: latency of random requests by requests outstanding",
        simulate: hall_bonnet::latency,
    },
    Available {
        name: "hall-bonnet-7",
        title: "Hall & Bonnet, figure 7: a mix of high and low priority writes, 200 outstanding",
        simulate: hall_bonnet::mix,
    },
    Available {
        name: "hall-bonnet-8",
        title: "Hall & Bonnet, figure 8: a random reader among three sequential ones",
        simulate: hall_bonnet::beside,
    },
    Available {
        name: "schedulers-revisited",
        title: "I/O schedulers seriously revisited: one-row transactions from 1 and 8 threads",
        simulate: revisited::simulate,
    },
    Available {
        name: "bug-68659",
        title: "MySQL bug 68659: sequential reads of 16 KiB and 1 MiB, 1 and 64 at once",
        simulate: bug_68659::simulate,
    },
    Available {
        name: "tournament",
        title: "lanes against the paper's prio-deadline, deadline, noop and Linux 2.6's schedulers on all models",
        simulate: tournament::simulate,
    },
];

/// How figures are to be had.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Means {
    /// Simulated, in virtual time.
    Virtual,
    /// Measured on this machine.
    Real,
    /// Measured on a modelled disk that is served in real time.
    Modelled,
}

/// What a measured figure needs.
const fn needs(subject: Subject) -> &'static str {
    match subject {
        Subject::Store => "--real: it is measured on a disk",
        Subject::Memory => "--real: it is measured in memory",
    }
}

/// A line of the list.
#[derive(Clone, Debug, Serialize)]
pub struct Entry {
    pub name: &'static str,
    pub title: &'static str,
    /// What must be given for it, if it is not simulated.
    pub needs: Option<&'static str>,
}

/// All figures, in the documents' order.
pub fn entries() -> Vec<Entry> {
    let available = AVAILABLE.iter().map(|one| Entry {
        name: one.name,
        title: one.title,
        needs: None,
    });
    let measured = MEASURED.iter().map(|one| Entry {
        name: one.name,
        title: one.title,
        needs: Some(needs(one.subject)),
    });
    available.chain(measured).collect()
}

/// The named figures in the catalogue's order; all for none. Of those that can
/// be had by these means.
///
/// # Errors
/// A name that is not in the catalogue, or needs other means.
pub fn choose(names: &[String], means: Means) -> Result<Vec<&'static str>, Failure> {
    let simulated = AVAILABLE
        .iter()
        .map(|one| (one.name, refusal_of_simulated(one.name, means)));
    let measured = MEASURED
        .iter()
        .map(|one| (one.name, refusal_of_measured(one.name, one.subject, means)));
    let all: Vec<(&'static str, Option<Failure>)> = simulated.chain(measured).collect();
    for name in names {
        if !all.iter().any(|(one, _)| one == name) {
            return Err(Failure::usage(
                format!("there is no figure '{name}'"),
                "See iolane figures --list for their names.",
            ));
        }
    }
    let is_named = |one: &str| names.iter().any(|name| name == one);
    let mut chosen = Vec::new();
    for (name, refusal) in all {
        match refusal {
            Some(refusal) if is_named(name) => return Err(refusal),
            None if names.is_empty() || is_named(name) => chosen.push(name),
            _ => {}
        }
    }
    Ok(chosen)
}

/// Why a simulated figure cannot be had so.
fn refusal_of_simulated(name: &str, means: Means) -> Option<Failure> {
    (means != Means::Virtual).then(|| {
        Failure::usage(
            format!("{name} is simulated, not measured"),
            "Leave --real away.",
        )
    })
}

/// The same for a measured one.
fn refusal_of_measured(name: &str, subject: Subject, means: Means) -> Option<Failure> {
    match (means, subject) {
        (Means::Virtual, _) => Some(Failure::usage(
            format!("{name} needs {}", needs(subject)),
            "Give --real.",
        )),
        (Means::Modelled, Subject::Memory) => Some(Failure::usage(
            format!("{name} is measured in memory, where no disk has a part"),
            "Leave --model away.",
        )),
        (Means::Modelled, Subject::Store) | (Means::Real, _) => None,
    }
}

/// Simulates a figure of [`choose`].
///
/// # Errors
/// An interruption, or a defect in the figure's own set-up.
pub fn simulate(name: &str, rig: &Rig<'_>) -> Result<Figure, Failure> {
    let Some(one) = AVAILABLE.iter().find(|one| one.name == name) else {
        unreachable!("{name} was chosen from the catalogue");
    };
    let mut figure = (one.simulate)(rig)?;
    (figure.name, figure.title) = (one.name, one.title);
    Ok(figure)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn names(text: &[&str]) -> Vec<String> {
        text.iter().map(|&one| one.to_owned()).collect()
    }

    #[test]
    fn nothing_named_means_all_that_can_be_had() {
        let count = |means| choose(&[], means).unwrap().len();
        assert_eq!(count(Means::Virtual), AVAILABLE.len());
        assert_eq!(count(Means::Real), MEASURED.len());
        let on_disk = MEASURED.iter().filter(|one| one.subject == Subject::Store);
        assert_eq!(count(Means::Modelled), on_disk.count());
    }

    #[test]
    fn figures_come_once_and_in_the_documents_order() {
        let named = names(&["bug-68659", "hall-bonnet-3", "bug-68659"]);
        let chosen = choose(&named, Means::Virtual).unwrap();
        assert_eq!(chosen, ["hall-bonnet-3", "bug-68659"]);
    }

    #[test]
    fn what_is_not_there_is_refused_with_the_reason() {
        let refused = |name: &str, means| choose(&names(&[name]), means).unwrap_err().to_string();
        for one in MEASURED {
            let message = refused(one.name, Means::Virtual);
            assert!(message.contains("needs --real"), "{message}");
            if one.subject == Subject::Memory {
                let message = refused(one.name, Means::Modelled);
                assert!(message.contains("no disk has a part"), "{message}");
            }
        }
        for means in [Means::Real, Means::Modelled] {
            let message = refused("hall-bonnet-1", means);
            assert!(message.contains("is simulated"), "{message}");
        }
        let message = refused("hall-bonnet-10", Means::Real);
        assert!(message.contains("there is no figure 'hall-bonnet-10'"));
    }
}
