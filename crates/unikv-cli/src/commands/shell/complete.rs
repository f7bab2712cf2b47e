//! Completion of commands and of the names of keyspaces.

use rustyline::completion::Completer;
use rustyline::highlight::Highlighter;
use rustyline::hint::Hinter;
use rustyline::validate::Validator;
use rustyline::{Context, Helper};

/// Every command.
pub(super) const COMMANDS: &[&str] = &[
    "compact",
    "count",
    "del",
    "delete",
    "exit",
    "flush",
    "get",
    "help",
    "keyspaces",
    "put",
    "quit",
    "scan",
    "stats",
    "use",
];

/// What there is to complete.
pub(super) struct Completion {
    pub(super) keyspaces: Vec<String>,
}

impl Completion {
    /// Where the word begins that ends at the end of `line`, and what it may become.
    fn of(&self, line: &str) -> (usize, Vec<String>) {
        let begin = line.rfind(char::is_whitespace).map_or(0, |at| at + 1);
        let (before, word) = line.split_at(begin);
        let candidates: Vec<&str> = match before.trim() {
            "" => COMMANDS.to_vec(),
            "use" => self.keyspaces.iter().map(String::as_str).collect(),
            _ => Vec::new(),
        };
        let fits = candidates.into_iter().filter(|name| name.starts_with(word));
        (begin, fits.map(str::to_owned).collect())
    }
}

impl Completer for Completion {
    type Candidate = String;

    fn complete(
        &self,
        line: &str,
        at: usize,
        _: &Context<'_>,
    ) -> rustyline::Result<(usize, Vec<String>)> {
        Ok(self.of(line.get(..at).unwrap_or(line)))
    }
}

impl Hinter for Completion {
    type Hint = String;
}

impl Highlighter for Completion {}
impl Validator for Completion {}
impl Helper for Completion {}

#[cfg(test)]
mod tests {
    use super::Completion;

    #[test]
    fn commands_come_first_and_keyspaces_after_use() {
        let completion = Completion {
            keyspaces: ["default", "users", "usage"].map(str::to_owned).to_vec(),
        };
        let of = |line| completion.of(line);
        assert_eq!(of("ke"), (0, vec!["keyspaces".to_owned()]));
        assert_eq!(of("  de").1, ["del", "delete"]);
        assert_eq!(
            of("use us"),
            (4, vec!["users".to_owned(), "usage".to_owned()])
        );
        assert_eq!(of("get us").1, [""; 0]);
    }
}
