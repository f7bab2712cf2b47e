//! Records as lines of text: the grammar that `dump` and `scan` write and `load` reads. It is in
//! `docs/format.md`, "Dumps". Either form carries any bytes there and back.

mod keyspace;

pub use keyspace::{KeyspaceLine, write_keyspace};

use clap::ValueEnum;
use serde::{Deserialize, Serialize};
use serde_json::Value;
use std::borrow::Cow;
use std::io::{self, Write};

/// The form of one record.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub enum Form {
    /// Key, tab, value, with backslash escapes
    Tsv,
    /// One JSON object per line
    Jsonl,
}

/// What a line was.
#[derive(Debug, PartialEq, Eq)]
pub enum Line {
    /// A record: it is in the buffers of the caller. This is when it expires, in milliseconds since
    /// 1970, if it does.
    Record(Option<u64>),
    /// The lines from here on are of this keyspace.
    Keyspace(KeyspaceLine),
}

#[derive(Default, Serialize, Deserialize)]
struct JsonLine<'a> {
    #[serde(default, skip_serializing_if = "Option::is_none")]
    key: Option<Cow<'a, str>>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    value: Option<Cow<'a, str>>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    encoding: Option<Cow<'a, str>>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    expires: Option<u64>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    keyspace: Option<Cow<'a, str>>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    options: Option<keyspace::JsonOptions>,
}

/// What begins the line of a record that expires in TSV. `\e` is no escape that a key may have.
const EXPIRES: &[u8] = b"\\expires\t";
/// In JSON lines, the encodings of a record that expires: releases without expiry refuse these.
const EXPIRING_TEXT: &str = "utf-8";
const EXPIRING_HEX: &str = "base16";

const HEX: &[u8; 16] = b"0123456789abcdef";

/// Writes `bytes` in lower-case hexadecimal.
pub fn to_hex(bytes: &[u8]) -> String {
    let mut text = String::with_capacity(2 * bytes.len());
    for byte in bytes {
        text.push(char::from(HEX[usize::from(byte >> 4)]));
        text.push(char::from(HEX[usize::from(byte & 15)]));
    }
    text
}

/// Reads hexadecimal, in either case.
pub fn from_hex(text: &str) -> Result<Vec<u8>, String> {
    let text = text.as_bytes();
    if !text.len().is_multiple_of(2) {
        return Err("hexadecimal needs two digits for each byte".to_owned());
    }
    text.chunks_exact(2)
        .map(|pair| hex_byte(pair).ok_or_else(|| "not hexadecimal".to_owned()))
        .collect()
}

fn hex_byte(pair: &[u8]) -> Option<u8> {
    let digit = |byte: u8| char::from(byte).to_digit(16);
    let (high, low) = (digit(*pair.first()?)?, digit(*pair.get(1)?)?);
    u8::try_from(high << 4 | low).ok()
}

/// Writes one record, or its key alone, as a line.
pub fn write_record(
    out: &mut impl Write,
    form: Form,
    key: &[u8],
    value: Option<&[u8]>,
) -> io::Result<()> {
    match form {
        Form::Tsv => {
            write_escaped(out, key)?;
            if let Some(value) = value {
                out.write_all(b"\t")?;
                write_escaped(out, value)?;
            }
        }
        Form::Jsonl => serde_json::to_writer(&mut *out, &json_record(key, value))?,
    }
    out.write_all(b"\n")
}

/// Writes one record, which may expire, as a line.
pub fn write_expiring(
    out: &mut impl Write,
    form: Form,
    key: &[u8],
    value: &[u8],
    expires_ms: Option<u64>,
) -> io::Result<()> {
    let Some(ms) = expires_ms else {
        return write_record(out, form, key, Some(value));
    };
    match form {
        Form::Tsv => {
            out.write_all(EXPIRES)?;
            write!(out, "{ms}\t")?;
            write_record(out, form, key, Some(value))
        }
        Form::Jsonl => {
            let record = json_record(key, Some(value));
            let is_hex = record.encoding.is_some();
            let encoding = if is_hex { EXPIRING_HEX } else { EXPIRING_TEXT };
            let record = JsonLine {
                encoding: Some(encoding.into()),
                expires: Some(ms),
                ..record
            };
            serde_json::to_writer(&mut *out, &record)?;
            out.write_all(b"\n")
        }
    }
}

/// A key as it stands in JSON lines: the fields `key`, and `encoding` where it is no text.
pub fn key_to_json(key: &[u8]) -> Value {
    // Text: nothing of it can fail.
    serde_json::to_value(json_record(key, None)).unwrap_or_default()
}

fn json_record<'a>(key: &'a [u8], value: Option<&'a [u8]>) -> JsonLine<'a> {
    let as_text = (
        std::str::from_utf8(key),
        value.map(std::str::from_utf8).transpose(),
    );
    match as_text {
        (Ok(key), Ok(value)) => JsonLine {
            key: Some(key.into()),
            value: value.map(Cow::from),
            ..JsonLine::default()
        },
        _ => JsonLine {
            key: Some(to_hex(key).into()),
            value: value.map(|value| to_hex(value).into()),
            encoding: Some("hex".into()),
            ..JsonLine::default()
        },
    }
}

/// Writes bytes as they stand in TSV.
pub fn write_escaped(out: &mut impl Write, bytes: &[u8]) -> io::Result<()> {
    for chunk in bytes.utf8_chunks() {
        write_escaped_text(out, chunk.valid())?;
        for byte in chunk.invalid() {
            write!(out, "\\x{byte:02x}")?;
        }
    }
    Ok(())
}

fn write_escaped_text(out: &mut impl Write, text: &str) -> io::Result<()> {
    // Runs without anything to escape go out whole.
    let mut rest = text;
    while let Some(at) = rest.find(|c: char| c == '\\' || c.is_control()) {
        let (plain, tail) = rest.split_at(at);
        out.write_all(plain.as_bytes())?;
        let Some(special) = tail.chars().next() else {
            break;
        };
        match special {
            '\\' => out.write_all(b"\\\\")?,
            '\t' => out.write_all(b"\\t")?,
            '\n' => out.write_all(b"\\n")?,
            '\r' => out.write_all(b"\\r")?,
            _ => {
                for byte in special.encode_utf8(&mut [0; 4]).bytes() {
                    write!(out, "\\x{byte:02x}")?;
                }
            }
        }
        rest = &tail[special.len_utf8()..];
    }
    out.write_all(rest.as_bytes())
}

/// Reads one line (without its line feed). `key` and `value` are cleared, and take what is in a
/// record.
pub fn read_line(
    line: &[u8],
    form: Form,
    key: &mut Vec<u8>,
    value: &mut Vec<u8>,
) -> Result<Line, String> {
    key.clear();
    value.clear();
    match form {
        Form::Tsv => {
            if let Some(keyspace) = keyspace::read_tsv(line)? {
                return Ok(Line::Keyspace(keyspace));
            }
            let mut expires_ms = None;
            let mut record = line;
            if let Some(rest) = line.strip_prefix(EXPIRES) {
                let (ms, rest) = cut_at_tab(rest).ok_or("there is no tab after the time")?;
                let ms = std::str::from_utf8(ms).ok().and_then(|ms| ms.parse().ok());
                expires_ms = Some(ms.ok_or("the time is no number of milliseconds since 1970")?);
                record = rest;
            }
            let fields = cut_at_tab(record);
            let fields = fields.ok_or("there is no tab between a key and a value")?;
            unescape(fields.0, key)?;
            unescape(fields.1, value)?;
            Ok(Line::Record(expires_ms))
        }
        Form::Jsonl => read_json(line, key, value),
    }
}

/// What is before and after the first tab.
fn cut_at_tab(text: &[u8]) -> Option<(&[u8], &[u8])> {
    let tab = text.iter().position(|&byte| byte == b'\t')?;
    Some((&text[..tab], &text[tab + 1..]))
}

fn read_json(line: &[u8], key: &mut Vec<u8>, value: &mut Vec<u8>) -> Result<Line, String> {
    let line: JsonLine<'_> = serde_json::from_slice(line).map_err(|error| error.to_string())?;
    if let Some(name) = line.keyspace {
        if line.key.is_some() {
            return Err("a \"keyspace\" stands on a line before its records".to_owned());
        }
        let options = line.options.unwrap_or_default();
        return options.of(name.into_owned()).map(Line::Keyspace);
    }
    let key_text = line.key.ok_or("there is no \"key\"")?;
    let text = line.value.ok_or("there is no \"value\"")?;
    let encoding = line.encoding.as_deref();
    let is_expiring = matches!(encoding, Some(EXPIRING_TEXT | EXPIRING_HEX));
    if is_expiring != line.expires.is_some() {
        return Err("\"expires\" goes with the \"encoding\" utf-8 or base16".to_owned());
    }
    match encoding {
        None | Some(EXPIRING_TEXT) => {
            key.extend_from_slice(key_text.as_bytes());
            value.extend_from_slice(text.as_bytes());
        }
        Some("hex" | EXPIRING_HEX) => {
            key.extend(from_hex(&key_text)?);
            value.extend(from_hex(&text)?);
        }
        Some(other) => return Err(format!("unknown \"encoding\" {other:?}; only \"hex\" is")),
    }
    Ok(Line::Record(line.expires))
}

pub fn unescape(mut text: &[u8], out: &mut Vec<u8>) -> Result<(), String> {
    while let Some(at) = text.iter().position(|&byte| byte == b'\\') {
        out.extend_from_slice(&text[..at]);
        text = &text[at + 1..];
        let Some((&letter, rest)) = text.split_first() else {
            return Err("a backslash ends the field; write \\\\".to_owned());
        };
        text = rest;
        match letter {
            b't' => out.push(b'\t'),
            b'n' => out.push(b'\n'),
            b'r' => out.push(b'\r'),
            b'\\' => out.push(b'\\'),
            b'x' => {
                let byte = text.get(..2).and_then(hex_byte);
                out.push(byte.ok_or("\\x needs two hexadecimal digits")?);
                text = &text[2..];
            }
            _ => return Err(format!("unknown escape \\{}", letter.escape_ascii())),
        }
    }
    out.extend_from_slice(text);
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;
    use rand::rngs::SmallRng;
    use rand::{Rng, SeedableRng};

    fn there_and_back(form: Form, key: &[u8], value: &[u8]) {
        let mut line = Vec::new();
        write_record(&mut line, form, key, Some(value)).unwrap();
        assert_eq!(line.pop(), Some(b'\n'));
        assert!(!line.contains(&b'\n') && !line.contains(&b'\r'));
        assert!(std::str::from_utf8(&line).is_ok());
        let (mut read_key, mut read_value) = (b"old".to_vec(), b"old".to_vec());
        let read = read_line(&line, form, &mut read_key, &mut read_value);
        assert_eq!(read, Ok(Line::Record(None)));
        assert_eq!((read_key.as_slice(), read_value.as_slice()), (key, value));
        let mut line = Vec::new();
        write_expiring(&mut line, form, key, value, Some(1_700_000_000_123)).unwrap();
        assert_eq!(line.pop(), Some(b'\n'));
        let read = read_line(&line, form, &mut read_key, &mut read_value);
        assert_eq!(read, Ok(Line::Record(Some(1_700_000_000_123))));
        assert_eq!((read_key.as_slice(), read_value.as_slice()), (key, value));
    }

    #[test]
    fn any_bytes_come_back() {
        let mut rng = SmallRng::seed_from_u64(7);
        let awkward = [
            "",
            "\\",
            "\\x41",
            "\t\n\r\0",
            "häß\u{85}\u{7f}",
            "a\"b{}",
            "\u{10ffff}",
        ];
        for form in [Form::Tsv, Form::Jsonl] {
            for key in awkward {
                for value in awkward {
                    there_and_back(form, key.as_bytes(), value.as_bytes());
                }
            }
            for _ in 0..500 {
                let mut bytes = vec![0_u8; rng.random_range(0..40)];
                rng.fill(bytes.as_mut_slice());
                there_and_back(form, &bytes, &bytes);
            }
        }
    }

    #[test]
    fn what_a_person_sees() {
        let mut line = Vec::new();
        write_record(&mut line, Form::Tsv, b"k\xff\t", Some("ü\u{1}".as_bytes())).unwrap();
        assert_eq!(line, "k\\xff\\t\tü\\x01\n".as_bytes());
        line.clear();
        write_record(&mut line, Form::Jsonl, b"k\xff", Some(b"v")).unwrap();
        assert_eq!(
            line,
            b"{\"key\":\"6bff\",\"value\":\"76\",\"encoding\":\"hex\"}\n"
        );
        line.clear();
        write_record(&mut line, Form::Jsonl, b"k", None).unwrap();
        assert_eq!(line, b"{\"key\":\"k\"}\n");
    }

    #[test]
    fn bad_lines_are_refused() {
        let (mut key, mut value) = (Vec::new(), Vec::new());
        for line in [
            "no tab",
            "k\\\tv",
            "k\tv\\q",
            "k\t\\x4",
            "k\t\\xzz",
            "k\t\\x+1",
            "\\expires\t7\tk",
            "\\expires\tsoon\tk\tv",
            "\\expires\t7",
        ] {
            let read = read_line(line.as_bytes(), Form::Tsv, &mut key, &mut value);
            assert!(read.is_err(), "{line}");
        }
        for line in [
            "{}",
            "{\"key\":\"a\"}",
            "[1]",
            "{\"key\":\"a\",\"value\":\"b\",\"encoding\":\"rot13\"}",
            "{\"key\":\"a\",\"value\":\"b\",\"expires\":7}",
            "{\"key\":\"a\",\"value\":\"b\",\"encoding\":\"utf-8\"}",
            "{\"key\":\"abc\",\"value\":\"00\",\"encoding\":\"hex\"}",
        ] {
            let read = read_line(line.as_bytes(), Form::Jsonl, &mut key, &mut value);
            assert!(read.is_err(), "{line}");
        }
    }
}
