//! What the tests of the scheduler share. Each test binary uses a part of it.
#![allow(dead_code)]

pub mod ledger;
pub mod reference;
pub mod workload;

use iolane_sched::{
    Batch, Config, Kind, Level, Policy, Request, RequestId, Scheduler, WindowConfig,
};

pub const KIB: u64 = 1024;

pub fn read(offset: u64, length: u64, level: Level) -> Request {
    Request {
        kind: Kind::Read,
        file: 0,
        offset,
        length: length as u32,
        level,
        durable: false,
    }
}

pub fn write(offset: u64, length: u64, level: Level) -> Request {
    Request {
        kind: Kind::Write,
        ..read(offset, length, level)
    }
}

pub fn sync(level: Level) -> Request {
    Request {
        kind: Kind::Sync,
        ..read(0, 0, level)
    }
}

/// A policy with this many transfers at a time and no merging.
pub fn one_by_one(policy: Policy, window: u32) -> Config {
    Config {
        window: WindowConfig::Fixed(window),
        transfer_members_max: 1,
        ..Config::new(policy)
    }
}

/// What goes to the device at `now_ns`, each transfer with its members' ids.
pub fn dispatch(scheduler: &mut Scheduler, now_ns: u64) -> Vec<(RequestId, Vec<RequestId>)> {
    let mut batch = Batch::default();
    scheduler.dispatch(now_ns, &mut batch);
    batch
        .transfers
        .iter()
        .map(|transfer| {
            let members = batch.members_of(transfer);
            (
                transfer.id,
                members.iter().map(|member| member.id).collect(),
            )
        })
        .collect()
}

/// Dispatches and completes until nothing goes, and gives the order in which
/// the requests went.
pub fn drain(scheduler: &mut Scheduler, now_ns: u64) -> Vec<RequestId> {
    let mut order = Vec::new();
    loop {
        let transfers = dispatch(scheduler, now_ns);
        if transfers.is_empty() {
            return order;
        }
        for (id, members) in transfers {
            order.extend(members);
            scheduler.complete(now_ns, id, true);
        }
    }
}
