//! The words of a line: parted by spaces, in quotes where they hold some, with the escapes of
//! dumps.

use crate::text;

/// The words of `line`; what follows a `#` between them is a comment.
pub(super) fn split(line: &[u8]) -> Result<Vec<Vec<u8>>, String> {
    let (mut words, mut rest) = (Vec::new(), line);
    loop {
        rest = rest.trim_ascii_start();
        match rest.first() {
            None | Some(b'#') => return Ok(words),
            Some(b'"') => {
                let (word, after) = quoted(&rest[1..])?;
                words.push(word);
                rest = after;
                if rest.first().is_some_and(|byte| !byte.is_ascii_whitespace()) {
                    return Err("a space must follow a closing quote".to_owned());
                }
            }
            Some(_) => {
                let end = rest.iter().position(u8::is_ascii_whitespace);
                let (word, after) = rest.split_at(end.unwrap_or(rest.len()));
                words.push(unescaped(word)?);
                rest = after;
            }
        }
    }
}

/// A word up to its closing quote, and what follows it.
fn quoted(text: &[u8]) -> Result<(Vec<u8>, &[u8]), String> {
    let mut is_escaped = false;
    let end = text.iter().position(|byte| {
        let ends = *byte == b'"' && !is_escaped;
        is_escaped = *byte == b'\\' && !is_escaped;
        ends
    });
    let end = end.ok_or("a quote is not closed")?;
    Ok((unescaped(&text[..end])?, &text[end + 1..]))
}

fn unescaped(text: &[u8]) -> Result<Vec<u8>, String> {
    let (mut plain, mut word) = (Vec::new(), Vec::new());
    // Of all quotes only those in a word need an escape, which dumps have not.
    let mut rest = text;
    while let Some(at) = rest
        .windows(2)
        .position(|pair| pair == b"\\\"" || pair == b"\\\\")
    {
        plain.clear();
        text::unescape(&rest[..at], &mut plain)?;
        word.append(&mut plain);
        word.push(rest[at + 1]);
        rest = &rest[at + 2..];
    }
    text::unescape(rest, &mut plain)?;
    word.append(&mut plain);
    Ok(word)
}

#[cfg(test)]
mod tests {
    use super::split;

    fn words(line: &str) -> Result<Vec<String>, String> {
        let words = split(line.as_bytes())?;
        Ok(words.iter().map(|w| w.escape_ascii().to_string()).collect())
    }

    #[test]
    fn words_are_parted_by_spaces_and_kept_together_by_quotes() {
        let of = |line: &str| words(line).unwrap_or_else(|error| panic!("{line}: {error}"));
        assert_eq!(of("  put  a\tb \r\n"), ["put", "a", "b"]);
        assert_eq!(of(r#"put "a b" "" # nothing"#), ["put", "a b", ""]);
        assert_eq!(
            of(r#"put "say \"hi\" \\" x"#),
            ["put", r#"say \"hi\" \\"#, "x"]
        );
        assert_eq!(of(r"get \x00\xff\t"), ["get", r"\x00\xff\t"]);
        assert_eq!(of(r"get a\\tb"), ["get", r"a\\tb"]);
        assert_eq!(of("# all"), [""; 0]);
        assert_eq!(of("a#b"), ["a#b"]);
    }

    #[test]
    fn what_cannot_be_read_is_said() {
        for line in [r#"put "a"#, r#"put "a"b"#, r"get \q", r"get \x0"] {
            assert!(words(line).is_err(), "{line}");
        }
    }
}
