//! io_uring: a program's ring as liburing lays it out, and a ring of the library's own, by
//! which completions go into the program's (`IORING_OP_MSG_RING`, linux/io_uring.h).

use std::ptr;
use std::sync::atomic::{AtomicU32, Ordering};

use iolane_protocol::sys::raw::syscall6;

use super::aio;
use super::memory;
use super::watch;

/// A submission queue entry.
#[derive(Clone, Copy, Default)]
#[repr(C)]
pub struct Entry {
    pub opcode: u8,
    pub flags: u8,
    pub priority: u16,
    pub descriptor: i32,
    pub offset: u64,
    pub address: u64,
    pub length: u32,
    /// Of the operation.
    pub operation_flags: u32,
    pub data: u64,
    pub buffer_index: u16,
    pub personality: u16,
    pub file_index: i32,
    pub more: [u64; 2],
}

const _: () = assert!(size_of::<Entry>() == 64);

/// liburing.h: `struct io_uring_sq`, as far as it is the same in all versions since 2.0.
#[repr(C)]
struct SubmissionQueue {
    kernel_head: *const AtomicU32,
    kernel_tail: *const AtomicU32,
    kernel_mask: *const u32,
    kernel_entries: *const u32,
    kernel_flags: *const AtomicU32,
    kernel_dropped: *const AtomicU32,
    array: *mut u32,
    entries: *mut Entry,
    head: u32,
    tail: u32,
    ring_bytes: usize,
    ring_address: usize,
    pad: [u32; 4],
}

/// liburing.h: the beginning of `struct io_uring`, likewise. The queue of completions between
/// is not looked at.
#[repr(C)]
struct Ring {
    submission: SubmissionQueue,
    completion: [u64; 11],
    flags: u32,
    descriptor: i32,
}

const _: () = assert!(std::mem::offset_of!(Ring, flags) == 192);

/// What a program has prepared in its ring and not submitted.
pub struct Prepared {
    ring: *mut Ring,
}

impl Prepared {
    /// # Safety
    /// A ring that liburing has made, which no other thread uses meanwhile, as for
    /// io_uring_submit(3).
    pub unsafe fn of(ring: usize) -> Prepared {
        Prepared {
            ring: ptr::with_exposed_provenance_mut(ring),
        }
    }

    /// The ring's descriptor.
    pub fn descriptor(&self) -> i32 {
        // SAFETY: the promise of `of`.
        unsafe { (*self.ring).descriptor }
    }

    /// `IORING_SETUP_*`.
    pub fn flags(&self) -> u32 {
        // SAFETY: the promise of `of`.
        unsafe { (*self.ring).flags }
    }

    /// How many entries there are.
    pub fn count(&self) -> u32 {
        // SAFETY: the promise of `of`.
        unsafe {
            let queue = &(*self.ring).submission;
            queue.tail.wrapping_sub(queue.head)
        }
    }

    fn place(&self, index: u32) -> *mut Entry {
        // SAFETY: the promise of `of`; the mask keeps the place within the ring.
        unsafe {
            let queue = &(*self.ring).submission;
            let at = queue.head.wrapping_add(index) & *queue.kernel_mask;
            queue.entries.add(at as usize)
        }
    }

    pub fn entry(&self, index: u32) -> Entry {
        // SAFETY: an entry of the ring's.
        unsafe { self.place(index).read() }
    }

    pub fn set_entry(&mut self, index: u32, entry: &Entry) {
        // SAFETY: an entry of the ring's, which the kernel does not read before it is submitted.
        unsafe { self.place(index).write(*entry) };
    }

    /// Only the first entries stay.
    pub fn truncate(&mut self, count: u32) {
        // SAFETY: the promise of `of`.
        unsafe {
            let queue = &mut (*self.ring).submission;
            queue.tail = queue.head.wrapping_add(count);
        }
    }
}

/// Pieces of a vectored request that is taken over.
pub const PIECES_MAX: usize = 8;

/// Addresses and lengths of a request's pieces; `None` where there are none.
pub fn pieces_at(address: u64, count: usize) -> Option<[(u64, u64); PIECES_MAX]> {
    let mut words = [0; 2 * PIECES_MAX];
    let is_there = memory::copy_from(address as usize, &mut words[..2 * count]);
    is_there.then(|| std::array::from_fn(|index| (words[2 * index], words[2 * index + 1])))
}

/// Another descriptor for a ring; `None`: there is no such ring, or no room.
pub fn duplicate(descriptor: i32) -> Option<i32> {
    watch::duplicate_anywhere(descriptor)
}

/// Whether two descriptors name one ring. Also where the kernel cannot say it (kcmp(2)).
pub fn is_same(one: i32, other: i32) -> bool {
    const KCMP_FILE: usize = 0;
    let process = super::environment::process_number() as usize;
    let arguments = [process, process, KCMP_FILE, one as usize, other as usize, 0];
    // SAFETY: takes numbers.
    unsafe { syscall6(libc::SYS_kcmp, arguments) <= 0 }
}

/// Closes a descriptor that [`duplicate`] has made.
pub fn close(descriptor: i32) {
    watch::close(descriptor);
}

/// A completion for a program's ring.
#[derive(Clone, Copy)]
pub struct Message {
    /// The ring, by a descriptor.
    pub ring: i32,
    pub data: u64,
    pub result: i32,
}

/// Messages at a time.
pub const MESSAGES_MAX: usize = 64;
const OPCODE_MESSAGE: u8 = 40;
const ENTER_GETEVENTS: usize = 1;
const ENTER_REGISTERED_RING: usize = 1 << 4;
const REGISTER_PROBE: usize = 8;
const REGISTER_RING_FDS: usize = 20;
const OFFSET_RINGS: usize = 0;
const OFFSET_ENTRIES: usize = 0x1000_0000;
const FEATURE_SINGLE_MAP: u32 = 1;
const IS_SUPPORTED: u16 = 1;

/// `struct io_uring_params`.
#[derive(Default)]
#[repr(C)]
struct Parameters {
    submission_entries: u32,
    completion_entries: u32,
    flags: u32,
    thread: [u32; 2],
    features: u32,
    rest: [u32; 4],
    /// head, tail, mask, entries, flags, dropped, array
    submission: [u32; 10],
    /// head, tail, mask, entries, overflow, completions, flags
    completion: [u32; 10],
}

const _: () = assert!(size_of::<Parameters>() == 120);

/// `struct io_uring_probe` with room for the message's operation.
#[repr(C)]
struct Probe {
    head: [u32; 4],
    /// Operation and reserved byte, flags, and four reserved bytes.
    operations: [[u16; 4]; OPCODE_MESSAGE as usize + 1],
}

/// The library's own ring. Only for the thread that has made it: the kernel knows it by a
/// number of that thread's, so that no descriptor is left that the program could close.
pub struct Messenger {
    number: usize,
    tail: *const AtomicU32,
    entries: *mut Entry,
    completion_head: *const AtomicU32,
    completion_tail: *const AtomicU32,
    completions: *const [u64; 2],
    completion_mask: u32,
}

impl Messenger {
    /// `None`: the kernel does not have all that it needs.
    pub fn open() -> Option<Messenger> {
        let mut parameters = Parameters::default();
        let place = (&raw mut parameters).expose_provenance();
        // SAFETY: the structure lives as long as the call.
        let descriptor = unsafe {
            let arguments = [MESSAGES_MAX, place, 0, 0, 0, 0];
            i32::try_from(syscall6(libc::SYS_io_uring_setup, arguments)).ok()?
        };
        let made = (descriptor >= 0).then(|| Self::of(descriptor, &parameters));
        if descriptor >= 0 {
            close(descriptor);
        }
        made.flatten()
    }

    fn of(descriptor: i32, parameters: &Parameters) -> Option<Messenger> {
        if parameters.features & FEATURE_SINGLE_MAP == 0 || !can_message(descriptor) {
            return None;
        }
        let number = register(descriptor)?;
        let [_, tail, .., array, _, _, _] = parameters.submission;
        let [cq_head, cq_tail, cq_mask, _, _, cqes, ..] = parameters.completion;
        let array_end = array as usize + parameters.submission_entries as usize * size_of::<u32>();
        let cqes_end = cqes as usize + parameters.completion_entries as usize * 16;
        let rings = map(descriptor, array_end.max(cqes_end), OFFSET_RINGS)?;
        let bytes = parameters.submission_entries as usize * size_of::<Entry>();
        let entries = map(descriptor, bytes, OFFSET_ENTRIES)?;
        // SAFETY: the kernel's offsets into its mapping, which stays for as long as the process
        // lives. Each entry of the array stands for the queue's entry of the same number.
        unsafe {
            let array: *mut u32 = rings.add(array as usize).cast();
            for index in 0..parameters.submission_entries {
                array.add(index as usize).write(index);
            }
            Some(Messenger {
                number,
                tail: rings.add(tail as usize).cast(),
                entries: entries.cast(),
                completion_head: rings.add(cq_head as usize).cast(),
                completion_tail: rings.add(cq_tail as usize).cast(),
                completions: rings.add(cqes as usize).cast(),
                completion_mask: rings.add(cq_mask as usize).cast::<u32>().read(),
            })
        }
    }

    /// Posts completions, at most [`MESSAGES_MAX`]. Those of rings that are gone are lost, as
    /// their program's would be.
    pub fn post(&mut self, messages: &[Message]) {
        let mut left = [Message {
            ring: -1,
            data: 0,
            result: 0,
        }; MESSAGES_MAX];
        let mut count = messages.len().min(MESSAGES_MAX);
        left[..count].copy_from_slice(&messages[..count]);
        while count > 0 {
            let mut again = 0u64;
            self.submit(&left[..count]);
            let mut ended = 0;
            while ended < count {
                let Some((index, result)) = self.completion() else {
                    self.enter(0, 1);
                    continue;
                };
                ended += 1;
                let is_for_now = [libc::EOVERFLOW, libc::EAGAIN, libc::ENOMEM, libc::EINTR];
                if is_for_now.contains(&-result) {
                    // The kernel has no memory for a moment.
                    again |= 1 << (index % MESSAGES_MAX as u64);
                }
            }
            let mut kept = 0;
            for index in 0..count {
                if again & 1 << index != 0 {
                    left[kept] = left[index];
                    kept += 1;
                }
            }
            count = kept;
            if count > 0 {
                aio::nap();
            }
        }
    }

    fn submit(&mut self, messages: &[Message]) {
        // SAFETY: this thread alone submits. All earlier entries were taken by the kernel, so
        // there is room for MESSAGES_MAX.
        unsafe {
            let tail = (*self.tail).load(Ordering::Relaxed);
            for (index, message) in messages.iter().enumerate() {
                let place = tail.wrapping_add(index as u32) as usize % MESSAGES_MAX;
                self.entries.add(place).write(Entry {
                    opcode: OPCODE_MESSAGE,
                    descriptor: message.ring,
                    offset: message.data,
                    length: message.result as u32,
                    data: index as u64,
                    ..Entry::default()
                });
            }
            let next = tail.wrapping_add(messages.len() as u32);
            (*self.tail).store(next, Ordering::Release);
        }
        let mut left = messages.len();
        while left > 0 {
            match usize::try_from(self.enter(left, 0)) {
                Ok(taken) => left -= taken.min(left),
                Err(_) => aio::nap(),
            }
        }
    }

    fn enter(&self, submitted: usize, least: usize) -> isize {
        let flags = ENTER_REGISTERED_RING | if least > 0 { ENTER_GETEVENTS } else { 0 };
        let arguments = [self.number, submitted, least, flags, 0, 0];
        // SAFETY: what lies in the ring are messages, which touch no memory of the process.
        unsafe { syscall6(libc::SYS_io_uring_enter, arguments) }
    }

    /// Which message has ended, and how.
    fn completion(&mut self) -> Option<(u64, i32)> {
        // SAFETY: this thread alone takes completions; those before the tail are written.
        unsafe {
            let head = (*self.completion_head).load(Ordering::Relaxed);
            if head == (*self.completion_tail).load(Ordering::Acquire) {
                return None;
            }
            let [data, result] = self
                .completions
                .add((head & self.completion_mask) as usize)
                .read();
            (*self.completion_head).store(head.wrapping_add(1), Ordering::Release);
            Some((data, result as u32 as i32))
        }
    }
}

/// Whether the kernel knows messages (Linux 5.18).
fn can_message(descriptor: i32) -> bool {
    let mut probe = Probe {
        head: [0; 4],
        operations: [[0; 4]; OPCODE_MESSAGE as usize + 1],
    };
    let place = (&raw mut probe).expose_provenance();
    let count = probe.operations.len();
    // SAFETY: the structure has room for so many operations.
    let result = unsafe {
        let arguments = [descriptor as usize, REGISTER_PROBE, place, count, 0, 0];
        syscall6(libc::SYS_io_uring_register, arguments)
    };
    result >= 0 && probe.operations[usize::from(OPCODE_MESSAGE)][1] & IS_SUPPORTED != 0
}

/// A number by which the calling thread can name the ring without its descriptor.
fn register(descriptor: i32) -> Option<usize> {
    // struct io_uring_rsrc_update: offset (any), reserved, descriptor.
    let mut update = [u64::from(u32::MAX), descriptor as u64];
    let place = update.as_mut_ptr().expose_provenance();
    // SAFETY: one structure, which lives as long as the call.
    let result = unsafe {
        let arguments = [descriptor as usize, REGISTER_RING_FDS, place, 1, 0, 0];
        syscall6(libc::SYS_io_uring_register, arguments)
    };
    (result == 1).then_some(update[0] as u32 as usize)
}

fn map(descriptor: i32, bytes: usize, offset: usize) -> Option<*mut u8> {
    // SAFETY: a new mapping of the ring's memory, which is never unmapped, and not there in a
    // child.
    unsafe {
        let memory = libc::mmap(
            ptr::null_mut(),
            bytes,
            libc::PROT_READ | libc::PROT_WRITE,
            libc::MAP_SHARED | libc::MAP_POPULATE,
            descriptor,
            offset as libc::off_t,
        );
        if memory == libc::MAP_FAILED {
            return None;
        }
        libc::madvise(memory, bytes, libc::MADV_DONTFORK);
        Some(memory.cast())
    }
}

/// Says once why rings are not followed.
pub fn say_not_followed() {
    const TEXT: &[u8] = b"iolane: io_uring requests are not scheduled: that needs Linux 5.18 \
(IORING_OP_MSG_RING) and Linux AIO\n";
    // SAFETY: the text is as long as the call is told.
    unsafe {
        let arguments = [2, TEXT.as_ptr().addr(), TEXT.len(), 0, 0, 0];
        syscall6(libc::SYS_write, arguments);
    }
}
