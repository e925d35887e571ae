//! Which figures there are.

use serde::Serialize;

use super::real::MEASURED;
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

/// What figures of a storage manager need.
const NEEDS: &str = "--real: it is measured on a disk of this machine";

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
        needs: Some(NEEDS),
    });
    available.chain(measured).collect()
}

/// The named figures in the catalogue's order; all for none. Either of those
/// that are simulated, or of those that are measured on a `real` disk.
///
/// # Errors
/// A name that is not in the catalogue, or in the other part of it.
pub fn choose(names: &[String], real: bool) -> Result<Vec<&'static str>, Failure> {
    let simulated: Vec<&str> = AVAILABLE.iter().map(|one| one.name).collect();
    let measured: Vec<&str> = MEASURED.iter().map(|one| one.name).collect();
    let (chosen, others) = if real {
        (measured, simulated)
    } else {
        (simulated, measured)
    };
    for name in names {
        if others.contains(&name.as_str()) {
            return Err(match real {
                true => Failure::usage(
                    format!("{name} is simulated, not measured"),
                    "Leave --real away.",
                ),
                false => Failure::usage(format!("{name} needs {NEEDS}"), "Give --real."),
            });
        }
        if !chosen.contains(&name.as_str()) {
            return Err(Failure::usage(
                format!("there is no figure '{name}'"),
                "See iolane figures --list for their names.",
            ));
        }
    }
    let wanted = |one: &&str| names.is_empty() || names.iter().any(|name| name == one);
    Ok(chosen.into_iter().filter(wanted).collect())
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
    fn nothing_named_means_all() {
        assert_eq!(choose(&[], false).unwrap().len(), AVAILABLE.len());
        assert_eq!(choose(&[], true).unwrap().len(), MEASURED.len());
    }

    #[test]
    fn figures_come_once_and_in_the_documents_order() {
        let named = names(&["bug-68659", "hall-bonnet-3", "bug-68659"]);
        let chosen = choose(&named, false).unwrap();
        assert_eq!(chosen, ["hall-bonnet-3", "bug-68659"]);
    }

    #[test]
    fn what_is_not_there_is_refused_with_the_reason() {
        for one in MEASURED {
            let failure = choose(&names(&[one.name]), false).unwrap_err();
            assert!(failure.to_string().contains("needs --real"), "{failure}");
        }
        let failure = choose(&names(&["hall-bonnet-1"]), true).unwrap_err();
        assert!(failure.to_string().contains("is simulated"), "{failure}");
        let failure = choose(&names(&["hall-bonnet-10"]), true).unwrap_err();
        let message = failure.to_string();
        assert!(message.contains("there is no figure 'hall-bonnet-10'"));
    }
}
