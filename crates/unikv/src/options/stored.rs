//! The options that a database keeps: one list of them, by name.

use super::Clustering;
use crate::codec::Compression;
use crate::error::{Error, Result};
use std::time::Duration;

/// Declares the options, each of which is there if it was set.
macro_rules! stored {
    ($($name:ident: $of:ty,)*) => {
        /// The options that are stored in a database, each if it is set.
        #[derive(Clone, Debug, Default, PartialEq)]
        pub(crate) struct StoredOptions {
            $(pub(crate) $name: Option<$of>,)*
        }

        /// The names of the options that a database stores.
        const NAMES: &[&str] = &[$(stringify!($name),)*];

        impl StoredOptions {
            /// These, and those of `others` that are not set here.
            pub(crate) fn or(&self, others: &StoredOptions) -> StoredOptions {
                StoredOptions {
                    $($name: self.$name.or(others.$name),)*
                }
            }

            /// The names of those that are set.
            pub(crate) fn set(&self) -> Vec<&'static str> {
                let set = [$(self.$name.is_some().then_some(stringify!($name)),)*];
                set.into_iter().flatten().collect()
            }

            /// Forgets the option of this name, if there is one.
            fn forget(&mut self, option: &str) {
                match option {
                    $(stringify!($name) => self.$name = None,)*
                    _ => {}
                }
            }
        }
    };
}

stored! {
    memory_budget: u64,
    memtable_bytes: u64,
    unsorted_bytes: u64,
    partition_bytes: u64,
    inline_value_bytes: u32,
    max_space_amp: f64,
    clustering: Clustering,
    key_table_bytes: u64,
    block_bytes: u32,
    scan_merge_limit: u32,
    compression: Compression,
    default_ttl: Duration,
    change_window_bytes: u64,
}

impl StoredOptions {
    /// These without those of some names.
    pub(super) fn without(&self, names: &[&'static str]) -> StoredOptions {
        let mut left = self.clone();
        names.iter().for_each(|name| left.forget(name));
        left
    }

    /// Forgets the option of this name, which is returned.
    ///
    /// # Errors
    /// `InvalidArgument` if no option that is stored has the name.
    pub(super) fn unset(&mut self, option: &str) -> Result<&'static str> {
        let name = NAMES.iter().find(|name| **name == option);
        let name = name.ok_or_else(|| {
            let what = format!("there is no option {option:?} that a database stores");
            Error::invalid(what, format!("choose one of {}", NAMES.join(", ")))
        })?;
        self.forget(name);
        Ok(name)
    }
}
