//! The options that a database keeps: one list of them, by name.

use super::Clustering;
use crate::codec::Compression;
use crate::error::{Error, Result};
use std::fmt;
use std::str::FromStr;
use std::time::Duration;

/// Declares the options, each of which is there if it was set.
macro_rules! stored {
    ($($name:ident: $of:ty = $in:ident::$variant:ident,)*) => {
        /// The options that are stored in a database, each if it is set.
        #[derive(Clone, Debug, Default, PartialEq)]
        pub(crate) struct StoredOptions {
            $(pub(crate) $name: Option<$of>,)*
        }

        /// An option that a database stores: see [`Options::unset`](crate::Options::unset). Its
        /// name as a text is that of the method.
        ///
        /// ```
        /// use unikv::StoredOption;
        ///
        /// assert_eq!("block_bytes".parse::<StoredOption>()?, StoredOption::BlockBytes);
        /// assert_eq!(StoredOption::BlockBytes.name(), "block_bytes");
        /// # unikv::Result::Ok(())
        /// ```
        #[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
        #[non_exhaustive]
        pub enum StoredOption {
            $(
                #[doc = concat!("[`", stringify!($in), "::", stringify!($name), "`](crate::", stringify!($in), "::", stringify!($name), ").")]
                $variant,
            )*
        }

        impl StoredOption {
            /// All of them.
            pub const ALL: &[StoredOption] = &[$(StoredOption::$variant,)*];

            /// The name of its method.
            pub fn name(self) -> &'static str {
                match self {
                    $(StoredOption::$variant => stringify!($name),)*
                }
            }
        }

        impl StoredOptions {
            /// These, and those of `others` that are not set here.
            pub(crate) fn or(&self, others: &StoredOptions) -> StoredOptions {
                StoredOptions {
                    $($name: self.$name.or(others.$name),)*
                }
            }

            /// Those that are set.
            pub(crate) fn set(&self) -> Vec<StoredOption> {
                let set = [$(self.$name.is_some().then_some(StoredOption::$variant),)*];
                set.into_iter().flatten().collect()
            }

            pub(super) fn forget(&mut self, option: StoredOption) {
                match option {
                    $(StoredOption::$variant => self.$name = None,)*
                }
            }
        }
    };
}

stored! {
    memory_budget: u64 = Options::MemoryBudget,
    memtable_bytes: u64 = Tuning::MemtableBytes,
    unsorted_bytes: u64 = Tuning::UnsortedBytes,
    partition_bytes: u64 = Tuning::PartitionBytes,
    inline_value_bytes: u32 = Options::InlineValueBytes,
    max_space_amp: f64 = Options::MaxSpaceAmp,
    clustering: Clustering = Options::Clustering,
    key_table_bytes: u64 = Tuning::KeyTableBytes,
    block_bytes: u32 = Tuning::BlockBytes,
    scan_merge_limit: u32 = Tuning::ScanMergeLimit,
    compression: Compression = Options::Compression,
    default_ttl: Duration = Options::DefaultTtl,
    change_window_bytes: u64 = Options::ChangeWindowBytes,
}

impl StoredOptions {
    /// These without some.
    pub(super) fn without(&self, options: &[StoredOption]) -> StoredOptions {
        let mut left = self.clone();
        options.iter().for_each(|option| left.forget(*option));
        left
    }
}

/// Fails with `InvalidArgument` if no option that is stored has the name.
impl FromStr for StoredOption {
    type Err = Error;

    fn from_str(name: &str) -> Result<StoredOption> {
        let mut all = StoredOption::ALL.iter();
        all.find(|option| option.name() == name)
            .copied()
            .ok_or_else(|| {
                let what = format!("there is no option {name:?} that a database stores");
                let names: Vec<_> = StoredOption::ALL.iter().map(|it| it.name()).collect();
                Error::invalid(what, format!("choose one of {}", names.join(", ")))
            })
    }
}

impl fmt::Display for StoredOption {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}
