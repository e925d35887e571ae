//! The invariants of the scheduler under random calls.

mod common;

use common::ledger::Ledger;
use common::workload::{Call, any_window, calls, config};
use iolane_sched::EnqueueError;
use proptest::prelude::*;

fn run(ledger: &mut Ledger, call: Call) {
    match call {
        Call::Enqueue(request, terms) => {
            let answer = ledger.enqueue(request, terms);
            if let Err(error) = answer {
                assert!(
                    matches!(error, EnqueueError::GroupFull { level, .. } if level == request.level)
                );
            }
        }
        Call::Start(request) => {
            ledger.start(request);
        }
        Call::Dispatch => {
            ledger.dispatch();
        }
        Call::Complete(index) => {
            if let Some(id) = ledger.in_flight(index) {
                ledger.complete(id);
            }
        }
        Call::Promote(index, level) => {
            if let Some(id) = ledger.outstanding(index) {
                ledger.promote(id, level);
            }
        }
        Call::Cancel(index) => {
            if let Some(id) = ledger.outstanding(index) {
                ledger.cancel(id);
            }
        }
        Call::SetPolicy(policy, window) => ledger.scheduler.set_policy(policy, window).unwrap(),
        Call::Wait(ns) => ledger.now_ns += ns,
    }
}

proptest! {
    #![proptest_config(iolane_testing::cases(400))]

    /// Everything that `Ledger` checks, under all policies and windows.
    #[test]
    fn hold_under_random_calls(config in config(), calls in calls(300, any_window())) {
        let mut ledger = Ledger::new(config);
        for call in calls {
            run(&mut ledger, call);
        }
        ledger.drain();
    }
}
