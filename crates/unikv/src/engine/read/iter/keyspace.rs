//! An iterator's keyspace may be dropped, or emptied, while it goes on, which ends it.

use super::Iter;
use crate::base::keys::KeyspaceId;
use crate::engine::read::source::data_id;
use crate::error::{Error, Result};

impl Iter {
    /// Refuses to go on in a keyspace that has been dropped, or emptied.
    #[inline]
    pub(super) fn check_keyspace(&self) -> Result<()> {
        match self.keyspace {
            KeyspaceId::DEFAULT => Ok(()),
            _ => self.check_named_keyspace(),
        }
    }

    /// Ends the iteration if it `has_failed`. Whoever keeps the iterator keeps no files by it.
    pub(super) fn end_if(&mut self, has_failed: bool) {
        self.ended = has_failed;
        if has_failed {
            self.holder.release();
        }
    }

    fn check_named_keyspace(&self) -> Result<()> {
        let moment = self.holder.moment();
        let view = moment.read().view.load();
        let data = data_id(&view, moment.source(self.keyspace))?;
        if data != KeyspaceId::of(&self.begin) {
            return Err(Error::no_such_keyspace("the keyspace has been emptied"));
        }
        Ok(())
    }
}
