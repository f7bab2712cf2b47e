//! A sorted map whose copies are cheap: they share their nodes, and a change copies only the nodes
//! on the way to it that another copy holds.
//!
//! It is a B+ tree. Invariants: entries stand in the leaves, all of the same depth; no node but the
//! root is empty; the key beside a child, the first one's left out, is at most the child's first
//! key, and greater than all keys of the child before. Nodes are split when they are full and
//! removed when they are empty, but never joined, so nothing is rebalanced: there are at most as
//! many nodes on a level as entries. No locks.

pub(crate) mod key_set;
pub(crate) mod range_set;

use bytes::Bytes;
use std::sync::Arc;

/// A node is split when it would have more than this.
const MOST_IN_NODE: usize = 32;

/// A sorted map from keys to values.
#[derive(Debug)]
pub(crate) struct Map<V> {
    root: Arc<Node<V>>,
    len: usize,
}

#[derive(Debug)]
enum Node<V> {
    Leaf(Vec<(Bytes, V)>),
    Inner(Vec<(Bytes, Arc<Node<V>>)>),
}

/// The half of a node that has been split off, and the least key that it may have.
type Split<V> = Option<(Bytes, Arc<Node<V>>)>;

impl<V> Default for Map<V> {
    fn default() -> Map<V> {
        Map {
            root: Arc::new(Node::Leaf(Vec::new())),
            len: 0,
        }
    }
}

impl<V> Clone for Map<V> {
    fn clone(&self) -> Map<V> {
        Map {
            root: Arc::clone(&self.root),
            len: self.len,
        }
    }
}

impl<V: Clone> Clone for Node<V> {
    fn clone(&self) -> Node<V> {
        let copied = match self {
            Node::Leaf(entries) => Node::Leaf(entries.clone()),
            Node::Inner(children) => Node::Inner(children.clone()),
        };
        #[cfg(test)]
        tests::COPIED.with(|count| count.set(count.get() + copied.len()));
        copied
    }
}

impl<V> Map<V> {
    pub(crate) fn len(&self) -> usize {
        self.len
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.len == 0
    }

    pub(crate) fn get(&self, key: &[u8]) -> Option<&V> {
        let mut node = &*self.root;
        loop {
            match node {
                Node::Leaf(entries) => {
                    let place = place_of(entries, key).ok()?;
                    return entries.get(place).map(|(_, value)| value);
                }
                Node::Inner(children) => node = &children.get(child_of(children, key))?.1,
            }
        }
    }

    /// The first entry at or after `key`.
    pub(crate) fn first_from(&self, key: &[u8]) -> Option<(&Bytes, &V)> {
        self.root.first_from(key)
    }

    /// The last entry before `key`.
    pub(crate) fn last_before(&self, key: &[u8]) -> Option<(&Bytes, &V)> {
        self.root.last_before(key)
    }

    /// The last entry at or before `key`.
    pub(crate) fn last_upto(&self, key: &[u8]) -> Option<(&Bytes, &V)> {
        let mut node = &*self.root;
        // The child in which it is has a key at or before, unless there is none at all.
        loop {
            match node {
                Node::Leaf(entries) => {
                    let after = place_of(entries, key).map_or_else(|at| at, |at| at + 1);
                    return match after.checked_sub(1).and_then(|at| entries.get(at)) {
                        Some((key, value)) => Some((key, value)),
                        None => self.last_before(key),
                    };
                }
                Node::Inner(children) => node = &children.get(child_of(children, key))?.1,
            }
        }
    }

    /// The entries in their order.
    pub(crate) fn iter(&self) -> Iter<'_, V> {
        Iter {
            way: vec![(&*self.root, 0)],
        }
    }
}

impl<V: Clone> Map<V> {
    /// Returns the value that was there.
    pub(crate) fn insert(&mut self, key: Bytes, value: V) -> Option<V> {
        let (before, split) = Node::insert(&mut self.root, key, value);
        if let Some(right) = split {
            // It may stand below all keys, for nothing is before it.
            let left = (Bytes::new(), Arc::clone(&self.root));
            self.root = Arc::new(Node::Inner(vec![left, right]));
        }
        self.len += usize::from(before.is_none());
        before
    }

    pub(crate) fn remove(&mut self, key: &[u8]) -> Option<(Bytes, V)> {
        // Nothing is copied for a key that is not there.
        self.get(key)?;
        let removed = Node::remove(&mut self.root, key);
        while let Node::Inner(children) = &*self.root {
            let [(_, only)] = children.as_slice() else {
                if children.is_empty() {
                    self.root = Arc::new(Node::Leaf(Vec::new()));
                }
                break;
            };
            self.root = Arc::clone(only);
        }
        self.len -= usize::from(removed.is_some());
        removed
    }
}

impl<V> Node<V> {
    fn len(&self) -> usize {
        match self {
            Node::Leaf(entries) => entries.len(),
            Node::Inner(children) => children.len(),
        }
    }

    fn first_from(&self, key: &[u8]) -> Option<(&Bytes, &V)> {
        match self {
            Node::Leaf(entries) => {
                let place = place_of(entries, key).unwrap_or_else(|at| at);
                entries.get(place).map(|(key, value)| (key, value))
            }
            Node::Inner(children) => {
                // If it is not in the child that would have the key, it is the next one's first.
                let (_, mut left) = children.split_at(child_of(children, key));
                while let Some(((_, child), rest)) = left.split_first() {
                    if let Some(found) = child.first_from(key) {
                        return Some(found);
                    }
                    left = rest;
                }
                None
            }
        }
    }

    fn last_before(&self, key: &[u8]) -> Option<(&Bytes, &V)> {
        match self {
            Node::Leaf(entries) => {
                let place = place_of(entries, key).unwrap_or_else(|at| at);
                let (key, value) = entries.get(place.checked_sub(1)?)?;
                Some((key, value))
            }
            Node::Inner(children) => {
                let before = children.get(..=child_of(children, key))?;
                let mut found = before.iter().rev().map(|(_, child)| child.last_before(key));
                found.find_map(|found| found)
            }
        }
    }
}

impl<V: Clone> Node<V> {
    fn insert(this: &mut Arc<Node<V>>, key: Bytes, value: V) -> (Option<V>, Split<V>) {
        match Arc::make_mut(this) {
            Node::Leaf(entries) => match place_of(entries, &key) {
                Ok(place) => {
                    let there = entries.get_mut(place);
                    let before = there.map(|there| std::mem::replace(&mut there.1, value));
                    (before, None)
                }
                Err(place) => {
                    entries.insert(place, (key, value));
                    (None, split(entries, place, Node::Leaf))
                }
            },
            Node::Inner(children) => {
                let place = child_of(children, &key);
                let Some((_, child)) = children.get_mut(place) else {
                    return (None, None);
                };
                let (before, right) = Node::insert(child, key, value);
                let Some(right) = right else {
                    return (before, None);
                };
                children.insert(place + 1, right);
                (before, split(children, place + 1, Node::Inner))
            }
        }
    }

    fn remove(this: &mut Arc<Node<V>>, key: &[u8]) -> Option<(Bytes, V)> {
        match Arc::make_mut(this) {
            Node::Leaf(entries) => {
                let place = place_of(entries, key).ok()?;
                Some(entries.remove(place))
            }
            Node::Inner(children) => {
                let place = child_of(children, key);
                let (_, child) = children.get_mut(place)?;
                let removed = Node::remove(child, key);
                if child.len() == 0 {
                    children.remove(place);
                }
                removed
            }
        }
    }
}

/// Where `key` is among `entries`, or where it would be.
fn place_of<T>(entries: &[(Bytes, T)], key: &[u8]) -> Result<usize, usize> {
    entries.binary_search_by(|(there, _)| there[..].cmp(key))
}

/// The child that has `key` if any has.
fn child_of<T>(children: &[(Bytes, T)], key: &[u8]) -> usize {
    match place_of(children, key) {
        Ok(place) => place,
        // Before all of them it would be in the first one.
        Err(after) => after.saturating_sub(1),
    }
}

/// Splits what has become too long by the entry that was added at `place`. What grows at its end is
/// left full.
fn split<T, V>(
    entries: &mut Vec<(Bytes, T)>,
    place: usize,
    node: fn(Vec<(Bytes, T)>) -> Node<V>,
) -> Split<V> {
    if entries.len() <= MOST_IN_NODE {
        return None;
    }
    let is_last = place + 1 == entries.len();
    let at = if is_last { place } else { entries.len() / 2 };
    let right = entries.split_off(at);
    let (least, _) = right.first()?;
    Some((least.clone(), Arc::new(node(right))))
}

/// See [`Map::iter`].
pub(crate) struct Iter<'a, V> {
    /// From the root down: the nodes, and the place in each that comes next.
    way: Vec<(&'a Node<V>, usize)>,
}

impl<'a, V> Iterator for Iter<'a, V> {
    type Item = (&'a Bytes, &'a V);

    fn next(&mut self) -> Option<Self::Item> {
        loop {
            let (node, next) = self.way.last_mut()?;
            let (node, place) = (*node, *next);
            *next += 1;
            match node {
                Node::Leaf(entries) => {
                    if let Some((key, value)) = entries.get(place) {
                        return Some((key, value));
                    }
                    self.way.pop();
                }
                Node::Inner(children) => match children.get(place) {
                    Some((_, child)) => self.way.push((child, 0)),
                    None => drop(self.way.pop()),
                },
            }
        }
    }
}

#[cfg(test)]
pub(crate) mod tests;
