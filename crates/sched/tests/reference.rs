//! The same calls on the scheduler and on the reference model: the same
//! answers, the same transfers, the same members, in the same order.

mod common;

use common::ledger::Ledger;
use common::reference::{Reference, Sent};
use common::workload::{Call, calls, config, deep_calls, deep_config, fixed_window, policy};
use iolane_sched::{Batch, Level};
use proptest::prelude::*;

fn sent(batch: &Batch) -> Vec<Sent> {
    let sent = |transfer| Sent {
        id: Batch::members_of(batch, transfer)[0].id,
        level: transfer.level,
        members: batch.members_of(transfer).iter().map(|m| m.id).collect(),
    };
    batch.transfers.iter().map(sent).collect()
}

/// One call on both.
fn run(real: &mut Ledger, model: &mut Reference, call: Call) {
    match call {
        Call::Enqueue(request, terms) => {
            match (real.enqueue(request, terms), model.refuses(&request)) {
                (Ok(id), None) => model.enqueue(real.now_ns, id, request, terms),
                (answer, refusal) => assert_eq!(answer.err(), refusal),
            }
        }
        Call::Start(request) => {
            let expected = model.may_start(&request);
            let started = real.start(request);
            assert_eq!(started.is_some(), expected, "start {request:?}");
            if let Some(id) = started {
                model.start(real.now_ns, id, request);
            }
        }
        Call::Dispatch => {
            let batch = real.dispatch();
            assert_eq!(sent(&batch), model.dispatch(real.now_ns));
        }
        Call::Complete(index) => {
            if let Some(id) = real.in_flight(index) {
                real.complete(id);
                model.complete(id);
            }
        }
        Call::Promote(index, level) => {
            if let Some(id) = real.outstanding(index) {
                real.promote(id, level);
                assert!(model.promote(id, level));
            }
        }
        Call::Cancel(index) => {
            if let Some(id) = real.outstanding(index) {
                assert_eq!(real.cancel(id), model.cancel(id));
            }
        }
        Call::SetPolicy(policy, window) => {
            real.scheduler.set_policy(policy, window).unwrap();
            model.set_policy(policy, window);
        }
        Call::Wait(ns) => real.now_ns += ns,
    }
    let snapshot = real.scheduler.snapshot();
    assert_eq!(snapshot.queued, model.queued(), "queued");
    assert_eq!(snapshot.in_flight, model.in_flight(), "in flight");
    assert_eq!(snapshot.held, model.held(), "held");
}

proptest! {
    #![proptest_config(iolane_testing::cases(600))]

    #[test]
    fn decides_as_the_scheduler_does(
        config in config(),
        calls in calls(300, (policy(), fixed_window())),
    ) {
        let mut real = Ledger::new(config.clone());
        let mut model = Reference::new(config);
        for call in calls {
            run(&mut real, &mut model, call);
        }
        while real.scheduler.outstanding() > 0 {
            run(&mut real, &mut model, Call::Dispatch);
            run(&mut real, &mut model, Call::Complete(0));
        }
        real.drain();
        assert_eq!(model.queued(), [0; Level::COUNT]);
    }
}

proptest! {
    #![proptest_config(iolane_testing::cases(60))]

    /// Long queues, so that batches and turns run to their ends.
    #[test]
    fn decides_the_same_with_long_queues(config in deep_config(), calls in deep_calls()) {
        let mut real = Ledger::new(config.clone());
        let mut model = Reference::new(config);
        for call in calls {
            run(&mut real, &mut model, call);
        }
        while real.scheduler.outstanding() > 0 {
            run(&mut real, &mut model, Call::Dispatch);
            run(&mut real, &mut model, Call::Complete(0));
        }
    }
}
