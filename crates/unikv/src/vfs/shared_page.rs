//! A page of a file that is memory of several processes: one stores words, the others load them.
//!
//! - Whoever creates a page holds it until it is released or its process ends, however that comes
//!   about. The others can ask whether it is held, without being in anybody's way. So what stands
//!   in a page is believed only while it is held: nothing of it needs to be durable.
//! - A word is stored and loaded whole. What was stored before a word is seen by whoever loads
//!   that word.
//! - A page is created under a temporary name and gets its own by a rename, so that nobody meets
//!   one under that name that is not held yet.

use std::fmt;
use std::io;

/// The words of a page.
pub const PAGE_WORDS: usize = 8;

/// Where the words begin in the file, and how long that is.
#[cfg_attr(not(target_os = "linux"), allow(dead_code))]
pub(super) const WORDS_AT: usize = 128;
pub(super) const PAGE_LEN: usize = super::BLOCK_BYTES;

/// A new page with this header, and no word stored. An error if the words would not fit after it.
pub(super) fn blank(header: &[u8]) -> io::Result<Vec<u8>> {
    if header.len() > WORDS_AT {
        return Err(io::ErrorKind::InvalidInput.into());
    }
    let mut bytes = header.to_vec();
    bytes.resize(PAGE_LEN, 0);
    Ok(bytes)
}

/// A page that processes share: see [`Vfs::create_page`](super::Vfs::create_page).
pub trait SharedPage: Send + Sync + fmt::Debug {
    /// Stores word `at`, below [`PAGE_WORDS`]. Whoever opened the page stores nothing.
    fn store(&self, at: usize, word: u64);
    /// Loads word `at`, below [`PAGE_WORDS`].
    fn load(&self, at: usize) -> u64;
    /// What the page was created with, in the first bytes of its file.
    fn header(&self) -> &[u8];
    /// Whether others see what is stored. If not, nobody can know more than whether it is held.
    fn is_shared(&self) -> bool {
        true
    }
    /// Whether whoever created the page still holds it.
    fn is_held(&self) -> io::Result<bool>;
    /// Gives the page up, if this has created it.
    fn release(&self);
}
