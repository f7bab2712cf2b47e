//! That components stand alone: one place has the methods of `Engine`, and nobody passes several
//! components on in one piece.

use crate::source::{Source, Token};

/// The types of components, and what holds those of a database and of a secondary.
const TYPES: &[&str] = &[
    "Core",
    "DiskSpace",
    "Backpressure",
    "ReadState",
    "Catalog",
    "WritePath",
    "KeyspaceChanges",
    "Checkpoints",
    "ChangeFeed",
    "Background",
    "Engine",
    "Shared",
];

/// The file of the only `impl Engine`.
const ENGINE_FILE: &str = "engine/mod.rs";

/// A struct that is no component and names this many of them is a bundle.
const BUNDLE: usize = 3;

/// The background: facts, the loop of plan, lease, run and commit, and what callers ask for. All
/// else there gets what it needs.
const BACKGROUND: &str = "engine/background/";
const LOOP: &[&str] = &[
    "mod.rs",
    "facts.rs",
    "run.rs",
    "commit.rs",
    "maintenance.rs",
];

/// Of these only the loop takes two: a job is not to reach from one to the other.
const APART: &[&str] = &["Core", "Catalog", "WritePath", "DiskSpace"];

/// Breaches of all in one file.
pub(crate) fn breaches(file: &str, source: &Source, found: &mut Vec<String>) {
    for (at, token) in source.tokens.iter().enumerate() {
        let rest = &source.tokens[at..];
        if token.text == "impl" && file != ENGINE_FILE && target(rest) == Some("Engine") {
            let line = token.line;
            found.push(format!(
                "src/{file}:{line}: `impl Engine` outside {ENGINE_FILE}"
            ));
        }
        if let Some(name) = file.strip_prefix(BACKGROUND)
            && !LOOP.contains(&name)
        {
            beside_the_loop(file, rest, found);
        }
        if token.text == "struct" {
            let name = rest.get(1).map_or("", |token| token.text.as_str());
            let held = components_in(rest);
            if !TYPES.contains(&name) && held.len() >= BUNDLE {
                let (line, held) = (token.line, held.join(", "));
                found.push(format!(
                    "src/{file}:{line}: `{name}` is a bundle of components: {held}"
                ));
            }
        }
    }
}

/// What begins here and only the loop of the background may have.
fn beside_the_loop(file: &str, tokens: &[Token], found: &mut Vec<String>) {
    let Some(first) = tokens.first() else {
        return;
    };
    let line = first.line;
    if first.text == "impl" && target(tokens) == Some("Background") {
        found.push(format!(
            "src/{file}:{line}: `impl Background` outside {}",
            LOOP.join(", ")
        ));
    }
    let name = tokens.get(1).map_or("", |token| token.text.as_str());
    if first.text == "fn" && name != "new" {
        let taken = parameters(tokens).filter(|token| APART.contains(&token.text.as_str()));
        let taken: Vec<&str> = taken.map(|token| token.text.as_str()).collect();
        if taken.len() >= 2 {
            let taken = taken.join(", ");
            found.push(format!("src/{file}:{line}: `{name}` takes {taken}"));
        }
    }
}

/// What stands between the parentheses of a function.
fn parameters(tokens: &[Token]) -> impl Iterator<Item = &Token> {
    let begin = tokens.iter().position(|token| token.text == "(");
    let after = tokens.get(begin.unwrap_or(tokens.len())..).unwrap_or(&[]);
    let mut depth = 0_i32;
    after.iter().take_while(move |token| {
        match token.text.as_str() {
            "(" => depth += 1,
            ")" => depth -= 1,
            _ => {}
        }
        depth > 0
    })
}

/// The type of which an `impl` says methods.
fn target(tokens: &[Token]) -> Option<&str> {
    let head = tokens.iter().take_while(|token| token.text != "{");
    let head = head.take_while(|token| token.text != "where");
    let (mut depth, mut name) = (0_i32, None);
    let mut before = "";
    for token in head.skip(1) {
        match token.text.as_str() {
            "<" => depth += 1,
            ">" if before != "-" => depth -= 1,
            "for" if depth == 0 => name = None,
            text if depth == 0 && text.starts_with(char::is_alphabetic) => name = Some(text),
            _ => {}
        }
        before = &token.text;
    }
    name
}

/// The components that the fields of a struct name.
fn components_in(tokens: &[Token]) -> Vec<&'static str> {
    let mut depth = 0;
    let mut held = Vec::new();
    for token in tokens {
        match token.text.as_str() {
            "{" | "(" => depth += 1,
            "}" | ")" => depth -= 1,
            ";" if depth == 0 => break,
            text if depth > 0 => {
                let known = TYPES.iter().find(|name| **name == text);
                held.extend(known.filter(|name| !held.contains(*name)).copied());
            }
            _ => {}
        }
        if depth == 0 && token.text == "}" {
            break;
        }
    }
    held
}

#[cfg(test)]
mod tests {
    use super::*;

    fn breaches_of(file: &str, text: &str) -> usize {
        let mut found = Vec::new();
        breaches(file, &Source::new(text), &mut found);
        found.len()
    }

    #[test]
    fn methods_of_the_engine_elsewhere_are_found_in_every_spelling() {
        for text in [
            "impl Engine {}",
            "impl crate::engine::Engine {}",
            "impl Drop for Engine {}",
            "impl<'a, T: Fn() -> u8> From<&'a T> for Engine where T: Copy {}",
        ] {
            assert_eq!(breaches_of("db/mod.rs", text), 1, "{text}");
            assert_eq!(breaches_of(ENGINE_FILE, text), 0);
        }
        for text in ["impl Db {}", "impl From<Engine> for Db {}"] {
            assert_eq!(breaches_of("db/mod.rs", text), 0, "{text}");
        }
    }

    #[test]
    fn only_the_loop_of_the_background_reaches_from_one_component_to_another() {
        let two = "fn f(&self, core: &Core, n: (u8, u8), catalog: &Arc<Catalog>) -> u8 { 1 }";
        for text in ["impl Background {}", two] {
            for file in ["flush.rs", "choices/mod.rs"] {
                let file = format!("{BACKGROUND}{file}");
                assert_eq!(breaches_of(&file, text), 1, "{file}: {text}");
            }
            for file in ["engine/background/run.rs", "engine/write/mod.rs"] {
                assert_eq!(breaches_of(file, text), 0, "{file}: {text}");
            }
        }
        for text in [
            "fn new(core: &Core, catalog: &Catalog) {}",
            "fn f(core: &Core) -> Catalog {}",
            "impl From<Background> for u8 {}",
        ] {
            assert_eq!(breaches_of("engine/background/flush.rs", text), 0, "{text}");
        }
    }

    #[test]
    fn a_bundle_of_components_is_found_and_a_component_is_none() {
        let fields = "{ core: Arc<Core>, read: &'a Arc<ReadState>, catalog: Arc<Catalog> }";
        let bundle = format!("pub struct Parts<'a> {fields}");
        assert_eq!(breaches_of("engine/write/mod.rs", &bundle), 1);
        let component = format!("pub struct WritePath {fields}");
        assert_eq!(breaches_of("engine/write/mod.rs", &component), 0);
        let few = "struct Two(Arc<Core>, Arc<Catalog>); fn f(read: ReadState) {}";
        assert_eq!(breaches_of("engine/write/mod.rs", few), 0);
    }
}
