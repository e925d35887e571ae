//! For which role a thread reads the pages that it waits for.
//!
//! Those who wait are deep below those who know what it is for, and a thread
//! does one thing at a time.

use crate::policy::Role;
use std::cell::Cell;

thread_local! {
    static ROLE: Cell<Role> = const { Cell::new(Role::Read) };
}

/// Until it is dropped, its thread reads for another role.
pub(crate) struct Acting {
    before: Role,
}

/// From now on this thread reads for `role`.
pub(crate) fn acting_as(role: Role) -> Acting {
    Acting {
        before: ROLE.replace(role),
    }
}

/// For which role this thread reads: [`Role::Read`], a query, unless it says
/// otherwise.
pub(crate) fn acting() -> Role {
    ROLE.get()
}

impl Drop for Acting {
    fn drop(&mut self) {
        ROLE.set(self.before);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_thread_acts_for_one_role_at_a_time() {
        assert_eq!(acting(), Role::Read);
        let backup = acting_as(Role::Backup);
        {
            let _check = acting_as(Role::Check);
            assert_eq!(acting(), Role::Check);
            let other = std::thread::spawn(acting).join();
            assert_eq!(other.ok(), Some(Role::Read));
        }
        assert_eq!(acting(), Role::Backup);
        drop(backup);
        assert_eq!(acting(), Role::Read);
    }
}
