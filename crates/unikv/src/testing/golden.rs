//! Golden files: the exact bytes of small fixed inputs, kept as readable hex dumps.
//!
//! Each lives in `testdata/golden/NAME.hex` and pins a format byte for byte. When a format changes
//! on purpose, run the tests with `UNIKV_REWRITE_GOLDEN=1` and read the difference before
//! committing it.

use std::fmt::Write as _;
use std::fs;
use std::path::PathBuf;

/// Set to rewrite the golden files instead of comparing with them.
const REWRITE: &str = "UNIKV_REWRITE_GOLDEN";
const BYTES_PER_LINE: usize = 16;

/// Asserts that `bytes` are exactly those of the golden file `name`.
#[track_caller]
pub(crate) fn check(name: &str, bytes: &[u8]) {
    let path = path_of(name);
    let found = dump(bytes);
    if std::env::var_os(REWRITE).is_some() {
        fs::create_dir_all(path.parent().unwrap()).unwrap();
        fs::write(&path, found).unwrap();
        return;
    }
    let expected = fs::read_to_string(&path).unwrap_or_else(|e| {
        panic!("cannot read golden file {name}.hex: {e}; create it with {REWRITE}=1")
    });
    if let Some((line, (want, got))) = first_difference(&expected, &found) {
        panic!(
            "{name}.hex differs from line {line} on\n  expected {want}\n  found    {got}\n\
             rewrite it with {REWRITE}=1 if the format was changed on purpose"
        );
    }
}

/// The bytes of the golden file `name`, which `make` gave when it was written: a codec may give
/// others in its next release, and must still read these.
#[track_caller]
pub(crate) fn kept(name: &str, make: impl FnOnce() -> Vec<u8>) -> Vec<u8> {
    if std::env::var_os(REWRITE).is_some() {
        fs::write(path_of(name), dump(&make())).unwrap();
    }
    load(name)
}

/// The bytes of the golden file `name`, for tests that read what an older release wrote.
#[track_caller]
pub(crate) fn load(name: &str) -> Vec<u8> {
    let text = fs::read_to_string(path_of(name)).unwrap();
    undump(&text)
}

fn path_of(name: &str) -> PathBuf {
    let dir = PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("testdata/golden");
    dir.join(format!("{name}.hex"))
}

/// One line for 16 bytes: offset, hex, text; equal to what `hexdump -C` prints.
fn dump(bytes: &[u8]) -> String {
    let mut out = String::new();
    for (i, line) in bytes.chunks(BYTES_PER_LINE).enumerate() {
        write!(out, "{:08x} ", i * BYTES_PER_LINE).unwrap();
        for column in 0..BYTES_PER_LINE {
            let gap = if column == BYTES_PER_LINE / 2 {
                "  "
            } else {
                " "
            };
            let hex = line
                .get(column)
                .map_or("  ".to_owned(), |byte| format!("{byte:02x}"));
            write!(out, "{gap}{hex}").unwrap();
        }
        let printable = |&b: &u8| {
            if (0x20..0x7f).contains(&b) {
                char::from(b)
            } else {
                '.'
            }
        };
        writeln!(
            out,
            "  |{}|",
            line.iter().map(printable).collect::<String>()
        )
        .unwrap();
    }
    writeln!(out, "{:08x}", bytes.len()).unwrap();
    out
}

fn undump(text: &str) -> Vec<u8> {
    let mut out = Vec::new();
    for line in text.lines() {
        let hex = line.split('|').next().unwrap();
        for byte in hex.split_ascii_whitespace().skip(1) {
            out.push(u8::from_str_radix(byte, 16).unwrap());
        }
    }
    out
}

fn first_difference<'a>(a: &'a str, b: &'a str) -> Option<(usize, (&'a str, &'a str))> {
    let longest = a.lines().count().max(b.lines().count());
    let lines = |text: &'a str| text.lines().chain(std::iter::repeat("(end)"));
    let mut pairs = lines(a).zip(lines(b)).take(longest).enumerate();
    pairs
        .find(|(_, (x, y))| x != y)
        .map(|(i, pair)| (i + 1, pair))
}

#[test]
fn a_dump_can_be_read_back_and_differences_are_found() {
    let bytes: Vec<u8> = (0..=255).chain(0..5).collect();
    assert_eq!(undump(&dump(&bytes)), bytes);
    assert_eq!(dump(b"UniKV").lines().last(), Some("00000005"));
    assert_eq!(first_difference("a\nb\n", "a\nb\n"), None);
    assert_eq!(first_difference("a\nb\n", "a\n"), Some((2, ("b", "(end)"))));
}
