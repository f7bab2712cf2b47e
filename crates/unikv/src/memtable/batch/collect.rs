//! Batches of pairs.

use super::Batch;

/// Each pair is a put.
impl<K: AsRef<[u8]>, V: AsRef<[u8]>> Extend<(K, V)> for Batch {
    fn extend<T: IntoIterator<Item = (K, V)>>(&mut self, pairs: T) {
        for (key, value) in pairs {
            self.put(key, value);
        }
    }
}

/// Each pair is a put.
///
/// ```
/// # use unikv::Batch;
/// let batch: Batch = [("apple", "red"), ("pear", "green")].into_iter().collect();
/// assert_eq!(batch.len(), 2);
/// ```
impl<K: AsRef<[u8]>, V: AsRef<[u8]>> FromIterator<(K, V)> for Batch {
    fn from_iter<T: IntoIterator<Item = (K, V)>>(pairs: T) -> Batch {
        let mut batch = Batch::new();
        batch.extend(pairs);
        batch
    }
}
