//! How a process comes to the memory: it connects to the broker's socket, shows
//! the token and gets a descriptor.

/// The environment variable that turns the library on:
/// `SOCKET:FILTERS:TOKEN`, the name of an abstract Unix socket, how many filters of system calls the
/// broker lives under, and 32 hexadecimal digits.
pub const ENVIRONMENT: &str = "IOLANE_RUN";

/// Length of the token in characters.
pub const TOKEN_BYTES: usize = 32;

/// What the broker answers, together with the descriptor of the memory.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Welcome {
    /// Which client the process is.
    pub client: u32,
    /// What the broker's clock says: that of a process in another name space of time may say anything else.
    pub now_ns: u64,
}

/// Of a [`Welcome`].
pub const WELCOME_BYTES: usize = 12;

impl Welcome {
    /// As sent.
    pub fn to_bytes(self) -> [u8; WELCOME_BYTES] {
        let mut bytes = [0; WELCOME_BYTES];
        bytes[..4].copy_from_slice(&self.client.to_le_bytes());
        bytes[4..].copy_from_slice(&self.now_ns.to_le_bytes());
        bytes
    }

    /// As received; `None` if it is no client that could be.
    pub fn from_bytes(bytes: [u8; WELCOME_BYTES]) -> Option<Welcome> {
        let client = u32::from_le_bytes(bytes[..4].try_into().ok()?);
        let now_ns = u64::from_le_bytes(bytes[4..].try_into().ok()?);
        ((client as usize) < crate::CLIENTS_MAX).then_some(Welcome { client, now_ns })
    }
}

/// Longest name of the broker's socket.
const SOCKET_NAME_MAX: usize = 64;

/// How to reach the broker.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Address {
    name: [u8; SOCKET_NAME_MAX],
    name_length: usize,
    /// How many filters (seccomp(2)) the broker's process has. One that has more confines itself, or
    /// is confined by one under the same `iolane run`.
    pub filters: u32,
    /// Lets the process in.
    pub token: [u8; TOKEN_BYTES],
}

impl Address {
    /// From the value of [`ENVIRONMENT`]; `None` if it is none.
    pub fn parse(value: &[u8]) -> Option<Address> {
        let mut parts = value.rsplitn(3, |&byte| byte == b':');
        let (token, filters, text) = (parts.next()?, parts.next()?, parts.next()?);
        let filters = str::from_utf8(filters).ok()?.parse().ok()?;
        let token: [u8; TOKEN_BYTES] = token.try_into().ok()?;
        let is_token = token.iter().all(u8::is_ascii_hexdigit);
        if !is_token || !(1..=SOCKET_NAME_MAX).contains(&text.len()) {
            return None;
        }
        let mut name = [0; SOCKET_NAME_MAX];
        name[..text.len()].copy_from_slice(text);
        Some(Address {
            name,
            name_length: text.len(),
            filters,
            token,
        })
    }

    /// Of the abstract socket.
    pub fn name(&self) -> &[u8] {
        &self.name[..self.name_length]
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_variable_is_a_name_a_number_and_a_token() {
        let token = [b'a'; TOKEN_BYTES];
        let value = [b"iolane-1:3:".as_slice(), &token].concat();
        let address = Address::parse(&value).unwrap();
        assert_eq!((address.name(), address.token), (&b"iolane-1"[..], token));
        assert_eq!(address.filters, 3);
        for wrong in [
            &b""[..],
            b"iolane-1",
            b"iolane-1:3:abc",
            &value[8..],
            &value[9..],
        ] {
            assert_eq!(Address::parse(wrong), None);
        }
    }

    #[test]
    fn a_welcome_names_a_client_that_can_be() {
        let welcome = Welcome {
            client: 7,
            now_ns: 1 << 40,
        };
        assert_eq!(Welcome::from_bytes(welcome.to_bytes()), Some(welcome));
        assert_eq!(Welcome::from_bytes([0xff; WELCOME_BYTES]), None);
    }
}
