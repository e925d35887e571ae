//! One client, from its connection to its end.

use std::io::{self, Read};
use std::os::unix::net::UnixStream;
use std::sync::{Arc, Mutex, PoisonError};
use std::thread;

use super::handshake::{Outcome, negotiate};
use super::outbox::Outbox;
use super::protocol::{Export, PAYLOAD_BYTES_MAX, REQUEST_BYTES, RequestHeader, command, error};
use crate::served::server::{Client, Request, Server};
use crate::sys::go_first;

/// Threads that take turns at reading requests: while one waits for the
/// backing file, the other goes on.
const READERS: usize = 2;

/// Serves one client until it is gone. Blocks.
///
/// # Errors
/// Those of the socket, and threads that the kernel refuses.
pub fn serve(socket: &UnixStream, server: &Arc<Server>) -> io::Result<()> {
    let export = Export {
        size_bytes: server.size_bytes(),
        block_bytes: server.block_bytes(),
        rotating: server.rotating(),
    };
    if negotiate(socket, export, &|| server.power_cut())? == Outcome::Ended {
        return Ok(());
    }
    let outbox = Arc::new(Outbox::new(socket.try_clone()?));
    let connection = Connection {
        requests: Mutex::new(Some(socket.try_clone()?)),
        server: Arc::clone(server),
        outbox: Arc::clone(&outbox),
    };
    thread::scope(|scope| {
        let named = |name: &str| thread::Builder::new().name(name.to_owned());
        let sending =
            named("nbd-backlog").spawn_scoped(scope, || outbox.send_backlog(|| server.has_power()));
        let reading = (1..READERS)
            .map(|_| named("nbd-reader").spawn_scoped(scope, || connection.read_requests()))
            .collect::<io::Result<Vec<_>>>();
        let started = sending.and(reading);
        if started.is_ok() {
            connection.read_requests();
        } else {
            connection.hang_up();
        }
        // The readers share the end: whoever sees it first leaves none to the
        // others, but may still be busy with a request of its own.
        for reader in started? {
            // A panic of that thread has been reported when it happened.
            let _ = reader.join();
        }
        outbox.finish();
        Ok(())
    })
}

struct Connection {
    /// Nothing any more when no more requests come.
    requests: Mutex<Option<UnixStream>>,
    server: Arc<Server>,
    outbox: Arc<Outbox>,
}

impl Connection {
    fn read_requests(&self) {
        go_first();
        let mut payload = Vec::new();
        while let Some(header) = self.next(&mut payload) {
            self.carry_out(header, &payload);
        }
    }

    fn hang_up(&self) {
        *self.requests.lock().unwrap_or_else(PoisonError::into_inner) = None;
        self.outbox.finish();
    }

    /// The next request, with what it writes in `payload`; nothing at the end.
    fn next(&self, payload: &mut Vec<u8>) -> Option<RequestHeader> {
        let mut requests = self.requests.lock().unwrap_or_else(PoisonError::into_inner);
        let socket = requests.as_mut()?;
        let header = receive(socket, payload).ok().flatten();
        if header.is_none() {
            *requests = None;
        }
        header
    }

    fn carry_out(&self, header: RequestHeader, payload: &[u8]) {
        let read_bytes = match header.command {
            command::READ => u64::from(header.length.min(PAYLOAD_BYTES_MAX)),
            _ => 0,
        };
        if !self.outbox.admit(read_bytes) {
            return;
        }
        let cookie = header.cookie;
        let request = match check(&header, payload, self.server.size_bytes()) {
            Ok(request) => request,
            Err(number) => {
                self.outbox.answer(cookie, number, &[], read_bytes);
                return;
            }
        };
        let outbox = Arc::clone(&self.outbox);
        let answer = move |result: io::Result<Vec<u8>>| match result {
            Ok(data) => outbox.answer(cookie, 0, &data, read_bytes),
            Err(error) => outbox.answer(cookie, number(&error), &[], read_bytes),
        };
        let client = Arc::clone(&self.outbox) as Arc<dyn Client>;
        self.server
            .submit_for(Some(client), request, Box::new(answer));
    }
}

/// Reads one request; nothing where the client says good-bye, or cannot be
/// understood any more.
fn receive(socket: &mut UnixStream, payload: &mut Vec<u8>) -> io::Result<Option<RequestHeader>> {
    let mut bytes = [0; REQUEST_BYTES];
    socket.read_exact(&mut bytes)?;
    let Some(header) = RequestHeader::parse(&bytes) else {
        return Ok(None);
    };
    payload.clear();
    match header.command {
        command::DISCONNECT => Ok(None),
        // What follows would have to be read to find the next request.
        command::WRITE if header.length > PAYLOAD_BYTES_MAX => Ok(None),
        command::WRITE => {
            payload.resize(header.length as usize, 0);
            socket.read_exact(payload)?;
            Ok(Some(header))
        }
        _ => Ok(Some(header)),
    }
}

/// What to do, or the error to answer with, as the specification says.
fn check<'a>(
    header: &RequestHeader,
    payload: &'a [u8],
    size_bytes: u64,
) -> Result<Request<'a>, u32> {
    let flags_known = match header.command {
        command::READ | command::WRITE | command::FLUSH => command::FLAG_FUA,
        _ => return Err(error::EINVAL),
    };
    if header.flags & !flags_known != 0 {
        return Err(error::EINVAL);
    }
    if header.command == command::FLUSH {
        return Ok(Request::Flush);
    }
    if header.length == 0 || header.length > PAYLOAD_BYTES_MAX {
        return Err(error::EINVAL);
    }
    let end = header.offset.checked_add(u64::from(header.length));
    let inside = end.is_some_and(|end| end <= size_bytes);
    let (offset, length) = (header.offset, header.length);
    match header.command {
        command::READ if inside => Ok(Request::Read { offset, length }),
        command::WRITE if inside => Ok(Request::Write {
            offset,
            data: payload,
            durable: header.flags & command::FLAG_FUA != 0,
        }),
        command::WRITE => Err(error::ENOSPC),
        _ => Err(error::EINVAL),
    }
}

/// The specification's numbers for an error of the medium.
fn number(error: &io::Error) -> u32 {
    match error.raw_os_error() {
        Some(libc::EPERM | libc::EACCES | libc::EROFS) => error::EPERM,
        Some(libc::ENOMEM) => error::ENOMEM,
        Some(libc::ENOSPC | libc::EFBIG | libc::EDQUOT) => error::ENOSPC,
        Some(libc::ESHUTDOWN) => error::ESHUTDOWN,
        _ if error.kind() == io::ErrorKind::InvalidInput => error::EINVAL,
        _ => error::EIO,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn header(command: u16, offset: u64, length: u32) -> RequestHeader {
        RequestHeader {
            flags: 0,
            command,
            cookie: 1,
            offset,
            length,
        }
    }

    #[test]
    fn bad_ranges_have_the_errors_of_the_specification() {
        let check = |header| check(&header, &[0; 512], 4096).map(|_| ());
        assert_eq!(check(header(command::READ, 3584, 512)), Ok(()));
        assert_eq!(check(header(command::WRITE, 3584, 512)), Ok(()));
        assert_eq!(check(header(command::READ, 4096, 512)), Err(error::EINVAL));
        assert_eq!(
            check(header(command::READ, u64::MAX, 512)),
            Err(error::EINVAL)
        );
        assert_eq!(check(header(command::WRITE, 4096, 512)), Err(error::ENOSPC));
        assert_eq!(check(header(command::READ, 0, 0)), Err(error::EINVAL));
        assert_eq!(
            check(header(command::READ, 0, PAYLOAD_BYTES_MAX + 1)),
            Err(error::EINVAL)
        );
        assert_eq!(check(header(command::FLUSH, 0, 0)), Ok(()));
        assert_eq!(check(header(99, 0, 512)), Err(error::EINVAL));
        let flagged = RequestHeader {
            flags: 1 << 9,
            ..header(command::READ, 0, 512)
        };
        assert_eq!(check(flagged), Err(error::EINVAL));
    }
}
