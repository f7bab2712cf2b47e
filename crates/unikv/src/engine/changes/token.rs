//! Positions among the changes of a database.

use crate::error::{Error, Result};
use std::fmt;
use std::str::FromStr;

/// A position among the changes of a database: everything up to it has been seen.
///
/// It can be stored as text (`Display` and `FromStr`) or as bytes, and holds across restarts. It
/// belongs to one history: after a crash, a restore or in a copy of the database, a token that
/// knows of writes which are not there is refused.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct ChangeToken {
    pub(crate) incarnation: u64,
    pub(crate) seq: u64,
}

impl ChangeToken {
    /// The incarnation of the database: another one after each opening.
    pub fn incarnation(&self) -> u64 {
        self.incarnation
    }

    /// The sequence number up to which everything has been seen.
    pub fn seq(&self) -> u64 {
        self.seq
    }

    /// The token as 16 bytes.
    pub fn to_bytes(&self) -> [u8; 16] {
        (u128::from(self.incarnation) << 64 | u128::from(self.seq)).to_be_bytes()
    }

    /// The token that these bytes are.
    pub fn from_bytes(bytes: [u8; 16]) -> ChangeToken {
        let both = u128::from_be_bytes(bytes);
        ChangeToken {
            incarnation: (both >> 64) as u64,
            seq: both as u64,
        }
    }
}

impl fmt::Display for ChangeToken {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{:016x}-{}", self.incarnation, self.seq)
    }
}

impl FromStr for ChangeToken {
    type Err = Error;

    /// Errors: `InvalidArgument` for a text that is no token.
    fn from_str(text: &str) -> Result<ChangeToken> {
        let parsed = text.split_once('-').and_then(|(incarnation, seq)| {
            let is_hex = incarnation.bytes().all(|b| b.is_ascii_hexdigit());
            let is_right = is_hex && incarnation.len() == 16;
            Some(ChangeToken {
                incarnation: u64::from_str_radix(incarnation, 16)
                    .ok()
                    .filter(|_| is_right)?,
                seq: seq
                    .bytes()
                    .all(|b| b.is_ascii_digit())
                    .then(|| seq.parse().ok())??,
            })
        });
        parsed.ok_or_else(|| {
            Error::invalid(
                format!("{text:?} is no token of a change"),
                "give one as it was printed",
            )
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_token_is_read_as_it_was_written() {
        for (incarnation, seq) in [(0, 0), (7, 1 << 55), (u64::MAX, u64::MAX)] {
            let token = ChangeToken { incarnation, seq };
            assert_eq!(ChangeToken::from_bytes(token.to_bytes()), token);
            assert_eq!(token.to_string().parse::<ChangeToken>().unwrap(), token);
        }
        for bad in [
            "",
            "-",
            "7-7",
            "0000000000000007-",
            "000000000000000+-7",
            "0000000000000007-x",
        ] {
            assert!(bad.parse::<ChangeToken>().is_err(), "{bad}");
        }
    }
}
