//! The line before the records of a keyspace: its name and its options.
//!
//! No record begins so in either form, and a release without keyspaces refuses the line: it does
//! not load what follows into the default keyspace.

use super::{Form, JsonLine, unescape, write_escaped};
use serde::{Deserialize, Serialize};
use std::io::{self, Write};
use std::time::Duration;
use unikv::KeyspaceOptions;

/// What begins the line in TSV. `\k` is no escape that a key may have.
const MARK: &[u8] = b"\\keyspace\t";
/// What names the options in both forms.
const INLINE: &str = "inline_value_bytes";
const COMPRESSION: &str = "compression";
const TTL: &str = "default_ttl_ms";

/// The keyspace of the records that follow.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct KeyspaceLine {
    pub name: String,
    pub options: KeyspaceOptions,
}

/// The options that are set. An unknown one is refused: it is of a later release.
#[derive(Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct JsonOptions {
    #[serde(default, skip_serializing_if = "Option::is_none")]
    inline_value_bytes: Option<u32>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    compression: Option<String>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    default_ttl_ms: Option<u64>,
}

impl JsonOptions {
    fn set(options: &KeyspaceOptions) -> JsonOptions {
        JsonOptions {
            inline_value_bytes: options.inline_value_bytes,
            compression: options.compression.map(|it| it.to_string()),
            default_ttl_ms: default_ttl_ms(options),
        }
    }

    /// The line for the keyspace of this name.
    pub(super) fn of(self, name: String) -> Result<KeyspaceLine, String> {
        let mut options = KeyspaceOptions::default();
        options.inline_value_bytes = self.inline_value_bytes;
        let compression = self.compression.map(|text| text.parse()).transpose();
        options.compression = compression.map_err(|error: unikv::Error| error.to_string())?;
        options.default_ttl = self.default_ttl_ms.map(Duration::from_millis);
        Ok(KeyspaceLine { name, options })
    }
}

fn default_ttl_ms(options: &KeyspaceOptions) -> Option<u64> {
    let ms = options.default_ttl?.as_millis();
    u64::try_from(ms).ok()
}

/// Writes the line before the records of a keyspace.
pub fn write_keyspace(
    out: &mut impl Write,
    form: Form,
    name: &str,
    options: &KeyspaceOptions,
) -> io::Result<()> {
    match form {
        Form::Tsv => {
            out.write_all(MARK)?;
            write_escaped(out, name.as_bytes())?;
            if let Some(bytes) = options.inline_value_bytes {
                write!(out, "\t{INLINE}={bytes}")?;
            }
            if let Some(compression) = options.compression {
                write!(out, "\t{COMPRESSION}={compression}")?;
            }
            if let Some(ms) = default_ttl_ms(options) {
                write!(out, "\t{TTL}={ms}")?;
            }
        }
        Form::Jsonl => {
            let set = JsonOptions::set(options);
            let line = JsonLine {
                keyspace: Some(name.into()),
                options: (set != JsonOptions::default()).then_some(set),
                ..JsonLine::default()
            };
            serde_json::to_writer(&mut *out, &line)?;
        }
    }
    out.write_all(b"\n")
}

/// Reads a line of TSV, if it is one that begins a keyspace.
pub(super) fn read_tsv(line: &[u8]) -> Result<Option<KeyspaceLine>, String> {
    let Some(fields) = line.strip_prefix(MARK) else {
        return Ok(None);
    };
    let mut fields = fields.split(|&byte| byte == b'\t');
    let mut name = Vec::new();
    unescape(fields.next().unwrap_or_default(), &mut name)?;
    let name = String::from_utf8(name).map_err(|_| "the name of the keyspace is not UTF-8")?;
    let mut options = JsonOptions::default();
    for field in fields {
        let unknown = || format!("unknown option of a keyspace: {}", field.escape_ascii());
        let text = std::str::from_utf8(field).map_err(|_| unknown())?;
        match text.split_once('=') {
            Some((INLINE, bytes)) => {
                let bytes = bytes.parse().map_err(|error| format!("{text}: {error}"))?;
                options.inline_value_bytes = Some(bytes);
            }
            Some((COMPRESSION, name)) => options.compression = Some(name.to_owned()),
            Some((TTL, ms)) => {
                let ms = ms.parse().map_err(|error| format!("{text}: {error}"))?;
                options.default_ttl_ms = Some(ms);
            }
            _ => return Err(unknown()),
        }
    }
    options.of(name).map(Some)
}

#[cfg(test)]
mod tests {
    use super::super::{Line, read_line};
    use super::*;
    use unikv::Compression;

    fn read(line: &str, form: Form) -> Result<Line, String> {
        read_line(line.as_bytes(), form, &mut Vec::new(), &mut Vec::new())
    }

    #[test]
    fn names_and_options_come_back() {
        let none = KeyspaceOptions::default();
        let zstd = KeyspaceOptions::default().compression(Compression::Zstd { level: -3 });
        let ttl = none.clone().default_ttl(Duration::from_millis(1500));
        for options in [none.clone(), ttl.clone().inline_value_bytes(77), ttl, zstd] {
            for name in ["users", "\t\n\\ \"ü\0", "key\tvalue", "a=b"] {
                for form in [Form::Tsv, Form::Jsonl] {
                    let mut line = Vec::new();
                    write_keyspace(&mut line, form, name, &options).unwrap();
                    let line = String::from_utf8(line).unwrap();
                    let text = line.strip_suffix('\n').unwrap();
                    let (name, options) = (name.to_owned(), options.clone());
                    let expected = Line::Keyspace(KeyspaceLine { name, options });
                    assert_eq!(read(text, form), Ok(expected), "{text}");
                }
            }
        }
    }

    #[test]
    fn every_option_is_carried() {
        let every = KeyspaceOptions::default().inline_value_bytes(9);
        let every = every.compression(Compression::Lz4);
        let every = every.default_ttl(Duration::from_secs(9));
        let names = format!("{every:?}").matches(": Some(").count();
        assert_eq!(
            names, 3,
            "a new option needs a place in the lines: {every:?}"
        );
        let debug = format!("{:?}", KeyspaceOptions::default());
        assert_eq!(debug.matches(": None").count(), 3, "{debug}");
    }

    #[test]
    fn what_a_person_sees() {
        let options = KeyspaceOptions::default().inline_value_bytes(1024);
        let line = |form| {
            let mut line = Vec::new();
            write_keyspace(&mut line, form, "users", &options).unwrap();
            String::from_utf8(line).unwrap()
        };
        let tsv = "\\keyspace\tusers\tinline_value_bytes=1024\n";
        assert_eq!(line(Form::Tsv), tsv);
        let json = r#"{"keyspace":"users","options":{"inline_value_bytes":1024}}"#;
        assert_eq!(line(Form::Jsonl), format!("{json}\n"));
    }

    #[test]
    fn bad_lines_are_refused() {
        for line in [
            "\\keyspace",
            "\\keyspaces\tusers",
            "\\keyspace\tusers\t",
            "\\keyspace\tusers\tcolour=red",
            "\\keyspace\tusers\tinline_value_bytes=many",
            "\\keyspace\tusers\tcompression=gzip",
            "\\keyspace\t\\xff",
        ] {
            assert!(read(line, Form::Tsv).is_err(), "{line}");
        }
        for line in [
            r#"{"keyspace":"users","key":"a","value":"b"}"#,
            r#"{"keyspace":"users","options":{"colour":"red"}}"#,
            r#"{"keyspace":"users","options":{"compression":"zstd:99"}}"#,
            r#"{"keyspace":7}"#,
        ] {
            assert!(read(line, Form::Jsonl).is_err(), "{line}");
        }
    }
}
