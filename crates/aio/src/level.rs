//! Which level a control block asks for.

use crate::sys::abi::{Errno, IOCB_FLAG_IOPRIO, Iocb};
use iolane::Level;

// include/uapi/linux/ioprio.h
const CLASS_SHIFT: u16 = 13;
const DATA: u16 = (1 << CLASS_SHIFT) - 1;
const CLASS_NONE: u16 = 0;
const CLASS_REAL_TIME: u16 = 1;
const CLASS_BEST_EFFORT: u16 = 2;
const CLASS_IDLE: u16 = 3;

/// Without `IOCB_FLAG_IOPRIO`, `aio_reqprio` is the level, as POSIX has it: by
/// how much the priority is lowered, 0 for not at all. With it, it is a priority
/// as `ioprio_set(2)` takes them; the engine gives its levels the same ones
/// (`iolane::IoPriority`).
pub(crate) fn of(iocb: &Iocb) -> Result<Level, Errno> {
    let given = iocb.reqprio as u16;
    if iocb.flags & IOCB_FLAG_IOPRIO == 0 {
        return Level::from_index(usize::from(given)).ok_or(Errno(libc::EINVAL));
    }
    // Above the eight levels of a class are hints (Linux 6.6) that say nothing
    // about urgency.
    match (given >> CLASS_SHIFT, given & DATA & 7) {
        (CLASS_NONE, _) => Ok(Level::Normal),
        (CLASS_REAL_TIME, _) => Ok(Level::Critical),
        (CLASS_BEST_EFFORT, 0 | 1) => Ok(Level::Foreground),
        (CLASS_BEST_EFFORT, 2..=4) => Ok(Level::Normal),
        (CLASS_BEST_EFFORT, 5 | 6) => Ok(Level::Prefetch),
        (CLASS_BEST_EFFORT, _) | (CLASS_IDLE, _) => Ok(Level::Background),
        _ => Err(Errno(libc::EINVAL)),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn level(reqprio: u16, flags: u32) -> Result<Level, Errno> {
        of(&Iocb {
            reqprio: reqprio as i16,
            flags,
            ..Iocb::default()
        })
    }

    #[test]
    fn posix_values_are_levels() {
        for (index, expected) in Level::ALL.into_iter().enumerate() {
            assert_eq!(level(index as u16, 0), Ok(expected));
        }
        assert_eq!(level(5, 0), Err(Errno(libc::EINVAL)));
        assert_eq!(level(-1i16 as u16, 0), Err(Errno(libc::EINVAL)));
    }

    #[test]
    fn kernel_priorities_never_rise_as_they_fall() {
        let mut before = Level::Critical;
        assert_eq!(level(1 << 13, IOCB_FLAG_IOPRIO), Ok(before));
        for data in 0..8 {
            let now = level(2 << 13 | data, IOCB_FLAG_IOPRIO).unwrap();
            assert!(now >= before);
            before = now;
        }
        assert_eq!(level(3 << 13, IOCB_FLAG_IOPRIO), Ok(Level::Background));
        assert_eq!(level(0, IOCB_FLAG_IOPRIO), Ok(Level::Normal));
        assert_eq!(level(4 << 13, IOCB_FLAG_IOPRIO), Err(Errno(libc::EINVAL)));
    }
}
