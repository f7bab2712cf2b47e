//! Files that import each other in a circle.

use std::collections::{BTreeMap, BTreeSet};

/// Which file names which others, all as module paths.
pub(crate) type Imports = BTreeMap<String, BTreeSet<String>>;

/// The circles among `imports`: of each its files, in order.
pub(crate) fn circles(imports: &Imports) -> Vec<Vec<String>> {
    let mut found = Vec::new();
    let mut seen = BTreeSet::new();
    for start in imports.keys() {
        if seen.contains(start) {
            continue;
        }
        let there = reachable(start, imports);
        let back = |file: &&String| reachable(file, imports).contains(start);
        let circle: Vec<String> = there.iter().filter(back).cloned().collect();
        if circle.len() > 1 {
            seen.extend(circle.iter().cloned());
            found.push(circle);
        }
    }
    found
}

/// What `start` imports, by way of others or not, and itself.
fn reachable(start: &str, imports: &Imports) -> BTreeSet<String> {
    let mut reached = BTreeSet::from([start.to_owned()]);
    let mut next = vec![start];
    while let Some(file) = next.pop() {
        for imported in imports.get(file).into_iter().flatten() {
            if reached.insert(imported.clone()) {
                next.push(imported);
            }
        }
    }
    reached
}

#[test]
fn a_circle_is_found_whole_and_once() {
    let imports = [("a", "b"), ("b", "c"), ("c", "b"), ("c", "d"), ("e", "a")];
    let mut graph = Imports::new();
    for (from, to) in imports {
        graph.entry(from.into()).or_default().insert(to.into());
    }
    assert_eq!(circles(&graph), [["b", "c"]]);
    graph.entry("d".into()).or_default().insert("e".into());
    assert_eq!(circles(&graph), [["a", "b", "c", "d", "e"]]);
}
