//! Reading what `strace -f -y -s 0` writes: one call a line, or two lines where another thread's
//! call came between its beginning and its end.

use std::collections::HashMap;

/// One system call.
#[derive(Clone, Debug)]
pub struct Call {
    pub name: String,
    /// What stands between the parentheses.
    pub args: String,
    /// What it returned; `None` if it did not return, or is named by an error.
    pub returned: Option<i64>,
    /// The error's name.
    pub error: Option<String>,
    /// The lines of its beginning and its end.
    pub begin: usize,
    pub end: usize,
}

/// Reads a trace, in the order in which calls ended.
pub fn read(text: &str) -> Vec<Call> {
    let mut open: HashMap<&str, (usize, String)> = HashMap::new();
    let mut calls = Vec::new();
    for (number, line) in text.lines().enumerate() {
        let Some((pid, rest)) = line.split_once(char::is_whitespace) else {
            continue;
        };
        let rest = rest.trim_start();
        if let Some(begun) = rest.strip_suffix("<unfinished ...>") {
            open.insert(pid, (number, begun.trim_end().to_owned()));
            continue;
        }
        let (begin, whole) = match rest.strip_prefix("<... ") {
            Some(resumed) => {
                let Some((begin, begun)) = open.remove(pid) else {
                    continue;
                };
                let end = resumed.split_once("resumed>").map_or("", |(_, end)| end);
                (begin, begun + end)
            }
            None => (number, rest.to_owned()),
        };
        calls.extend(call(&whole, begin, number));
    }
    // What was under way when the process died.
    for (_, (begin, begun)) in open {
        calls.extend(call(&format!("{begun}) = ?"), begin, usize::MAX));
    }
    calls
}

fn call(text: &str, begin: usize, end: usize) -> Option<Call> {
    let (name, rest) = text.split_once('(')?;
    if !name.chars().all(|c| c.is_ascii_alphanumeric() || c == '_') {
        return None; // A signal, or the end of a thread.
    }
    let (args, result) = rest.rsplit_once(" = ")?;
    let args = args.trim_end().strip_suffix(')').unwrap_or(args);
    let mut words = result.split_whitespace();
    let first = words.next()?;
    let value = first.split('<').next().unwrap_or(first);
    let failed = value == "-1";
    Some(Call {
        name: name.to_owned(),
        args: args.to_owned(),
        returned: value.parse().ok().filter(|_| !failed),
        error: words.next().filter(|_| failed).map(str::to_owned),
        begin,
        end,
    })
}

impl Call {
    /// The paths that it names: of file descriptors, and in quotes. A name that is looked up in an
    /// open directory is one path with that of the directory.
    pub fn paths(&self) -> Vec<String> {
        let mut paths: Vec<String> = Vec::new();
        let mut directory = None;
        let mut rest = &self.args[..];
        while let Some(at) = rest.find(['<', '"']) {
            let close = if rest.as_bytes()[at] == b'<' {
                '>'
            } else {
                '"'
            };
            let inside = &rest[at + 1..];
            let Some(end) = inside.find(close) else {
                break;
            };
            let path = inside[..end].trim_end_matches(" (deleted)");
            // The directory that a relative name would be taken from is not what is touched.
            let of_directory = rest[..at].ends_with("AT_FDCWD");
            let is_name = close == '"' && !path.is_empty() && !path.starts_with('/');
            match directory.take() {
                Some(_) if path == "." => {}
                Some(directory) if is_name => {
                    paths.pop();
                    paths.push(format!("{directory}/{path}"));
                }
                _ if path.starts_with('/') && !of_directory => paths.push(path.to_owned()),
                _ => {}
            }
            rest = &inside[end + 1..];
            if close == '>' && rest.starts_with(", \"") && !of_directory {
                directory = Some(path);
            }
        }
        paths
    }

    /// The flags among the arguments, in the order in which they stand there.
    pub fn flags(&self) -> Vec<&str> {
        let outside_quotes = self.args.rsplit('"').next().unwrap_or("");
        let words = outside_quotes.split([',', ' ', '|', '(', ')']);
        words
            .filter(|word| word.contains('_') && word.chars().all(is_of_flag))
            .collect()
    }

    /// Whether it did what it says.
    pub fn succeeded(&self) -> bool {
        self.returned.is_some()
    }
}

fn is_of_flag(c: char) -> bool {
    c.is_ascii_uppercase() || c.is_ascii_digit() || c == '_'
}
