//! Version edits: what decodes encodes to an edit that is the same, however its fields were
//! ordered.
#![no_main]

use libfuzzer_sys::fuzz_target;
use unikv::fuzzing;
use unikv_fuzz::{allocation, typed};

fuzz_target!(|data: &[u8]| {
    // An entry of 6 bytes makes a structure of some hundred.
    let limit = 128 * data.len() + 8192;
    let decoded = allocation::bounded(limit, || fuzzing::edit(data));
    if let Some(again) = typed::checked(decoded) {
        assert!(again.len() <= data.len(), "nothing is added");
        assert_eq!(fuzzing::edit(&again).ok().as_deref(), Some(&again[..]));
    }
});
