//! The file `POINT`, which says what a point consists of. See `docs/backup.md`.
//!
//! Lines of text, of which the last is the checksum of all before it. Whatever bytes are read
//! decode to a point or to an error, and no name in it leads out of the repository.

use crate::base::checksum::Crc;
use crate::base::keys::{DatabaseId, FileUid};
use crate::engine::checkpoint::DataFile;
use crate::error::{Error, Result};
use crate::version::file_names::{self, FileName};
use bytes::Bytes;
use std::fmt::Write;
use std::path::Path;

/// Its name.
pub(super) const POINT: &str = "POINT";

const HEADER: &str = "UniKV backup point";
const VERSION: u32 = 1;
/// Nobody has as many files.
pub(super) const MOST_BYTES: u64 = 1 << 30;

/// What a repository holds: a state of the database to which it can be restored.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct Point {
    /// Its number; greater ones are later.
    pub number: u64,
    /// When it was made by the clock of the database, in milliseconds since 1970.
    pub time_ms: u64,
    /// It holds every write up to this sequence number, and none after it.
    pub seq: u64,
    /// The commit tag of the newest of these writes that had one.
    pub commit_tag: Option<Bytes>,
    pub(super) database: DatabaseId,
    pub(super) files: Vec<PointFile>,
}

/// A file of a point.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct PointFile {
    /// In the database.
    pub(super) name: String,
    /// Of a data file, which points share. `None`: it stands beside `POINT`.
    pub(super) uid: Option<FileUid>,
    pub(super) bytes: u64,
    pub(super) checksum: u32,
}

impl PointFile {
    pub(super) fn of_data(file: &DataFile<'_>) -> PointFile {
        PointFile {
            name: file.name(),
            uid: Some(file.uid),
            bytes: file.len,
            checksum: file.checksum,
        }
    }

    /// The name of a data file among those that points share: what makes it this file and no other.
    pub(super) fn shared_name(&self) -> Option<String> {
        let (_, extension) = self.name.rsplit_once('.')?;
        let PointFile {
            bytes, checksum, ..
        } = self;
        let uid = self.uid?.0;
        Some(format!("{uid:016x}-{checksum:08x}-{bytes}.{extension}"))
    }
}

impl Point {
    /// How many files it consists of.
    pub fn files(&self) -> usize {
        self.files.len()
    }

    /// How many bytes it has when it is restored.
    pub fn bytes(&self) -> u64 {
        let bytes = self.files.iter().map(|file| file.bytes);
        bytes.fold(0, u64::saturating_add)
    }

    /// The names of its data files among those that points share.
    pub(super) fn shared_names(&self) -> impl Iterator<Item = String> {
        self.files.iter().filter_map(PointFile::shared_name)
    }

    pub(super) fn encode(&self) -> String {
        let mut out = format!("{HEADER} {VERSION}\n");
        let mut line = |text: std::fmt::Arguments<'_>| {
            let _never = writeln!(out, "{text}");
        };
        line(format_args!("number {}", self.number));
        line(format_args!("database {}", hex(&self.database.0)));
        line(format_args!("time {}", self.time_ms));
        line(format_args!("seq {}", self.seq));
        if let Some(commit_tag) = &self.commit_tag {
            line(format_args!("commit_tag {}", hex(commit_tag)));
        }
        for PointFile {
            name,
            uid,
            bytes,
            checksum,
        } in &self.files
        {
            match uid {
                Some(FileUid(uid)) => line(format_args!(
                    "data {name} {bytes} {checksum:08x} {uid:016x}"
                )),
                None => line(format_args!("own {name} {bytes} {checksum:08x}")),
            }
        }
        let checksum = Crc::default().update(out.as_bytes()).raw();
        let _never = writeln!(out, "checksum {checksum:08x}");
        out
    }

    /// Decodes the file at `path`.
    pub(super) fn decode(bytes: &[u8], path: &Path) -> Result<Point> {
        let text = checked_text(bytes, path)?;
        let damaged = |what: String| Error::corruption(path, 0, what);
        let newer = |what: String| {
            let remedy = "read the repository with the newer release that wrote it";
            Error::incompatible(path, what, remedy)
        };
        let mut lines = text.lines();
        let version = lines.next().and_then(|line| line.strip_prefix(HEADER));
        let version = version.and_then(|version| version.trim().parse::<u32>().ok());
        match version {
            Some(VERSION) => {}
            Some(other) => return Err(newer(format!("version {other} of a backup point"))),
            None => return Err(damaged("this is no backup point".to_owned())),
        }
        let mut point = Point {
            number: 0,
            time_ms: 0,
            seq: 0,
            commit_tag: None,
            database: DatabaseId([0; 16]),
            files: Vec::new(),
        };
        for line in lines {
            let (word, rest) = line.split_once(' ').unwrap_or((line, ""));
            let wrong = || damaged(format!("the line `{line}` is malformed"));
            let number = || rest.parse::<u64>().map_err(|_| wrong());
            match word {
                "number" => point.number = number()?,
                "time" => point.time_ms = number()?,
                "seq" => point.seq = number()?,
                "commit_tag" => point.commit_tag = Some(unhex(rest).ok_or_else(wrong)?.into()),
                "database" => {
                    let id = unhex(rest).and_then(|id| id.try_into().ok());
                    point.database = DatabaseId(id.ok_or_else(wrong)?);
                }
                "data" => point.files.push(data_file(rest).ok_or_else(wrong)?),
                "own" => point.files.push(own_file(rest).ok_or_else(wrong)?),
                _ => return Err(newer(format!("the unknown line `{line}`"))),
            }
        }
        Ok(point)
    }
}

/// The text before the last line, which is its checksum.
fn checked_text<'a>(bytes: &'a [u8], path: &Path) -> Result<&'a str> {
    let damaged = |what: &str| Error::corruption(path, 0, what);
    let text = std::str::from_utf8(bytes).map_err(|_| damaged("this is no text"))?;
    let whole = text.strip_suffix('\n');
    let whole = whole.ok_or_else(|| damaged("the file does not end with a line"))?;
    let at = whole.rfind('\n').map_or(0, |at| at + 1);
    let (body, last) = text.split_at(at);
    let said = last
        .trim_end()
        .strip_prefix("checksum ")
        .and_then(fixed_hex);
    let is = Crc::default().update(body.as_bytes()).raw();
    match said {
        Some(said) if said == u64::from(is) => Ok(body),
        _ => Err(damaged("the file's checksum does not match")),
    }
}

fn data_file(rest: &str) -> Option<PointFile> {
    let mut words = rest.split(' ');
    let mut file = named_file(&mut words)?;
    let is_data = matches!(
        file_names::parse(&file.name)?,
        FileName::Record(_) | FileName::KeyTable(_)
    );
    file.uid = Some(FileUid(fixed_hex(words.next()?)?));
    (is_data && words.next().is_none()).then_some(file)
}

fn own_file(rest: &str) -> Option<PointFile> {
    let mut words = rest.split(' ');
    let file = named_file(&mut words)?;
    let is_own = matches!(
        file_names::parse(&file.name)?,
        FileName::Wal(_) | FileName::Manifest(_) | FileName::Current
    );
    (is_own && words.next().is_none()).then_some(file)
}

fn named_file<'a>(words: &mut impl Iterator<Item = &'a str>) -> Option<PointFile> {
    Some(PointFile {
        name: words.next()?.to_owned(),
        uid: None,
        bytes: words.next()?.parse().ok()?,
        checksum: u32::try_from(fixed_hex(words.next()?)?).ok()?,
    })
}

/// A number in hexadecimal digits, in the one spelling that [`Point::encode`] gives it.
fn fixed_hex(text: &str) -> Option<u64> {
    let is_hex = text
        .bytes()
        .all(|b| b.is_ascii_digit() || (b'a'..=b'f').contains(&b));
    (is_hex && matches!(text.len(), 8 | 16)).then(|| u64::from_str_radix(text, 16).ok())?
}

pub(super) fn hex(bytes: &[u8]) -> String {
    bytes.iter().fold(String::new(), |mut out, byte| {
        let _never = write!(out, "{byte:02x}");
        out
    })
}

pub(super) fn unhex(text: &str) -> Option<Vec<u8>> {
    let digit = |byte: u8| char::from(byte).to_digit(16);
    let pairs = text.as_bytes().chunks(2);
    let byte = |pair: &[u8]| match pair {
        [high, low] => u8::try_from(digit(*high)? * 16 + digit(*low)?).ok(),
        _ => None,
    };
    pairs.map(byte).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::error::ErrorKind;

    fn point() -> Point {
        let file = |name: &str, uid| PointFile {
            name: name.to_owned(),
            uid,
            bytes: 12_345,
            checksum: 0x0000_beef,
        };
        Point {
            number: 7,
            time_ms: 1_764_163_200_000,
            seq: 99,
            commit_tag: Some(Bytes::from_static(b"\0mark")),
            database: DatabaseId([0xa5; 16]),
            files: vec![
                file("000012.rec", Some(FileUid(0x0123_4567_89ab_cdef))),
                file("000013.key", Some(FileUid(1))),
                file("000014.wal", None),
                file("MANIFEST-000015", None),
                file("CURRENT", None),
            ],
        }
    }

    #[test]
    fn a_point_survives_encoding_and_every_flipped_bit_is_refused() {
        let path = Path::new("POINT");
        let text = point().encode();
        assert_eq!(Point::decode(text.as_bytes(), path).unwrap(), point());
        for bit in 0..text.len() * 8 {
            let mut bytes = text.clone().into_bytes();
            bytes[bit / 8] ^= 1 << (bit % 8);
            Point::decode(&bytes, path).unwrap_err();
        }
        for len in 0..text.len() {
            Point::decode(&text.as_bytes()[..len], path).unwrap_err();
        }
        let shared = point().files[0].shared_name().unwrap();
        assert_eq!(shared, "0123456789abcdef-0000beef-12345.rec");
        assert_eq!(point().files[2].shared_name(), None);
    }

    /// The text with another line, and the checksum that belongs to it.
    fn with_line(line: &str) -> String {
        let text = point().encode();
        let body = &text[..text.rfind("checksum").unwrap()];
        let body = format!("{body}{line}\n");
        let checksum = Crc::default().update(body.as_bytes()).raw();
        format!("{body}checksum {checksum:08x}\n")
    }

    #[test]
    fn lines_that_lead_elsewhere_or_are_of_a_newer_release_are_refused() {
        let path = Path::new("POINT");
        for line in [
            "own ../../etc/passwd 1 00000000",
            "own 000012.rec 1 00000000",
            "own LOCK 1 00000000",
            "data 000012.wal 1 00000000 0000000000000001",
            "data /000012.rec 1 00000000 0000000000000001",
            "data 000012.rec 1 0000 0000000000000001",
            "data 000012.rec -1 00000000 0000000000000001",
            "commit_tag 123",
            "database 00",
            "seq x",
        ] {
            let error = Point::decode(with_line(line).as_bytes(), path).unwrap_err();
            assert_eq!(error.kind(), ErrorKind::Corruption, "{line}: {error}");
        }
        let error = Point::decode(with_line("codec 7").as_bytes(), path).unwrap_err();
        assert_eq!(error.kind(), ErrorKind::Incompatible, "{error}");
    }
}
