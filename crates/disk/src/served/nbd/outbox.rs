//! Answers on their way to one client.
//!
//! Answers are sent by the timing thread, which must not wait for a client
//! that does not read. What the socket does not take at once, another thread
//! sends. The reader of requests waits while too much is not sent, so that
//! this stays bounded.

use std::collections::VecDeque;
use std::io::{self, IoSlice, Write};
use std::net::Shutdown;
use std::os::unix::net::UnixStream;
use std::sync::{Condvar, Mutex, MutexGuard, PoisonError};

use super::protocol::simple_reply;
use crate::served::server::Client;
use crate::sys::{send_now, unread_bytes};

/// Requests of one client, from when they are read until their answers are
/// sent.
const UNSENT_MAX: usize = 512;
/// Bytes that these read.
const UNSENT_BYTES_MAX: u64 = 64 << 20;

/// Of one client.
pub struct Outbox {
    socket: UnixStream,
    state: Mutex<State>,
    changed: Condvar,
}

#[derive(Default)]
struct State {
    unsent: usize,
    unsent_bytes: u64,
    backlog: VecDeque<Answer>,
    /// The other thread has taken one out and sends it.
    sending: bool,
    /// Readers that wait for room.
    waiting: usize,
    /// No more requests come.
    finished: bool,
    /// The client is gone.
    gone: bool,
}

struct Answer {
    bytes: Vec<u8>,
    read_bytes: u64,
}

impl Outbox {
    /// For the client behind `socket`.
    pub fn new(socket: UnixStream) -> Outbox {
        Outbox {
            socket,
            state: Mutex::default(),
            changed: Condvar::new(),
        }
    }

    fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn wait<'a>(&self, state: MutexGuard<'a, State>) -> MutexGuard<'a, State> {
        let waited = self.changed.wait(state);
        waited.unwrap_or_else(PoisonError::into_inner)
    }

    /// Announces a request whose answer will have so many bytes of data; waits
    /// for room. False when the client is gone.
    pub fn admit(&self, read_bytes: u64) -> bool {
        let mut state = self.lock();
        while !state.gone
            && (state.unsent >= UNSENT_MAX
                || (state.unsent > 0 && state.unsent_bytes + read_bytes > UNSENT_BYTES_MAX))
        {
            state.waiting += 1;
            state = self.wait(state);
            state.waiting -= 1;
        }
        if !state.gone {
            state.unsent += 1;
            state.unsent_bytes += read_bytes;
        }
        !state.gone
    }

    /// Sends the answer to a request that was admitted. Never waits.
    pub fn answer(&self, cookie: u64, error: u32, data: &[u8], read_bytes: u64) {
        let header = simple_reply(error, cookie);
        let mut state = self.lock();
        let mut sent = 0;
        if state.backlog.is_empty() && !state.sending && !state.gone {
            match send_now(&self.socket, &[IoSlice::new(&header), IoSlice::new(data)]) {
                Ok(bytes) => sent = bytes,
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => {}
                Err(_) => self.give_up(&mut state),
            }
        }
        if state.gone || sent == header.len() + data.len() {
            self.sent(&mut state, read_bytes);
            return;
        }
        let bytes = header.iter().chain(data).skip(sent).copied().collect();
        state.backlog.push_back(Answer { bytes, read_bytes });
        self.changed.notify_all();
    }

    fn sent(&self, state: &mut State, read_bytes: u64) {
        state.unsent -= 1;
        state.unsent_bytes -= read_bytes;
        if state.waiting > 0 || (state.finished && state.unsent == 0) {
            self.changed.notify_all();
        }
    }

    fn give_up(&self, state: &mut State) {
        state.gone = true;
        // Also wakes whoever reads from it.
        let _ = self.socket.shutdown(Shutdown::Both);
        self.changed.notify_all();
    }

    /// No more requests come: it ends when the last answer is out.
    pub fn finish(&self) {
        self.lock().finished = true;
        self.changed.notify_all();
    }

    /// The thread that sends what the socket did not take at once, as long as the
    /// disk `has_power`: then it hangs up. Returns when all is answered.
    pub fn send_backlog(&self, has_power: impl Fn() -> bool) {
        let mut state = self.lock();
        while !(state.finished && state.unsent == 0) {
            let Some(answer) = state.backlog.pop_front() else {
                state = self.wait(state);
                continue;
            };
            state.sending = true;
            drop(state);
            let is_sent = has_power() && (&self.socket).write_all(&answer.bytes).is_ok();
            state = self.lock();
            state.sending = false;
            self.sent(&mut state, answer.read_bytes);
            if !is_sent {
                self.give_up(&mut state);
                for answer in std::mem::take(&mut state.backlog) {
                    self.sent(&mut state, answer.read_bytes);
                }
            }
        }
    }
}

impl Client for Outbox {
    fn has_taken_all(&self) -> bool {
        unread_bytes(&self.socket).is_ok_and(|bytes| bytes == 0)
    }
}

#[cfg(test)]
mod tests {
    use std::io::Read;
    use std::sync::Arc;
    use std::thread;

    use super::super::protocol::REPLY_BYTES;
    use super::*;

    #[test]
    fn it_is_seen_when_a_client_has_taken_its_answer() {
        let (ours, mut theirs) = UnixStream::pair().unwrap();
        let outbox = Outbox::new(ours);
        assert!(outbox.has_taken_all());
        assert!(outbox.admit(4096));
        outbox.answer(1, 0, &[7; 4096], 4096);
        assert!(!outbox.has_taken_all());
        let mut message = vec![0; REPLY_BYTES + 4096];
        theirs.read_exact(&mut message).unwrap();
        assert!(outbox.has_taken_all());
    }

    #[test]
    fn a_client_that_does_not_read_holds_up_nobody_but_itself() {
        const DATA_BYTES: usize = 1 << 20;
        let (ours, mut theirs) = UnixStream::pair().unwrap();
        let outbox = Arc::new(Outbox::new(ours));
        let sender = thread::spawn({
            let outbox = Arc::clone(&outbox);
            move || outbox.send_backlog(|| true)
        });
        let data = vec![5; DATA_BYTES];
        let count = UNSENT_BYTES_MAX / DATA_BYTES as u64;
        for cookie in 0..count {
            assert!(outbox.admit(DATA_BYTES as u64));
            outbox.answer(cookie, 0, &data, DATA_BYTES as u64);
        }
        let admitted = thread::spawn({
            let outbox = Arc::clone(&outbox);
            move || outbox.admit(DATA_BYTES as u64)
        });
        let mut message = vec![0; REPLY_BYTES + DATA_BYTES];
        for cookie in 0..count {
            theirs.read_exact(&mut message).unwrap();
            assert_eq!(message[..REPLY_BYTES], simple_reply(0, cookie));
            assert!(message[REPLY_BYTES..].iter().all(|&byte| byte == 5));
        }
        assert!(admitted.join().unwrap());
        drop(theirs);
        outbox.answer(count, 0, &data, DATA_BYTES as u64);
        outbox.finish();
        sender.join().unwrap();
        assert!(!outbox.admit(0));
    }
}
