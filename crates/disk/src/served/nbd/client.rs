//! A client: one thread sends, another receives, many requests in flight.

use std::collections::HashMap;
use std::io::{self, Read, Write};
use std::os::unix::net::UnixStream;
use std::path::Path;
use std::sync::{Arc, Mutex, PoisonError};
use std::thread;

use super::connection::serve;
use super::protocol::{
    EXPORT_NAME, FIXED_NEWSTYLE, Fields, NO_ZEROES, OPTION_BYTES_MAX, OPTION_MAGIC,
    OPTION_REPLY_MAGIC, REPLY_BYTES, RequestHeader, SERVER_MAGIC, command, info, option,
    parse_simple_reply, reply,
};
use crate::served::server::Server;

/// The sending half.
pub struct Sender {
    socket: UnixStream,
    reads: Arc<Mutex<HashMap<u64, u32>>>,
    size_bytes: u64,
}

/// The receiving half.
pub struct Receiver {
    socket: UnixStream,
    /// How much each read that is outstanding brings.
    reads: Arc<Mutex<HashMap<u64, u32>>>,
}

/// An answer.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Answer {
    /// The request's.
    pub cookie: u64,
    /// 0, or the protocol's number.
    pub error: u32,
    /// What was read.
    pub data: Vec<u8>,
}

fn nonsense() -> io::Error {
    io::Error::new(
        io::ErrorKind::InvalidData,
        "the server does not speak the NBD protocol",
    )
}

/// Connects to the disk behind the socket at `path`.
///
/// # Errors
/// Those of the socket; [`InvalidData`](io::ErrorKind::InvalidData) where the
/// server says what the protocol does not allow.
pub fn connect(path: &Path) -> io::Result<(Sender, Receiver)> {
    begin(UnixStream::connect(path)?)
}

/// Connects to a disk of this process, without a path.
///
/// # Errors
/// As [`connect`], and when the kernel gives no thread.
pub fn connect_within(server: &Arc<Server>) -> io::Result<(Sender, Receiver)> {
    let (ours, theirs) = UnixStream::pair()?;
    let server = Arc::clone(server);
    thread::Builder::new()
        .name("nbd-client".to_owned())
        // It ends when `ours` is closed.
        .spawn(move || serve(&theirs, &server))?;
    begin(ours)
}

fn begin(mut socket: UnixStream) -> io::Result<(Sender, Receiver)> {
    let size_bytes = choose(&mut socket)?;
    let reads = Arc::default();
    let receiver = Receiver {
        socket: socket.try_clone()?,
        reads: Arc::clone(&reads),
    };
    let sender = Sender {
        socket,
        reads,
        size_bytes,
    };
    Ok((sender, receiver))
}

/// Cuts the power of the disk behind the socket at `path`, as
/// [`Server::power_cut`] does: returns when that is done, and how many bytes it
/// took.
///
/// # Errors
/// Those of the socket, and of the cut;
/// [`Unsupported`](io::ErrorKind::Unsupported) where another program serves
/// there.
pub fn cut_power(path: &Path) -> io::Result<u64> {
    let mut socket = UnixStream::connect(path)?;
    greet(&mut socket)?;
    ask(&mut socket, option::POWER_CUT, &[])?;
    let mut took_bytes = None;
    loop {
        match hear(&mut socket, option::POWER_CUT)? {
            (reply::INFO, data) => took_bytes = Fields(&data).u64(),
            (reply::ACK, _) => return took_bytes.ok_or_else(nonsense),
            (reply::ERROR_SHUTDOWN, why) => {
                return Err(io::Error::other(String::from_utf8_lossy(&why).into_owned()));
            }
            _ => return Err(io::ErrorKind::Unsupported.into()),
        }
    }
}

/// Goes through the handshake; gives the size.
fn choose(socket: &mut UnixStream) -> io::Result<u64> {
    greet(socket)?;
    let mut wanted = (EXPORT_NAME.len() as u32).to_be_bytes().to_vec();
    wanted.extend(EXPORT_NAME.as_bytes());
    wanted.extend(0u16.to_be_bytes());
    ask(socket, option::GO, &wanted)?;
    let mut size_bytes = None;
    loop {
        let (kind, data) = hear(socket, option::GO)?;
        let mut fields = Fields(&data);
        match kind {
            reply::INFO if fields.u16() == Some(info::EXPORT) => size_bytes = fields.u64(),
            reply::INFO => {}
            reply::ACK => return size_bytes.ok_or_else(nonsense),
            _ => {
                return Err(io::Error::new(
                    io::ErrorKind::NotFound,
                    "the server does not have the export",
                ));
            }
        }
    }
}

fn greet(socket: &mut UnixStream) -> io::Result<()> {
    let mut hello = [0; 18];
    socket.read_exact(&mut hello)?;
    let mut fields = Fields(&hello);
    if (fields.u64(), fields.u64()) != (Some(SERVER_MAGIC), Some(OPTION_MAGIC)) {
        return Err(nonsense());
    }
    socket.write_all(&u32::from(FIXED_NEWSTYLE | NO_ZEROES).to_be_bytes())
}

fn ask(socket: &mut UnixStream, number: u32, data: &[u8]) -> io::Result<()> {
    let mut message = OPTION_MAGIC.to_be_bytes().to_vec();
    message.extend(number.to_be_bytes());
    message.extend((data.len() as u32).to_be_bytes());
    message.extend(data);
    socket.write_all(&message)
}

/// One answer to an option: its kind and data.
fn hear(socket: &mut UnixStream, asked: u32) -> io::Result<(u32, Vec<u8>)> {
    let mut header = [0; 20];
    socket.read_exact(&mut header)?;
    let mut fields = Fields(&header);
    let (magic, number) = (fields.u64(), fields.u32());
    let (Some(OPTION_REPLY_MAGIC), Some(kind), Some(length)) = (magic, fields.u32(), fields.u32())
    else {
        return Err(nonsense());
    };
    if number != Some(asked) || length > OPTION_BYTES_MAX {
        return Err(nonsense());
    }
    let mut data = vec![0; length as usize];
    socket.read_exact(&mut data)?;
    Ok((kind, data))
}

impl Sender {
    /// Of the disk.
    pub fn size_bytes(&self) -> u64 {
        self.size_bytes
    }

    /// Sends a read.
    ///
    /// # Errors
    /// Those of the socket.
    pub fn read(&mut self, cookie: u64, offset: u64, length: u32) -> io::Result<()> {
        let mut reads = self.reads.lock().unwrap_or_else(PoisonError::into_inner);
        reads.insert(cookie, length);
        drop(reads);
        self.send(command::READ, 0, cookie, (offset, length), &[])
    }

    /// Sends a write, durable or not.
    ///
    /// # Errors
    /// Those of the socket.
    pub fn write(
        &mut self,
        cookie: u64,
        offset: u64,
        data: &[u8],
        durable: bool,
    ) -> io::Result<()> {
        let flags = if durable { command::FLAG_FUA } else { 0 };
        let range = (offset, data.len() as u32);
        self.send(command::WRITE, flags, cookie, range, data)
    }

    /// Sends a flush.
    ///
    /// # Errors
    /// Those of the socket.
    pub fn flush(&mut self, cookie: u64) -> io::Result<()> {
        self.send(command::FLUSH, 0, cookie, (0, 0), &[])
    }

    /// Says good-bye. Answers to what was sent before still come.
    ///
    /// # Errors
    /// Those of the socket.
    pub fn disconnect(&mut self) -> io::Result<()> {
        self.send(command::DISCONNECT, 0, 0, (0, 0), &[])
    }

    fn send(
        &mut self,
        command: u16,
        flags: u16,
        cookie: u64,
        (offset, length): (u64, u32),
        data: &[u8],
    ) -> io::Result<()> {
        let header = RequestHeader {
            flags,
            command,
            cookie,
            offset,
            length,
        };
        let mut message = header.bytes();
        message.extend(data);
        self.socket.write_all(&message)
    }
}

impl Receiver {
    /// Waits for the next answer; they come in any order.
    ///
    /// # Errors
    /// Those of the socket, [`UnexpectedEof`](io::ErrorKind::UnexpectedEof)
    /// when the server is gone.
    pub fn receive(&mut self) -> io::Result<Answer> {
        let mut header = [0; REPLY_BYTES];
        self.socket.read_exact(&mut header)?;
        let (error, cookie) = parse_simple_reply(&header).ok_or_else(nonsense)?;
        let mut reads = self.reads.lock().unwrap_or_else(PoisonError::into_inner);
        let length = reads.remove(&cookie).unwrap_or(0);
        drop(reads);
        let mut data = Vec::new();
        if error == 0 {
            data.resize(length as usize, 0);
            self.socket.read_exact(&mut data)?;
        }
        Ok(Answer {
            cookie,
            error,
            data,
        })
    }
}
