//! Numbers of the specification, and messages to and from bytes. All are
//! big-endian.

/// What the disk is called; the empty name, the default export, is it too.
pub const EXPORT_NAME: &str = "disk";

/// `NBDMAGIC`.
pub const SERVER_MAGIC: u64 = 0x4e42_444d_4147_4943;
/// `IHAVEOPT`.
pub const OPTION_MAGIC: u64 = 0x4948_4156_454f_5054;
pub const OPTION_REPLY_MAGIC: u64 = 0x0003_e889_0455_65a9;
pub const REQUEST_MAGIC: u32 = 0x2560_9513;
pub const SIMPLE_REPLY_MAGIC: u32 = 0x6744_6698;

/// Handshake flags of the server, and those of the client with the same bits.
pub const FIXED_NEWSTYLE: u16 = 1 << 0;
pub const NO_ZEROES: u16 = 1 << 1;

pub mod option {
    pub const EXPORT_NAME: u32 = 1;
    pub const ABORT: u32 = 2;
    pub const LIST: u32 = 3;
    pub const INFO: u32 = 6;
    pub const GO: u32 = 7;
    /// Not in the specification, and far from its numbers: cut the power. What
    /// the cut took comes back as eight bytes of an `INFO` of the same number.
    pub const POWER_CUT: u32 = 0x6375_7400;
}

pub mod reply {
    pub const ACK: u32 = 1;
    pub const SERVER: u32 = 2;
    pub const INFO: u32 = 3;
    pub const ERROR: u32 = 1 << 31;
    pub const ERROR_UNSUPPORTED: u32 = ERROR + 1;
    pub const ERROR_INVALID: u32 = ERROR + 3;
    pub const ERROR_UNKNOWN: u32 = ERROR + 6;
    pub const ERROR_SHUTDOWN: u32 = ERROR + 7;
}

pub mod info {
    pub const EXPORT: u16 = 0;
    pub const BLOCK_SIZE: u16 = 3;
}

pub mod transmission {
    pub const HAS_FLAGS: u16 = 1 << 0;
    pub const SEND_FLUSH: u16 = 1 << 2;
    pub const SEND_FUA: u16 = 1 << 3;
    pub const ROTATIONAL: u16 = 1 << 4;
    /// A flush on one connection covers what others wrote.
    pub const CAN_MULTI_CONN: u16 = 1 << 8;
}

pub mod command {
    pub const READ: u16 = 0;
    pub const WRITE: u16 = 1;
    pub const DISCONNECT: u16 = 2;
    pub const FLUSH: u16 = 3;

    pub const FLAG_FUA: u16 = 1 << 0;
}

pub mod error {
    pub const EPERM: u32 = 1;
    pub const EIO: u32 = 5;
    pub const ENOMEM: u32 = 12;
    pub const EINVAL: u32 = 22;
    pub const ENOSPC: u32 = 28;
    pub const ESHUTDOWN: u32 = 108;
}

/// Longest read or write: what the specification lets clients count on.
pub const PAYLOAD_BYTES_MAX: u32 = 32 << 20;
/// Longest data of an option: a name of 4096 bytes, and what stands around it.
pub const OPTION_BYTES_MAX: u32 = 8192;

/// Bytes of a request without what is written.
pub const REQUEST_BYTES: usize = 28;
/// Bytes of an answer without what was read.
pub const REPLY_BYTES: usize = 16;

/// The export, as clients see it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Export {
    pub size_bytes: u64,
    pub block_bytes: u32,
    pub rotating: bool,
}

impl Export {
    pub fn transmission_flags(self) -> u16 {
        let rotational = if self.rotating {
            transmission::ROTATIONAL
        } else {
            0
        };
        transmission::HAS_FLAGS
            | transmission::SEND_FLUSH
            | transmission::SEND_FUA
            | transmission::CAN_MULTI_CONN
            | rotational
    }
}

/// Takes integers off a message; `None` when it is too short.
pub struct Fields<'a>(pub &'a [u8]);

impl<'a> Fields<'a> {
    pub fn take(&mut self, length: usize) -> Option<&'a [u8]> {
        let (taken, rest) = self.0.split_at_checked(length)?;
        self.0 = rest;
        Some(taken)
    }

    pub fn u16(&mut self) -> Option<u16> {
        Some(u16::from_be_bytes(self.take(2)?.try_into().ok()?))
    }

    pub fn u32(&mut self) -> Option<u32> {
        Some(u32::from_be_bytes(self.take(4)?.try_into().ok()?))
    }

    pub fn u64(&mut self) -> Option<u64> {
        Some(u64::from_be_bytes(self.take(8)?.try_into().ok()?))
    }
}

/// A request in the transmission phase.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct RequestHeader {
    pub flags: u16,
    pub command: u16,
    pub cookie: u64,
    pub offset: u64,
    pub length: u32,
}

impl RequestHeader {
    /// `None` where the magic is not there: the client cannot be understood
    /// any more.
    pub fn parse(bytes: &[u8; REQUEST_BYTES]) -> Option<RequestHeader> {
        let mut fields = Fields(bytes);
        if fields.u32()? != REQUEST_MAGIC {
            return None;
        }
        Some(RequestHeader {
            flags: fields.u16()?,
            command: fields.u16()?,
            cookie: fields.u64()?,
            offset: fields.u64()?,
            length: fields.u32()?,
        })
    }

    pub fn bytes(&self) -> Vec<u8> {
        let mut bytes = Vec::with_capacity(REQUEST_BYTES);
        bytes.extend(REQUEST_MAGIC.to_be_bytes());
        bytes.extend(self.flags.to_be_bytes());
        bytes.extend(self.command.to_be_bytes());
        bytes.extend(self.cookie.to_be_bytes());
        bytes.extend(self.offset.to_be_bytes());
        bytes.extend(self.length.to_be_bytes());
        bytes
    }
}

pub fn simple_reply(error: u32, cookie: u64) -> [u8; REPLY_BYTES] {
    let mut bytes = [0; REPLY_BYTES];
    bytes[..4].copy_from_slice(&SIMPLE_REPLY_MAGIC.to_be_bytes());
    bytes[4..8].copy_from_slice(&error.to_be_bytes());
    bytes[8..].copy_from_slice(&cookie.to_be_bytes());
    bytes
}

/// Error and cookie; `None` where the magic is not there.
pub fn parse_simple_reply(bytes: &[u8; REPLY_BYTES]) -> Option<(u32, u64)> {
    let mut fields = Fields(bytes);
    (fields.u32()? == SIMPLE_REPLY_MAGIC).then_some(())?;
    Some((fields.u32()?, fields.u64()?))
}

/// The data of `INFO` and `GO`: a name, and what the client asks for besides.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct InfoRequest<'a> {
    pub name: &'a [u8],
    pub block_size: bool,
}

impl<'a> InfoRequest<'a> {
    /// `None` where the lengths do not agree.
    pub fn parse(data: &'a [u8]) -> Option<InfoRequest<'a>> {
        let mut fields = Fields(data);
        let name_length = fields.u32()?;
        let name = fields.take(name_length as usize)?;
        let count = fields.u16()?;
        let mut block_size = false;
        for _ in 0..count {
            block_size |= fields.u16()? == info::BLOCK_SIZE;
        }
        fields
            .0
            .is_empty()
            .then_some(InfoRequest { name, block_size })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_request_survives_its_bytes() {
        let request = RequestHeader {
            flags: command::FLAG_FUA,
            command: command::WRITE,
            cookie: 0x0123_4567_89ab_cdef,
            offset: 1 << 40,
            length: 4096,
        };
        let mut bytes: [u8; REQUEST_BYTES] = request.bytes().try_into().unwrap();
        assert_eq!(RequestHeader::parse(&bytes), Some(request));
        bytes[0] ^= 1;
        assert_eq!(RequestHeader::parse(&bytes), None);
    }

    #[test]
    fn an_answer_survives_its_bytes() {
        let mut bytes = simple_reply(error::EIO, 7);
        assert_eq!(parse_simple_reply(&bytes), Some((error::EIO, 7)));
        bytes[3] = 0;
        assert_eq!(parse_simple_reply(&bytes), None);
    }

    #[test]
    fn lengths_that_do_not_agree_are_refused() {
        let good = [0, 0, 0, 2, b'a', b'b', 0, 1, 0, 3];
        let parsed = InfoRequest::parse(&good).unwrap();
        assert_eq!((parsed.name, parsed.block_size), (&b"ab"[..], true));
        for length in 0..good.len() {
            assert_eq!(InfoRequest::parse(&good[..length]), None, "{length}");
        }
        assert_eq!(InfoRequest::parse(&[0xff; 12]), None);
        let long: Vec<u8> = good.iter().copied().chain([0]).collect();
        assert_eq!(InfoRequest::parse(&long), None);
    }
}
