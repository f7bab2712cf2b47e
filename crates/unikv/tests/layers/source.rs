//! A source file cut into tokens, far enough to find every path that it names.
//!
//! Comments, strings and characters are dropped. Items under `#[cfg(test)]` are dropped too: the
//! rules hold for what is shipped. This is no parser; it relies on sources that compile and are
//! formatted by `rustfmt`.

use std::collections::BTreeSet;
use std::iter::Peekable;
use std::str::Chars;

/// An identifier, `::`, or one character of punctuation.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Token {
    pub(crate) text: String,
    pub(crate) line: usize,
}

/// A path as the code names it, groups of a `use` expanded: `use a::{b, c::d}` names `a::b` and
/// `a::c::d`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct NamedPath {
    pub(crate) segments: Vec<String>,
    pub(crate) line: usize,
    /// The inline modules (`mod x { … }`) around it, outermost first.
    pub(crate) inside: Vec<String>,
}

/// What the rules need to know of one file.
pub(crate) struct Source {
    pub(crate) tokens: Vec<Token>,
    /// Lines outside test items.
    pub(crate) lines: usize,
    /// Names declared as `#[cfg(test)] mod name;`: files that hold nothing but tests.
    pub(crate) test_modules: BTreeSet<String>,
}

impl Source {
    pub(crate) fn new(text: &str) -> Source {
        let all = tokenize(text);
        let mut tokens = Vec::new();
        let mut test_modules = BTreeSet::new();
        let mut test_lines = 0;
        let mut at = 0;
        while at < all.len() {
            if !is_cfg_test(&all[at..]) {
                tokens.push(all[at].clone());
                at += 1;
                continue;
            }
            let end = item_end(&all, at);
            if let Some(name) = declared_module(&all[at..end]) {
                test_modules.insert(name);
            }
            test_lines += all[end - 1].line - all[at].line + 1;
            at = end;
        }
        Source {
            tokens,
            lines: text.lines().count() - test_lines,
            test_modules,
        }
    }

    /// Every path of two or more segments in the file.
    pub(crate) fn paths(&self) -> Vec<NamedPath> {
        let tokens = &self.tokens;
        let mut found = Vec::new();
        let mut modules: Vec<(String, usize)> = Vec::new();
        let mut depth = 0;
        for at in 0..tokens.len() {
            match tokens[at].text.as_str() {
                "{" => {
                    depth += 1;
                    if at >= 2 && tokens[at - 2].text == "mod" {
                        modules.push((tokens[at - 1].text.clone(), depth));
                    }
                }
                "}" => {
                    if modules
                        .last()
                        .is_some_and(|(_, opened_at)| *opened_at == depth)
                    {
                        modules.pop();
                    }
                    depth -= 1;
                }
                text if starts_path(tokens, at) && is_name(text) => {
                    let inside: Vec<String> =
                        modules.iter().map(|(name, _)| name.clone()).collect();
                    expand(tokens, at, &mut Vec::new(), &mut |segments, line| {
                        found.push(NamedPath {
                            segments,
                            line,
                            inside: inside.clone(),
                        });
                    });
                }
                _ => {}
            }
        }
        found
    }
}

fn is_name(text: &str) -> bool {
    text.starts_with(|c: char| c.is_alphabetic() || c == '_')
}

fn text_at(tokens: &[Token], at: usize) -> &str {
    tokens.get(at).map_or("", |token| token.text.as_str())
}

fn starts_path(tokens: &[Token], at: usize) -> bool {
    let continues =
        at > 0 && tokens[at - 1].text == "::" && at > 1 && is_name(&tokens[at - 2].text);
    !continues && text_at(tokens, at + 1) == "::"
}

/// Hands out every path of the tree that starts at `at`; returns where the tree ends.
fn expand(
    tokens: &[Token],
    mut at: usize,
    prefix: &mut Vec<String>,
    emit: &mut impl FnMut(Vec<String>, usize),
) -> usize {
    let kept = prefix.len();
    loop {
        match text_at(tokens, at) {
            "{" => {
                at += 1;
                while !matches!(text_at(tokens, at), "}" | "") {
                    at = expand(tokens, at, prefix, emit);
                    if text_at(tokens, at) == "," {
                        at += 1;
                    }
                }
                at += 1;
                break;
            }
            "}" | "" => break,
            text => {
                let line = tokens[at].line;
                prefix.push(text.to_owned());
                at += 1;
                if text_at(tokens, at) == "::"
                    && (is_name(text_at(tokens, at + 1))
                        || matches!(text_at(tokens, at + 1), "{" | "*"))
                {
                    at += 1;
                    continue;
                }
                emit(prefix.clone(), line);
                if text_at(tokens, at) == "as" {
                    at += 2;
                }
                break;
            }
        }
    }
    prefix.truncate(kept);
    at
}

/// Whether the tokens begin with `#[cfg(test)]` or `#[cfg(all(test, …))]`.
fn is_cfg_test(tokens: &[Token]) -> bool {
    let begins = |with: &[&str]| {
        with.iter()
            .enumerate()
            .all(|(i, text)| text_at(tokens, i) == *text)
    };
    begins(&["#", "[", "cfg", "(", "test", ")", "]"])
        || begins(&["#", "[", "cfg", "(", "all", "(", "test", ","])
}

/// One past the last token of the item whose first attribute starts at `at`.
fn item_end(tokens: &[Token], mut at: usize) -> usize {
    while text_at(tokens, at) == "#" {
        at = group_end(tokens, at + 1);
    }
    let is_use = text_at(tokens, at) == "use";
    while at < tokens.len() {
        match tokens[at].text.as_str() {
            ";" => return at + 1,
            "{" if !is_use => return group_end(tokens, at),
            "{" | "(" | "[" => at = group_end(tokens, at),
            // The item was a field or a variant: its surroundings end here.
            "}" => return at,
            _ => at += 1,
        }
    }
    at
}

/// One past the bracket that closes the one at `at`.
fn group_end(tokens: &[Token], at: usize) -> usize {
    let mut depth = 0;
    for (i, token) in tokens.iter().enumerate().skip(at) {
        match token.text.as_str() {
            "{" | "(" | "[" => depth += 1,
            "}" | ")" | "]" => depth -= 1,
            _ => {}
        }
        if depth == 0 {
            return i + 1;
        }
    }
    tokens.len()
}

/// The name in an item that ends with `mod name;`.
fn declared_module(item: &[Token]) -> Option<String> {
    let [.., keyword, name, end] = item else {
        return None;
    };
    (keyword.text == "mod" && end.text == ";").then(|| name.text.clone())
}

fn tokenize(text: &str) -> Vec<Token> {
    let mut tokens = Vec::new();
    let mut chars = Lines {
        chars: text.chars().peekable(),
        line: 1,
    };
    while let Some(c) = chars.next() {
        let line = chars.line;
        match c {
            '/' if chars.peek() == Some('/') => chars.skip_line(),
            '/' if chars.peek() == Some('*') => chars.skip_block_comment(),
            '"' => chars.skip_string(),
            '\'' => chars.skip_char_or_lifetime(),
            ':' if chars.peek() == Some(':') => {
                chars.next();
                tokens.push(Token {
                    text: "::".to_owned(),
                    line,
                });
            }
            c if is_name(&c.to_string()) => {
                let mut word = c.to_string();
                while let Some(c) = chars.peek().filter(|c| c.is_alphanumeric() || *c == '_') {
                    word.push(c);
                    chars.next();
                }
                let is_prefix = matches!(word.as_str(), "r" | "b" | "br" | "c" | "cr");
                match chars.peek() {
                    Some('"') if is_prefix && !word.contains('r') => {
                        chars.next();
                        chars.skip_string();
                    }
                    Some('"' | '#') if is_prefix && word.contains('r') => chars.skip_raw_string(),
                    _ => tokens.push(Token { text: word, line }),
                }
            }
            c if c.is_whitespace() || c.is_ascii_digit() => {}
            c => tokens.push(Token {
                text: c.to_string(),
                line,
            }),
        }
    }
    tokens
}

/// Characters with the line on which the last one stood.
struct Lines<'a> {
    chars: Peekable<Chars<'a>>,
    line: usize,
}

impl Lines<'_> {
    fn next(&mut self) -> Option<char> {
        let c = self.chars.next();
        if c == Some('\n') {
            self.line += 1;
        }
        c
    }

    fn peek(&mut self) -> Option<char> {
        self.chars.peek().copied()
    }

    fn skip_line(&mut self) {
        while self.next().is_some_and(|c| c != '\n') {}
    }

    fn skip_block_comment(&mut self) {
        let mut depth = 0;
        let mut last = '/';
        while let Some(c) = self.next() {
            match (last, c) {
                ('/', '*') => depth += 1,
                ('*', '/') => depth -= 1,
                _ => {
                    last = c;
                    continue;
                }
            }
            if depth == 0 {
                return;
            }
            last = ' ';
        }
    }

    /// Behind the opening quote of a string.
    fn skip_string(&mut self) {
        while let Some(c) = self.next() {
            match c {
                '\\' => drop(self.next()),
                '"' => return,
                _ => {}
            }
        }
    }

    /// Behind the `r` of a raw string; does nothing harmful at a raw identifier (`r#type`).
    fn skip_raw_string(&mut self) {
        let mut hashes = 0;
        while self.peek() == Some('#') {
            self.next();
            hashes += 1;
        }
        if self.peek() != Some('"') {
            return;
        }
        self.next();
        let mut matched = None;
        while let Some(c) = self.next() {
            matched = match (c, matched) {
                ('"', _) => Some(0),
                ('#', Some(n)) => Some(n + 1),
                _ => None,
            };
            if matched == Some(hashes) {
                return;
            }
        }
    }

    /// Behind a single quote.
    fn skip_char_or_lifetime(&mut self) {
        let first = self.next();
        if first == Some('\\') {
            self.next();
            while self.next().is_some_and(|c| c != '\'') {}
        } else if self.peek() == Some('\'') {
            self.next();
        }
        // Else a lifetime; the rest of its name becomes a token that starts no path.
    }
}
