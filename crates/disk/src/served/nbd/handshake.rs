//! From the connection to the chosen disk.

use std::io::{self, Read, Write};

use super::protocol::{
    EXPORT_NAME, Export, FIXED_NEWSTYLE, Fields, InfoRequest, NO_ZEROES, OPTION_BYTES_MAX,
    OPTION_MAGIC, OPTION_REPLY_MAGIC, PAYLOAD_BYTES_MAX, SERVER_MAGIC, info, option, reply,
};

/// More questions than any client has: one that never ends is let go.
const OPTIONS_MAX: usize = 64;
/// What large transfers should be multiples of.
const PREFERRED_BYTES: u32 = 4096;
/// After the answer to `EXPORT_NAME`, unless both sides know better.
const ZEROES: [u8; 124] = [0; 124];

/// How a handshake ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Outcome {
    /// Requests come now.
    Chosen,
    /// The client has gone, or is to be let go.
    Ended,
}

/// Cuts the disk's power, and says how many bytes that took.
pub type PowerCut<'a> = &'a dyn Fn() -> io::Result<u64>;

/// Agrees with the client on the export, or cuts the power for it.
///
/// # Errors
/// Those of the socket.
pub fn negotiate(
    mut socket: impl Read + Write,
    export: Export,
    power_cut: PowerCut<'_>,
) -> io::Result<Outcome> {
    let mut hello = Vec::new();
    hello.extend(SERVER_MAGIC.to_be_bytes());
    hello.extend(OPTION_MAGIC.to_be_bytes());
    hello.extend((FIXED_NEWSTYLE | NO_ZEROES).to_be_bytes());
    socket.write_all(&hello)?;
    let flags = u32::from_be_bytes(receive(&mut socket)?);
    let known = u32::from(FIXED_NEWSTYLE | NO_ZEROES);
    if flags & !known != 0 {
        return Ok(Outcome::Ended);
    }
    let fixed = flags & u32::from(FIXED_NEWSTYLE) != 0;
    let no_zeroes = flags & u32::from(NO_ZEROES) != 0;
    let mut data = Vec::new();
    for _ in 0..OPTIONS_MAX {
        let header: [u8; 16] = receive(&mut socket)?;
        let mut fields = Fields(&header);
        let (magic, number, length) = (fields.u64(), fields.u32(), fields.u32());
        let (Some(OPTION_MAGIC), Some(number), Some(length)) = (magic, number, length) else {
            return Ok(Outcome::Ended);
        };
        // Without "fixed", the server has no way to refuse an option.
        if length > OPTION_BYTES_MAX || (!fixed && number != option::EXPORT_NAME) {
            return Ok(Outcome::Ended);
        }
        data.resize(length as usize, 0);
        socket.read_exact(&mut data)?;
        if number == option::EXPORT_NAME {
            return export_name(&mut socket, &data, export, no_zeroes);
        }
        if let Some(outcome) = answer(&mut socket, (number, &data), export, power_cut)? {
            return Ok(outcome);
        }
    }
    Ok(Outcome::Ended)
}

fn receive<const N: usize>(socket: &mut impl Read) -> io::Result<[u8; N]> {
    let mut bytes = [0; N];
    socket.read_exact(&mut bytes)?;
    Ok(bytes)
}

fn is_ours(name: &[u8]) -> bool {
    name.is_empty() || name == EXPORT_NAME.as_bytes()
}

/// The old way to choose: no error can be told but by hanging up.
fn export_name(
    socket: &mut impl Write,
    name: &[u8],
    export: Export,
    no_zeroes: bool,
) -> io::Result<Outcome> {
    if !is_ours(name) {
        return Ok(Outcome::Ended);
    }
    let mut message = Vec::new();
    message.extend(export.size_bytes.to_be_bytes());
    message.extend(export.transmission_flags().to_be_bytes());
    if !no_zeroes {
        message.extend(ZEROES);
    }
    socket.write_all(&message)?;
    Ok(Outcome::Chosen)
}

/// Answers an option; gives the outcome of the last one.
fn answer(
    socket: &mut impl Write,
    (number, data): (u32, &[u8]),
    export: Export,
    power_cut: PowerCut<'_>,
) -> io::Result<Option<Outcome>> {
    let mut say = |kind: u32, data: &[u8]| {
        let mut message = Vec::new();
        message.extend(OPTION_REPLY_MAGIC.to_be_bytes());
        message.extend(number.to_be_bytes());
        message.extend(kind.to_be_bytes());
        message.extend((data.len() as u32).to_be_bytes());
        message.extend(data);
        socket.write_all(&message)
    };
    match number {
        option::ABORT => {
            // The client may have hung up already.
            let _ = say(reply::ACK, &[]);
            return Ok(Some(Outcome::Ended));
        }
        option::LIST if data.is_empty() => {
            let mut entry = (EXPORT_NAME.len() as u32).to_be_bytes().to_vec();
            entry.extend(EXPORT_NAME.as_bytes());
            say(reply::SERVER, &entry)?;
            say(reply::ACK, &[])?;
        }
        option::LIST => say(reply::ERROR_INVALID, b"LIST has no data")?,
        option::INFO | option::GO => match InfoRequest::parse(data) {
            None => say(reply::ERROR_INVALID, b"lengths that do not agree")?,
            Some(asked) if !is_ours(asked.name) => {
                say(reply::ERROR_UNKNOWN, b"the export is called \"disk\"")?;
            }
            Some(asked) => {
                let mut facts = info::EXPORT.to_be_bytes().to_vec();
                facts.extend(export.size_bytes.to_be_bytes());
                facts.extend(export.transmission_flags().to_be_bytes());
                say(reply::INFO, &facts)?;
                if asked.block_size {
                    say(reply::INFO, &block_size(export))?;
                }
                say(reply::ACK, &[])?;
                return Ok((number == option::GO).then_some(Outcome::Chosen));
            }
        },
        option::POWER_CUT => match power_cut() {
            Ok(bytes) => {
                say(reply::INFO, &bytes.to_be_bytes())?;
                say(reply::ACK, &[])?;
            }
            Err(error) => say(reply::ERROR_SHUTDOWN, error.to_string().as_bytes())?,
        },
        _ => say(reply::ERROR_UNSUPPORTED, &[])?,
    }
    Ok(None)
}

fn block_size(export: Export) -> Vec<u8> {
    let mut facts = info::BLOCK_SIZE.to_be_bytes().to_vec();
    facts.extend(export.block_bytes.to_be_bytes());
    facts.extend(PREFERRED_BYTES.max(export.block_bytes).to_be_bytes());
    facts.extend(PAYLOAD_BYTES_MAX.to_be_bytes());
    facts
}

#[cfg(test)]
mod tests {
    use super::*;

    const EXPORT: Export = Export {
        size_bytes: 1 << 20,
        block_bytes: 512,
        rotating: false,
    };

    /// A client that has said everything in advance.
    struct Script<'a> {
        says: &'a [u8],
        hears: Vec<u8>,
    }

    impl Read for Script<'_> {
        fn read(&mut self, memory: &mut [u8]) -> io::Result<usize> {
            self.says.read(memory)
        }
    }

    impl Write for Script<'_> {
        fn write(&mut self, data: &[u8]) -> io::Result<usize> {
            self.hears.write(data)
        }

        fn flush(&mut self) -> io::Result<()> {
            Ok(())
        }
    }

    fn talk(says: &[u8]) -> (io::Result<Outcome>, Vec<u8>) {
        let mut script = Script {
            says,
            hears: Vec::new(),
        };
        let outcome = negotiate(&mut script, EXPORT, &|| Ok(7));
        (outcome, script.hears)
    }

    fn said(flags: u32, options: &[(u32, &[u8])]) -> Vec<u8> {
        let mut bytes = flags.to_be_bytes().to_vec();
        for (number, data) in options {
            bytes.extend(OPTION_MAGIC.to_be_bytes());
            bytes.extend(number.to_be_bytes());
            bytes.extend((data.len() as u32).to_be_bytes());
            bytes.extend(*data);
        }
        bytes
    }

    #[test]
    fn the_old_way_ends_with_zeroes_unless_agreed_otherwise() {
        let (outcome, hears) = talk(&said(1, &[(option::EXPORT_NAME, b"")]));
        assert_eq!(outcome.unwrap(), Outcome::Chosen);
        assert_eq!(hears.len(), 18 + 10 + 124);
        let (outcome, hears) = talk(&said(3, &[(option::EXPORT_NAME, b"disk")]));
        assert_eq!(outcome.unwrap(), Outcome::Chosen);
        assert_eq!(hears.len(), 18 + 10);
        let (outcome, _) = talk(&said(3, &[(option::EXPORT_NAME, b"other")]));
        assert_eq!(outcome.unwrap(), Outcome::Ended);
    }

    #[test]
    fn options_are_answered_until_one_chooses() {
        let go = [0, 0, 0, 0, 0, 1, 0, 3];
        let says = said(
            3,
            &[
                (5, b""),
                (option::LIST, b""),
                (option::INFO, &go),
                (option::POWER_CUT, b""),
                (option::GO, b"nonsense"),
                (option::GO, &go),
            ],
        );
        let (outcome, hears) = talk(&says);
        assert_eq!(outcome.unwrap(), Outcome::Chosen);
        let mut fields = Fields(&hears[18..]);
        let mut kinds = Vec::new();
        while let Some(magic) = fields.u64() {
            assert_eq!(magic, OPTION_REPLY_MAGIC);
            let number = fields.u32().unwrap();
            let kind = fields.u32().unwrap();
            let length = fields.u32().unwrap();
            fields.take(length as usize).unwrap();
            kinds.push((number, kind));
        }
        let info = |number| {
            [
                (number, reply::INFO),
                (number, reply::INFO),
                (number, reply::ACK),
            ]
        };
        let mut expected = vec![
            (5, reply::ERROR_UNSUPPORTED),
            (option::LIST, reply::SERVER),
            (option::LIST, reply::ACK),
        ];
        expected.extend(info(option::INFO));
        expected.push((option::POWER_CUT, reply::INFO));
        expected.push((option::POWER_CUT, reply::ACK));
        expected.push((option::GO, reply::ERROR_INVALID));
        expected.extend(info(option::GO));
        assert_eq!(kinds, expected);
    }

    #[test]
    fn what_cannot_be_understood_is_let_go() {
        let endless: Vec<(u32, &[u8])> = vec![(option::LIST, &[]); OPTIONS_MAX + 1];
        let mut long = said(3, &[]);
        long.extend(OPTION_MAGIC.to_be_bytes());
        long.extend(option::GO.to_be_bytes());
        long.extend(u32::MAX.to_be_bytes());
        for says in [
            said(4, &[]),
            said(0, &[(option::LIST, b"")]),
            said(3, &[(option::ABORT, b"")]),
            said(3, &endless),
            long,
            [&said(3, &[])[..], &[7; 16]].concat(),
        ] {
            assert_eq!(talk(&says).0.unwrap(), Outcome::Ended);
        }
        assert!(talk(b"GET").0.is_err());
    }

    /// Whatever the bytes: an end, no panic.
    #[test]
    fn garbage_ends() {
        let mut state = 0x9e37_79b9_7f4a_7c15_u64;
        for round in 0..20_000 {
            let mut says = said(
                3,
                &[(option::INFO, &[0, 0, 0, 0, 0, 0]), (option::GO, b"....")],
            );
            for _ in 0..1 + round % 4 {
                state = state
                    .wrapping_mul(6_364_136_223_846_793_005)
                    .wrapping_add(1);
                let at = (state >> 33) as usize % says.len();
                says[at] = (state >> 24) as u8;
            }
            // No client is left to choose: only the bytes of a choice end well.
            let _ = talk(&says);
        }
    }
}
