//! Limits and steps on devices whose figures are given.

use super::*;

const CAN: Can = Can {
    pace: true,
    save: true,
    reserve: true,
};

/// An epoch of a second, with these logarithms.
fn epoch(work: f64, latency: f64) -> Seen {
    Seen {
        work,
        work_in_all: work,
        urgent: Some(latency),
        lower: Some(latency),
        lower_transfers: 100.0,
        backlog: 1.0,
        elapsed_ns: 1e9,
        gap_ns: 1e8,
        ..Seen::default()
    }
}

/// A limit: the steps that lead to it and back, and whether it is in force. More writes
/// between two flushes than the first quota allows there are not.
type Limit = (&'static [Step], fn(Setting) -> bool);
const QUOTA: Limit = (&[Step::Save, Step::Spend], |it| {
    it.quota.is_some_and(|quota| quota <= 4)
});
const BOUNDED: Limit = (&[Step::Bound], |it| it.bounded);
const RESERVED: Limit = (&[Step::Reserve], |it| it.reserved);
const SORTED: Limit = (&[Step::Sort], |it| it.sorted);

fn experiment_with(steps: &'static [Step]) -> Experiment {
    Experiment::new(
        Goal::from(crate::Objective::default()),
        (2, 2),
        Some(2),
        steps,
    )
}

/// A device on which the limit changes work and latency by so much, in so many epochs;
/// in how many of them it was in force. Its figures differ by up to a twentieth.
fn in_force(
    experiment: &mut Experiment,
    is_on: fn(Setting) -> bool,
    (work, latency): (f64, f64),
    epochs: u32,
) -> u32 {
    let mut count = 0;
    for number in 0..epochs {
        let is_on = is_on(experiment.setting());
        count += u32::from(is_on);
        let part = f64::from(u8::from(is_on));
        let noise = (f64::from(number) * 0.618_034).fract() / 20.0;
        let seen = epoch(10.0 + part * work + noise, 15.0 + part * latency - noise);
        experiment.judge(seen, CAN);
    }
    count
}

/// It takes half off the latency, for 2 % of the work.
const PAYS: (f64, f64) = (-0.02, -0.7);
/// And here a fifth of the work, for nothing.
const COSTS: (f64, f64) = (-0.22, 0.0);

fn comes_and_goes((steps, is_on): Limit) {
    let mut experiment = experiment_with(steps);
    let mut epochs = |effect, count| in_force(&mut experiment, is_on, effect, count);
    epochs(COSTS, 400);
    let tried = epochs(COSTS, 400);
    assert!(tried <= 20, "{tried} of 400 epochs where it never paid");
    epochs(PAYS, 1600);
    let kept = epochs(PAYS, 400);
    assert!(kept >= 360, "{kept} of 400 epochs where it pays");
    epochs(COSTS, 1600);
    let left = epochs(COSTS, 400);
    assert!(left <= 20, "{left} of 400 epochs where it pays no more");
}

#[test]
fn the_quota_holds_where_it_pays_and_is_let_go_where_it_does_not() {
    comes_and_goes(QUOTA);
}

#[test]
fn the_bound_holds_where_it_pays_and_is_let_go_where_it_does_not() {
    comes_and_goes(BOUNDED);
}

#[test]
fn the_device_is_reserved_where_that_pays_and_let_go_where_it_does_not() {
    comes_and_goes(RESERVED);
}

#[test]
fn requests_are_sorted_where_that_pays_and_no_more_where_it_does_not() {
    comes_and_goes(SORTED);
}

/// Slower by more than [`CHANGED`] says, it is looked at from the beginning.
#[test]
fn every_limit_is_let_go_where_the_device_is_another() {
    for (steps, is_on) in [QUOTA, BOUNDED, RESERVED, SORTED] {
        let mut experiment = experiment_with(steps);
        in_force(&mut experiment, is_on, PAYS, 20);
        assert!(is_on(experiment.champion()), "{steps:?}");
        (0..=CHANGED_EPOCHS).for_each(|_| experiment.judge(epoch(8.0, 17.0), CAN));
        assert!(!is_on(experiment.champion()), "{steps:?}");
    }
}

/// Next is a trial of one of these steps, on a device that stalls.
fn experiment(steps: &'static [Step]) -> Experiment {
    let goal = Goal::without_foreground(0.3);
    let mut experiment = Experiment::new(goal, (0, 9), Some(2), steps);
    experiment.epochs = 100;
    experiment.stalls = true;
    experiment.before = Some(epoch(1.0, 1.0));
    experiment
}

fn tries(mut experiment: Experiment) -> Option<Step> {
    experiment.choose(Can {
        pace: true,
        save: true,
        reserve: false,
    });
    experiment.trial.map(|trial| trial.step)
}

#[test]
fn a_pace_that_has_helped_before_is_tried_first_where_the_device_stalls() {
    let mut unpaced = experiment(&[Step::Widen, Step::Pace]);
    unpaced.plans[Step::Pace as usize].due = 99;
    assert_eq!(tries(unpaced.clone()), Some(Step::Widen));
    unpaced.unpaced = unpaced.before;
    assert_eq!(tries(unpaced.clone()), Some(Step::Pace));
    unpaced.stalls = false;
    assert_eq!(tries(unpaced), Some(Step::Widen));
}
